"""Reads one source file as its shard declares it."""

from collections.abc import Iterator
from dataclasses import replace

from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.source import RawFile
from strata.model.schema import Relation
from strata.model.spec import ShardSpec


def read_file(file: SourceFile, spec: ShardSpec, relation: Relation) -> Iterator[RawFile]:
    """Return the untyped rows of a file or piece; for change streams with their operations.

    A small file comes at once; a large or packed one comes in parts of bounded size.

    Raises: InvalidRequest for a file of the wrong shape.
    """
    file = replace(file, dialect=Dialect.of(spec.source))
    return format_of(spec.source.format).read(file, SourceColumns.of(spec, relation))
