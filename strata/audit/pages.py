"""Check what the indexes of a manifest say of its pages against the pages themselves."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from strata.audit.blame import find_lies
from strata.audit.compare import Finding
from strata.format.manifest import stats_columns
from strata.format.pages import INDEX_SCHEMA, Index
from strata.model.schema import Relation
from strata.parts.manifests import StoredManifest
from strata.parts.pages import row_of_pages, row_of_parts
from strata.stats import union
from strata.stats.wire import PREFIX, parse_name

# What an index says of a blob, and not of the parts
_OF_BLOBS: Final = frozenset({"key", "pages", "blob_bytes", "stored_bytes"})


def page_findings(pages: pa.Table, parts: pa.Table, relation: Relation) -> Iterator[Finding]:
    """Yield what neighbouring pages list otherwise than their rows of an index say.

    Shape: `pages` has one row a page, `parts` the parts of all of them, in order.
    """
    start = 0
    for number, count in enumerate(pages["parts"].to_pylist()):
        page, row = parts.slice(start, count), pages.slice(number, 1)
        start += count
        yield from _differences(row, row_of_parts(page, "", 0), page, relation)


def index_findings(manifest: StoredManifest, relation: Relation) -> Iterator[Finding]:
    """Yield what the indexes of a manifest say otherwise than those below them; pages are not read.

    Raises: Corrupt.
    """

    def below(index: Index) -> Iterator[Finding]:
        if index.level == 1:
            return
        for number, lower in enumerate(manifest.below(index)):
            row = index.table.slice(number, 1)
            yield from _differences(row, row_of_pages(lower.table, "", 0), lower.table, relation)
            yield from below(lower)

    if manifest.in_pages:
        yield from below(manifest.root())


def _differences(
    row: pa.Table, found: pa.Table, below: pa.Table, relation: Relation
) -> Iterator[Finding]:
    key = row["key"][0].as_py()
    for name in INDEX_SCHEMA.names:
        said, true = row[name][0].as_py(), found[name][0].as_py()
        if name not in _OF_BLOBS and said != true:
            yield Finding("page", f"the index says of {key} {name} {said}, the page {true}")
    claims = {
        name for name in row.column_names if name.startswith(PREFIX) and row[name][0].is_valid
    }
    actual = union(stats_columns(below))
    known = set() if actual is None else {*actual.schema.names}
    for name in sorted(claims - known):
        parsed = parse_name(name)
        suspect = "" if parsed is None else str(parsed[0])
        yield Finding("page", f"the index knows {name} of {key}, some part of it does not", suspect)
    if actual is None:
        return
    recorded = stats_columns(row.select(["rows", *sorted(claims & known)]))
    for lie in find_lies(recorded.combine_chunks().to_batches()[0], actual, relation):
        yield Finding(lie.column, f"union of the page {key}: {lie}", str(lie.column_id))
