"""What no ingest takes in is refused when a declaration is inferred, not first by the ingest."""

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers.infer import infer
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
