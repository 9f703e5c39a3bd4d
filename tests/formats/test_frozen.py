"""Files of every format version can be read for ever; see freeze.py and contents.py."""

import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.format.check import differs
from strata.format.digest import content_digest
from strata.format.manifest import Split, decode_manifest, part_refs, stats_columns
from strata.format.part import Description, encode_part, read_footer, read_part, validate_part
from strata.model.spec import LAYOUTS
from strata.parts.manifests import StoredManifest
from strata.parts.pages import leaves_of
from strata.store.memory import MemoryBlob
from tests.formats import every_type
from tests.formats.contents import NEW, OLD, PAGED, VERSION, updates
from tests.support.paged import part
from tests.support.plain import plain

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*") if "_" not in path.name)
TYPES = f"v{VERSION}_types"


def frozen(version: str, name: str) -> bytes:
    return (HERE / version / name).read_bytes()


def test_there_are_files_of_every_version() -> None:
    assert [f"v{i}" for i in range(1, VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_part_still_holds_what_was_written(version: str, layout: str) -> None:
    data = frozen(version, f"part-{layout}.parquet")

    batches = list(read_part(data, OLD, read_format="row_with_validate"))
    found, wanted = pa.Table.from_batches(batches), updates()

    assert found.schema == wanted.schema
    for name in wanted.column_names:
        assert plain(found[name].combine_chunks()) == plain(wanted[name].combine_chunks()), name
    assert validate_part(data, OLD).mismatches == 0
    footer = read_footer(data)
    assert (footer.layout, footer.relation_version) == (layout, 4)
    assert footer.description == Description(-5, 1000, 7)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_part_is_read_in_a_newer_relation(version: str, layout: str) -> None:
    data = frozen(version, f"part-{layout}.parquet")

    table = pa.Table.from_batches(list(read_part(data, NEW, relations=[OLD, NEW])))

    assert table["20"].to_pylist() == ["?"] * 6
    assert table["3"].to_pylist() == updates()["3"].to_pylist()
    assert table["3"].type == pa.int64()
    assert table.column_names == ["20", "3", "1", "t", "d"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_manifest_still_says_what_was_written(version: str) -> None:
    table = decode_manifest(frozen(version, "manifest.arrow"))
    first, second = part_refs(table)

    assert first.key == "frozen/parts/1"
    assert first.splits == (Split(0, b"\x01"), Split(3, b"\x02"))
    assert (first.order, first.key_high, first.stats_version) == ((1, 2), None, 1)
    assert (second.layout, second.key_high, second.stats_version) == ("row", b"\x09", None)
    assert first.digest == content_digest(updates(), OLD)
    assert stats_columns(table).column_names == ["rows", "s.4", "s.13$.a"]
    assert table["s.4"][0].as_py()["high"] == 2**40
    assert table["s.4"][1].as_py() is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_manifest_in_pages_still_says_what_was_written(version: str) -> None:
    blob = MemoryBlob()
    with zipfile.ZipFile(HERE / version / "pages.zip") as archive:
        for key in archive.namelist():
            blob.set(key, archive.read(key))
    (key,) = (info.key for info in blob.list("") if "/manifests/" in info.key)

    manifest = StoredManifest.by_key(blob, "shard", key)
    refs = [ref for piece in manifest.pieces() for ref in part_refs(piece.read())]
    index = leaves_of(manifest)

    wanted = [part(number, one) for number, one in enumerate(PAGED)]
    assert refs == [ref for ref, _ in wanted]
    assert (manifest.root().level, index.num_rows) == (2, 4)
    assert index["parts"].to_pylist() == [2, 2, 2, 1]
    assert index["t_last"].to_pylist() == [1, 3, 5, 6]
    assert index["t_high"].to_pylist() == [2, 4, 6, 6]
    assert index["run_low"].to_pylist() == index["run_high"].to_pylist() == [0, 0, 1, 1]
    assert index["stats_parts"].to_pylist() == [2, 2, 1, 1]
    assert index["unknown_bytes"].to_pylist() == [0, 0, refs[5].size_bytes, 0]
    bounds = [
        None if one is None else (one["low"], one["high"]) for one in index["s.1"].to_pylist()
    ]
    assert bounds == [(0, 13), (20, 33), None, (60, 63)]
    assert {*manifest.names()} == {info.key for info in blob.list("")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_current_version_writes_what_its_frozen_part_holds(layout: str) -> None:
    # The row codec's bytes are the format; Parquet's may change with the library that writes them.
    data = frozen(f"v{VERSION}", f"part-{layout}.parquet")
    now = encode_part(
        updates(), OLD, layout, description=Description(-5, 1000, 7), row_group_bytes=600
    )
    _same_codec_bytes(data, now.data)


def _same_codec_bytes(before: bytes, now: bytes) -> None:
    old, new = pq.read_table(io.BytesIO(before)), pq.read_table(io.BytesIO(now))
    assert new.schema.names == old.schema.names
    for name in ("k", "v"):
        if name in old.schema.names:
            assert new[name].to_pylist() == old[name].to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_frozen_part_of_every_type_still_holds_what_was_written(layout: str) -> None:
    data, relation = frozen(TYPES, f"part-{layout}.parquet"), every_type.RELATION
    wanted = every_type.updates()

    formats = {"row": ["row"], "both": ["row", "structured"], "structured": ["structured"]}[layout]
    for read_format in formats:
        table = pa.Table.from_batches(list(read_part(data, relation, read_format=read_format)))
        assert table.schema == wanted.schema
        for name in wanted.column_names:
            pair = table[name].combine_chunks(), wanted[name].combine_chunks()
            assert not differs(*pair).any(), (read_format, relation.by_id.get(int(name)))
    assert validate_part(data, relation).mismatches == 0


@pytest.mark.parametrize("layout", ["row", "both"])
def test_the_current_version_writes_the_same_rows_of_every_type(layout: str) -> None:
    now = encode_part(
        every_type.updates(),
        every_type.RELATION,
        layout,
        description=Description(-5, 1000, 7),
        row_group_bytes=4000,
    )
    _same_codec_bytes(frozen(TYPES, f"part-{layout}.parquet"), now.data)


def test_expected_json_says_what_the_contents_say() -> None:
    values = json.loads(frozen(TYPES, "expected.json"))["values"]
    assert values == every_type.values()


def test_bad_columns_of_a_past_generation_are_passed_over() -> None:
    both, relation = frozen(TYPES, "damaged-both.parquet"), every_type.RELATION
    wanted = every_type.updates()
    assert read_footer(both).migration == 0

    for read_format in ("structured", "row", "row_with_validate"):
        table = pa.Table.from_batches(list(read_part(both, relation, read_format=read_format)))
        for name in wanted.column_names:
            assert not differs(table[name].combine_chunks(), wanted[name].combine_chunks()).any()

    structured = frozen(TYPES, "damaged-structured.parquet")
    with pytest.raises(Corrupt, match="must not be believed") as caught:
        list(read_part(structured, relation))
    assert caught.value.details["migration"] == 0
    with pytest.raises(InvalidRequest, match="no row codec"):
        list(read_part(structured, relation, read_format="row"))


def test_the_bad_columns_would_have_been_wrong() -> None:
    struct = pq.read_table(io.BytesIO(frozen(TYPES, "damaged-both.parquet")))["v_s"]
    column = next(c for c in every_type.RELATION.columns if str(c.type) == "int64")
    found = struct.combine_chunks().field(str(column.id)).to_pylist()
    assert found != every_type.updates()[str(column.id)].to_pylist()


def test_a_part_of_the_future_is_refused() -> None:
    with pytest.raises(Corrupt, match="format version") as caught:
        list(read_part(frozen(TYPES, "future-both.parquet"), every_type.RELATION))
    assert caught.value.details == {"version": 2, "known": 1}
    assert caught.value.cure
