"""Reads one source file as its shard declares it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.formats.interface import KEPT, format_of
from strata.ingest.readers.named import by_shard_names, named_by_shard
from strata.ingest.readers.source import RawFile, named_before
from strata.model.schema import Relation
from strata.model.spec import ShardSpec


def read_file(
    file: SourceFile, spec: ShardSpec, relation: Relation, renamed: Mapping[str, str]
) -> Iterator[RawFile]:
    """Yield the untyped rows of a file or piece; for change streams with their operations.

    A small file comes at once; a large or packed one comes in parts of bounded size. `renamed` are
    former names of columns, each with the present one: a change from before has its values under
    them, an error about the header names them, and a row of JSON that has them is rejected.

    Raises: InvalidRequest for a file of the wrong shape.
    """
    file = replace(file, dialect=Dialect.of(spec.source))
    if spec.source.format == KEPT:  # a row was kept with the shard's names
        spec = replace(spec, source=replace(spec.source, names=()))
    called = spec.source.names_of_source
    try:
        columns = SourceColumns.of(spec, relation, renamed)
        for raw in format_of(spec.source.format).read(file, columns):
            found = by_shard_names(raw, called) if called else raw
            yield found if found.keep is None else replace(found, ids=relation.ids)
    except InvalidRequest as error:
        raise named_before(named_by_shard(error, called), renamed) from error
