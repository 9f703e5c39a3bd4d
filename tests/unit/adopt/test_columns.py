"""Columns of a table fit a shard, or are refused with column, type and cure."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

from strata.adopt.columns import Fit, RowTally
from strata.adopt.peer import CHANGE_TYPE, Flow, PeerVersion, reading_peer, without_secrets
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.model.schema import Column, Relation
from strata.model.types import parse_type


@dataclass(frozen=True)
class Somewhere:
    """As much of a table as a message needs."""

    address: str = "lake/x"
    format: str = "delta"
    identity: str = "x"


def fit(*columns: str, **defaults: object) -> Fit:
    made = (line.split() for line in columns)
    relation = Relation(
        0,
        tuple(
            Column(n, name, parse_type(kind), default=defaults.get(name))
            for n, (name, kind) in enumerate(made, 1)
        ),
        (),
        (),
    )
    return Fit.of("s", relation)


def version(**columns: pa.DataType) -> PeerVersion:
    return PeerVersion("1", "1", 0, pa.schema(columns))


def check(wanted: Fit, found: PeerVersion) -> None:
    wanted.check(Somewhere(), found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("int64", pa.int32()),
        ("int16", pa.int64()),
        ("float64", pa.float32()),
        ("numeric(12,2)", pa.decimal128(5, 2)),
        ("string", pa.large_string()),
        ("timestamptz", pa.timestamp("us", "UTC")),
        ("timestamp", pa.timestamp("ns")),
        ("date", pa.date32()),
        ("bool", pa.bool_()),
        ("bytes", pa.large_binary()),
        ("list<int64>", pa.list_(pa.int32())),
        ("map<string>", pa.map_(pa.string(), pa.string())),
        ("jsonb", pa.struct({"a": pa.int64()})),
        ("jsonb", pa.string()),
        ("int64", pa.string()),
        ("uuid", pa.string()),
        ("time", pa.time64("us")),
    ],
)
def test_types_that_hold_values_of_others(declared: str, kind: pa.DataType) -> None:
    check(fit(f"a {declared}"), version(a=kind))


@pytest.mark.parametrize(
    ("declared", "kind", "cure"),
    [
        ("int64", pa.timestamp("us"), "a: timestamp"),
        ("timestamptz", pa.int64(), "a: int64"),
        ("int64", pa.list_(pa.int64()), "a: list<int64>"),
        ("date", pa.bool_(), "a: bool"),
        ("bool", pa.int64(), "a: int64"),
        ("int64", pa.struct({"b": pa.int64()}), "a: jsonb"),
    ],
)
def test_types_that_hold_none(declared: str, kind: pa.DataType, cure: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(fit(f"a {declared}"), version(a=kind))
    said = str(refused.value)
    assert all(word in said for word in ("column='a'", str(kind), declared, cure, "lake/x"))


def test_undeclared_and_lacking_columns() -> None:
    with pytest.raises(InvalidRequest, match="does not declare") as refused:
        check(fit("a int64"), version(a=pa.int64(), b=pa.date32()))
    assert refused.value.cure == "strata schema add s b date"
    with pytest.raises(InvalidRequest, match="does not declare") as refused:
        check(fit("a int64"), version(a=pa.int64(), **{"b c": pa.list_(pa.int64())}))
    assert refused.value.cure == "strata schema add s 'b c' 'list<int64>'"
    with pytest.raises(InvalidRequest, match="does not declare") as refused:
        check(fit("a int64"), version(a=pa.int64(), d=pa.date32()))
    assert refused.value.cure is not None
    assert refused.value.cure.startswith("strata schema add s d_ date, and source.names:")
    with pytest.raises(InvalidRequest, match="lacks a declared column"):
        check(fit("a int64", "b date"), version(a=pa.int64()))
    check(fit("a int64", "b int64", b=1), version(a=pa.int64()))


def test_the_diff_has_a_name_of_its_own() -> None:
    assert fit("strata_d int64", "strata_d_ int64").diff == "strata_d__"


def test_a_change_of_an_unknown_kind_is_no_insert() -> None:
    batch = pa.record_batch({"a": [1], CHANGE_TYPE: ["truncate"]})
    found = version(a=pa.int64())
    flow, columns = Flow(found, False, None, lambda: iter([batch])), fit("a int64")
    schema = columns.schema(flow, None, found)

    with pytest.raises(Corrupt, match="unknown kind"):
        list(columns.tables(flow, None, schema, RowTally()))


@pytest.mark.parametrize(
    ("address", "shown"),
    [("lake/x", "lake/x"), ("s3://k:s@b/x?sig=y", "s3://b/x"), ("s3://b/x", "s3://b/x")],
)
def test_addresses_are_shown_without_secrets(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


def test_neither_are_those_in_the_words_of_a_library() -> None:
    with pytest.raises(Unavailable) as failed, reading_peer("deltalake", "s3://b/x"):
        raise OSError("GET https://key:hidden@b.example/x?sig=hidden  was refused")
    assert "hidden" not in str(failed.value)
    assert "was refused" in str(failed.value)
