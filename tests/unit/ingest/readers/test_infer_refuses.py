"""What no ingest takes in is refused when a declaration is inferred, not first by the ingest."""

from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.engine import ingest
from strata.ingest.readers.infer import infer
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import World

UNION = pa.UnionArray.from_sparse(
    pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
)
LISTED = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), UNION)
INSIDE = pa.StructArray.from_arrays([UNION], ["u"])
VARIANT = pa.array(
    [{"metadata": b"\x01", "value": b"\x0c"}] * 2,
    pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
)


def put(world: World, kind: str, *columns: tuple[str, pa.Array]) -> str:
    write = {"orc": po.write_table, "parquet": pq.write_table}[kind]
    table = pa.Table.from_arrays([array for _, array in columns], [name for name, _ in columns])
    write(table, world.root / f"x.{kind}")
    return f"x.{kind}"


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_a_column_that_stands_twice_is_refused(tmp_path: Path, kind: str) -> None:
    """One of them was proposed, and each ingest refused the file."""
    world = World(tmp_path)
    file = put(world, kind, ("id", pa.array([1])), ("a", pa.array([2])), ("a", pa.array([3])))

    with pytest.raises(InvalidRequest, match="the file has a column twice") as refused:
        infer(world.settings, "new", file)

    assert refused.value.details["file"] == f"x.{kind}"
    assert refused.value.details["column"] == "a"


@pytest.mark.parametrize("column", [UNION, LISTED, INSIDE])
def test_a_union_of_orc_is_refused_by_name_with_a_cure(tmp_path: Path, column: pa.Array) -> None:
    """It was proposed as jsonb, and no row of it could be read."""
    world = World(tmp_path)
    file = put(world, "orc", ("id", pa.array([1, 2])), ("u", column))

    with pytest.raises(InvalidRequest, match="no value of a column") as refused:
        infer(world.settings, "new", file)

    assert refused.value.details["file"] == "x.orc"
    assert refused.value.details["column"] == "u"
    assert "for each type" in str(refused.value.cure)


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_a_variant_is_refused_with_its_cure(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    file = put(world, kind, ("id", pa.array([1, 2])), ("v", VARIANT))

    with pytest.raises(InvalidRequest, match="no value of a column") as refused:
        infer(world.settings, "new", file)

    assert refused.value.details["column"] == "v"
    assert "write it as JSON text" in str(refused.value.cure)


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_a_map_whose_keys_are_no_texts_is_refused(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path)
    keyed = pa.array([[(1, "a")], []], pa.map_(pa.int32(), pa.string()))
    file = put(world, kind, ("id", pa.array([1, 2])), ("m", keyed))

    with pytest.raises(InvalidRequest, match="no value of a column") as refused:
        infer(world.settings, "new", file)

    assert refused.value.details["reason"] == "it has a map whose keys are no texts"


BYTES = pa.struct([("a", pa.binary()), ("b", pa.list_(pa.int32()))])
NO_JSON = {
    "bytes": (BYTES, {"a": b"\xff", "b": [1]}, "record<a: bytes, b: list<int32>>"),
    "listed": (pa.list_(BYTES), [{"a": b"\xff"}], "list<record<a: bytes, b: list<int32>>>"),
    "inner": (pa.struct([("i", BYTES)]), {"i": {"a": b"x"}}, "record<i: record<a: bytes, "),
    "named": (pa.struct([("a b", pa.binary())]), {"a b": b"x"}, None),
    "span": (pa.struct([("s", pa.duration("us"))]), {"s": 5}, "record<s: interval day to second>"),
}


WRITTEN = [("parquet", name) for name in NO_JSON] + [("orc", name) for name in NO_JSON][:-1]


@pytest.mark.parametrize(("kind", "name"), WRITTEN)  # ORC has no spans of time
def test_what_is_no_json_is_proposed_field_by_field(tmp_path: Path, kind: str, name: str) -> None:
    """It was proposed as jsonb, and each row with a value was rejected."""
    world = World(tmp_path)
    arrow, value, wanted = NO_JSON[name]
    file = put(
        world, kind, ("id", pa.array([1, 2, 3])), ("v", pa.array([value, None, value], arrow))
    )

    declaration = infer(world.settings, "new", file).declaration
    world.machine.create(parse_spec(declaration))
    report = ingest(world.stores, world.settings, "new", paths=[file])

    assert wanted is None or declaration["columns"][1]["type"].startswith(wanted)
    assert (report.updates, report.counts.rejected) == (3, 0)


NO_NAMES = {
    "colon": pa.struct([("c:d", pa.binary())]),
    "case": pa.struct([("a", pa.binary()), ("A", pa.binary())]),
    "inner": pa.list_(pa.struct([("i", pa.struct([("", pa.binary())]))])),
}


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_bytes_below_names_that_no_record_has_are_refused(
    tmp_path: Path, kind: str, name: str
) -> None:
    """They were proposed as jsonb, and each ingest refused the file."""
    world = World(tmp_path)
    file = put(world, kind, ("id", pa.array([1])), ("s", pa.nulls(1, NO_NAMES[name])))

    with pytest.raises(InvalidRequest, match="no value of a column") as refused:
        infer(world.settings, "new", file)

    assert refused.value.details["column"] == "s"
    assert "capital letters" in str(refused.value.cure)


def test_bytes_of_avro_whose_names_case_alone_distinguishes_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    fields = [{"name": name, "type": "bytes"} for name in "aA"]
    inner = {"type": "record", "name": "inner", "fields": fields}
    outer = {"type": "record", "name": "outer", "fields": [{"name": "s", "type": inner}]}
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(outer), [{"s": {"a": b"x", "A": b"y"}}])

    with pytest.raises(InvalidRequest, match="no value of a column") as refused:
        infer(world.settings, "new", "x.avro")

    assert refused.value.details["column"] == "s"
