"""Avro's values come in as their schema says, one by one; fastavro's own readings do not matter."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from strata.ingest.readers.avro_values import column, written_out
from tests.unit.ingest.test_engine import World
from tests.unit.ingest.values.test_exact_json import held


def avro(kind: Any, values: list[Any]) -> bytes:
    """Return a file whose header says the logical types that the records were written without."""
    plain = stored(kind)
    out = io.BytesIO()
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": plain}]
    rows = [{"id": n, "v": value} for n, value in enumerate(values)]
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)
    data = out.getvalue()
    wanted = {"type": "record", "name": "r", "fields": [fields[0], {"name": "v", "type": kind}]}
    header = io.BytesIO()
    fastavro.writer(header, wanted, [])
    sync = data[-16:]
    head = header.getvalue()[:-16]
    begins = data.index(sync) + 16
    return head + sync + data[begins:]


def stored(kind: Any) -> Any:
    if isinstance(kind, list):
        return [stored(one) for one in kind]
    if isinstance(kind, dict):
        return {k: stored(v) for k, v in kind.items() if k != "logicalType"}
    return kind


def ingested(root: Path, kind: Any, values: list[Any], declared: str) -> tuple[dict[int, Any], int]:
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": declared}]
    world = World(root, columns=columns, source={"format": "avro", "max_rejected": 1.0})
    path = root / "x.avro"
    root.mkdir(exist_ok=True)
    path.write_bytes(avro(kind, values))
    report = world.ingest(str(path), lower=0, upper=10)
    return held(world), report["rejected"]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}


def units(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def test_a_decimal_with_more_digits_than_its_schema_says_keeps_them(tmp_path: Path) -> None:
    values = [units(123456789), units(-1), units(10**40), units(12345)]

    found, rejects = ingested(tmp_path, DECIMAL, values, "numeric(38,2)")

    assert found == {0: Decimal("1234567.89"), 1: Decimal("-0.01"), 3: Decimal("123.45")}
    assert rejects == 1


def test_decimals_stand_in_lists_and_beside_nothing(tmp_path: Path) -> None:
    kind = ["null", {"type": "array", "items": DECIMAL}]

    found, rejects = ingested(tmp_path, kind, [[units(123456)], None], "list<numeric(10,2)>")

    assert (found, rejects) == ({0: [Decimal("1234.56")], 1: None}, 0)


@pytest.mark.parametrize(
    ("logical", "base", "declared", "far"),
    [
        ("timestamp-micros", "long", "timestamptz", 253402300800000000),
        ("timestamp-millis", "long", "timestamptz", -(2**62)),
        ("timestamp-nanos", "long", "timestamptz", 1),
        ("local-timestamp-micros", "long", "timestamp", 2**62),
        ("date", "int", "date", 2932897),
        ("time-millis", "int", "time", 86_400_001),
        ("time-micros", "long", "time", -1),
    ],
)
def test_a_time_beyond_its_ends_takes_only_its_row_down(
    tmp_path: Path, logical: str, base: str, declared: str, far: int
) -> None:
    kind = {"type": base, "logicalType": logical}

    found, rejects = ingested(tmp_path, kind, [0, far, 1_000_000], declared)

    assert (found.keys(), rejects) == ({0, 2}, 1)


@pytest.mark.parametrize("stored", ["bytes", {"type": "fixed", "name": "f", "size": 4}])
@pytest.mark.parametrize(
    ("wrap", "inside"),
    [
        (lambda kind: ["null", "string", MICROS, kind], lambda value: value),
        (lambda kind: {"type": "array", "items": ["long", kind]}, lambda value: [value]),
        (lambda kind: of_fields("inner", a=kind, b=["int", "string"]), lambda v: {"a": v, "b": 1}),
    ],
)
def test_a_decimal_of_a_union_is_its_number(
    tmp_path: Path, stored: Any, wrap: Any, inside: Any
) -> None:
    """It lost its meaning there, and its row was rejected; digits beyond the schema's count."""
    own = {"type": stored} if isinstance(stored, str) else stored
    kind = wrap({**own, "logicalType": "decimal", "precision": 5, "scale": 2})
    values = [inside(n.to_bytes(4, "big", signed=True)) for n in (53, -150, 2**31 - 1)]

    found, rejects = ingested(tmp_path, kind, values, "jsonb")

    said = [json.dumps(inside(f)) for f in (0.53, -1.5, 21474836.47)]
    assert (found, rejects) == ({n: s.replace(" ", "") for n, s in enumerate(said)}, 0)


def test_a_decimal_of_a_union_without_bytes_takes_only_its_row_down(tmp_path: Path) -> None:
    assert ingested(tmp_path, ["string", DECIMAL], [b"", "a"], "jsonb") == ({1: '"a"'}, 1)


