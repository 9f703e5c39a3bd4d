"""Pieces of manifests: what they may hold, and what an index says wrongly of them."""

import pyarrow as pa
import pytest

from strata.errors import Corrupt
from strata.format.manifest import PartRef, encode_manifest, manifest_table
from strata.model.settings import StoreSettings
from strata.parts.manifests import ManifestBlobs, PageParts, StoredPiece
from strata.parts.pages import PageTarget
from strata.store.memory import MemoryBlob
from tests.support.paged import Invented, part

PARTS = [part(n, Invented(n, n + 3, known=n != 2)) for n in range(5)]
PAGE = pa.table({"size_bytes": [1000], "parts": [10]})


@pytest.mark.parametrize(
    ("limit", "edges"),
    [(10**6, [3, 7]), (400, [3, 7]), (399, [3, 5, 7]), (150, [3, 4, 5, 7]), (0, [3, 4, 5, 6, 7])],
)
def test_pieces_cover_the_parts_once(limit: int, edges: list[int]) -> None:
    some = PageParts(StoreSettings(), "shard", "manifest", PAGE, 3, 7)

    pieces = list(some.pieces(limit))

    assert some.size_bytes == 400
    assert [piece.start for piece in pieces] == edges[:-1]
    assert [piece.stop for piece in pieces] == edges[1:]
    assert sum(piece.size_bytes for piece in pieces) == some.size_bytes


def pieces() -> tuple[StoredPiece, StoredPiece]:
    """Return the same parts in one blob, and in a page of three and one of two."""
    blob = MemoryBlob()
    target, tree = PageTarget(blob, "shard", 0), ManifestBlobs(blob, "shard", "manifest")
    tables = [
        manifest_table([ref for ref, _ in some], [stats for _, stats in some])
        for some in (PARTS, PARTS[:3], PARTS[3:])
    ]
    rows = pa.concat_tables(map(target.put_page, tables[1:]), promote_options="default")
    return StoredPiece(tree, encode_manifest(tables[0])), StoredPiece(tree, pages=rows)


def keys_of(table: pa.Table) -> list[str]:
    return [str(key) for key in table["key"].to_pylist()]


def test_a_piece_is_the_same_in_one_blob_and_in_pages() -> None:
    wanted: list[PartRef] = [ref for ref, _ in PARTS]
    for piece in pieces():
        assert keys_of(piece.read(["key"])) == [ref.key for ref in wanted]
        assert keys_of(piece.forgotten().read(["key"], joined=False)) == [r.key for r in wanted]
        assert piece.has_any("s.1")
        assert not piece.has_any("s.bloom.")


def test_a_page_lists_as_many_parts_as_its_index_counts() -> None:
    _, piece = pieces()
    assert piece.pages is not None
    place = piece.pages.schema.get_field_index("parts")
    for counted in ([3, 1], [2, 2], [4, 2]):
        wrong = piece.pages.set_column(
            place, piece.pages.schema.field(place), pa.array(counted, pa.int64())
        )
        with pytest.raises(Corrupt, match="does not list the parts") as caught:
            StoredPiece(piece._manifest, pages=wrong).read(["key"])
        assert caught.value.details["manifest"] == "manifest"