def test_a_precision_beyond_arrow_makes_objects_or_wide_decimals() -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
    wider = {"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 2}

    assert column([units(12345)], wide).type == pa.decimal256(76, 2)
    assert column([units(12345)], wider).to_pylist() == [Decimal("123.45")]


UUID = "00112233-4455-6677-8899-aabbccddeeff"


@pytest.mark.parametrize(
    ("kind", "values", "declared", "wanted"),
    [
        ({"type": "double", "logicalType": "timestamp-millis"}, [5.5], "float64", [5.5]),
        ({"type": "long", "logicalType": "date"}, [1, 2**40], "int64", [1, 2**40]),
        ({"type": "int", "logicalType": "timestamp-micros"}, [7], "int64", [7]),
        ({"type": "bytes", "logicalType": "uuid"}, [b"a" * 16, b"\xff"], "string", ["a" * 16]),
    ],
)
def test_a_logical_type_on_another_type_means_nothing(
    tmp_path: Path, kind: Any, values: list[Any], declared: str, wanted: list[Any]
) -> None:
    """A double of 5.5 milliseconds became the time of 5; now Avro's specification holds."""
    found, rejected = ingested(tmp_path, kind, values, declared)
    assert [found[n] for n in sorted(found)] == wanted
    assert rejected == len(values) - len(wanted)


def test_a_uuid_may_be_stored_as_its_bytes(tmp_path: Path) -> None:
    kind = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
    data = bytes.fromhex(UUID.replace("-", ""))
    assert ingested(tmp_path, kind, [data], "uuid") == ({0: UUID}, 0)


def test_a_text_that_is_no_uuid_takes_only_its_row_down(tmp_path: Path) -> None:
    """In a union it took the file."""
    kind = [{"type": "string", "logicalType": "uuid"}, "int"]
    assert ingested(tmp_path, kind, [UUID, "none"], "uuid") == ({0: UUID}, 1)


def test_a_decimal_without_bytes_takes_only_its_row_down(tmp_path: Path) -> None:
    """Kafka Connect rejects it as well; nobody wrote a 0."""
    values = [b"", units(12345), None, units(0)]
    found, rejected = ingested(tmp_path, ["null", DECIMAL], values, "numeric(20,2)")
    assert (found, rejected) == ({1: Decimal("123.45"), 2: None, 3: Decimal(0)}, 1)


def test_a_decimal_beyond_arrow_does_not_make_bytes_of_others() -> None:
    wide = {**DECIMAL, "scale": 0}
    nested = {"type": "map", "values": wide}
    assert column([units(10**80), units(53)], wide) == [str(10**80), "53"]
    assert column([{"a": units(53), "b": None}, {"a": units(10**80)}], nested) == [
        {"a": "53", "b": None},
        {"a": str(10**80)},
    ]


MICROS: Any = {"type": "long", "logicalType": "timestamp-micros"}
SAID = '{"t":"1970-01-01T00:00:00.002000+00:00"}'


def of_fields(name: str, **kinds: Any) -> dict[str, Any]:
    fields = [{"name": one, "type": kind} for one, kind in kinds.items()]
    return {"type": "record", "name": name, "fields": fields}


TIMED = of_fields("timed", t=MICROS)
NODE = of_fields("node", t=MICROS, next=["null", "node"])
T2 = {"t": 2000}
TWICE = f'{{"a":{SAID},"b":{SAID}}}'
NEXT = f'{{"next":{{"next":null,{SAID[1:]},{SAID[1:]}'


@pytest.mark.parametrize("value", [1_500, 1_000_000_001, -1, 0, 1_000_000_000])
@pytest.mark.parametrize("logical", ["timestamp-nanos", "local-timestamp-nanos"])
def test_nanoseconds_in_a_union_are_said_as_others_are(
    tmp_path: Path, logical: str, value: int
) -> None:
    kind = {"type": "long", "logicalType": logical}
    alone, _ = ingested(tmp_path / "alone", kind, [value], "jsonb")
    assert ingested(tmp_path / "union", ["string", kind], [value], "jsonb") == (alone, 0)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (of_fields("two", u=["int", "string"], t=MICROS), {"u": 1, **T2}, SAID[:-1] + ',"u":1}'),
        (["int", TIMED], T2, SAID),
        (of_fields("pair", a=TIMED, b=["null", "timed"]), {"a": T2, "b": T2}, TWICE),
        (NODE, {**T2, "next": {**T2, "next": None}}, NEXT),
        (["null", {"type": "array", "items": ["null", "r"]}], [], "[]"),
    ],
)
def test_a_time_is_no_number_wherever_its_type_stands(
    tmp_path: Path, kind: Any, value: Any, said: str
) -> None:
    """Beside a union, in a union, behind a name, and in a type that contains itself."""
    assert ingested(tmp_path, kind, [value], "jsonb") == ({0: said}, 0)


def test_a_decimal_that_is_none_leaves_the_times_of_other_rows(tmp_path: Path) -> None:
    kind = of_fields("priced", d=DECIMAL, t=MICROS)
    values = [{"d": units(1), "t": 2000}, {"d": b"", "t": 2000}]

    found, rejects = ingested(tmp_path, kind, values, "jsonb")

    assert (found, rejects) == ({0: f'{{"d":0.01,{SAID[1:]}'}, 1)


def test_a_type_that_is_named_twice_has_its_decimals_twice(tmp_path: Path) -> None:
    fixed = {"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal"}
    kind = of_fields("pair", a={**fixed, "precision": 4, "scale": 2}, b="f")

    found, rejects = ingested(
        tmp_path, kind, [{"a": b"\0\1", "b": b"\0\2"}], "record<a: numeric(4,2), b: numeric(4,2)>"
    )

    assert (found, rejects) == ({0: {"a": Decimal("0.01"), "b": Decimal("0.02")}}, 0)


def test_a_few_names_do_not_stand_for_a_million_types() -> None:
    kind: Any = {"type": "fixed", "name": "b0", "size": 1}
    for number in range(1, 30):
        kind = of_fields(f"b{number}", l=kind, r=f"b{number - 1}")
    with pytest.raises(ValueError, match="too many types"):
        written_out(of_fields("inner", a=kind))
