"""Read one source file as its shard declares it: which reader, for which columns, part by part."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.avro import read_avro
from strata.ingest.readers.csv import read_csv
from strata.ingest.readers.debezium import read_debezium, read_records
from strata.ingest.readers.file_ranges import read_parts
from strata.ingest.readers.jsonl import read_json, read_jsonl
from strata.ingest.readers.kept import read_kept
from strata.ingest.readers.parquet import read_orc, read_parquet
from strata.ingest.readers.source import RawFile
from strata.ingest.updates import INT64, source_names
from strata.model.schema import Relation
from strata.model.spec import ShardSpec

Reader = Callable[[SourceFile, Sequence[str], Collection[str]], RawFile]

READERS: Final[dict[str, Reader]] = {
    "avro": read_avro,
    "csv": read_csv,
    "json": read_json,
    "jsonl": read_jsonl,
}
KEPT_FORMAT: Final = "kept"  # of rows of the quarantine that are no text
BY_GROUPS: Final = {"orc": read_orc, "parquet": read_parquet}


def read_file(file: SourceFile, spec: ShardSpec, relation: Relation) -> Iterator[RawFile]:
    """Yield the rows of a file or piece, not yet typed; of change streams what became of them.

    A small file comes at once, what is large or packed in parts of bounded size.

    Raises: InvalidRequest for a file of the wrong shape.
    """
    names = source_names(spec, relation)
    source = spec.source
    optional = [column.name for column in relation.columns if column.default is not None]
    if source.envelope == "upsert" and source.deleted_column:
        optional.append(source.deleted_column)
    if source.format == KEPT_FORMAT:
        yield read_kept(file, names, optional)
        return
    if source.format in BY_GROUPS:
        yield from BY_GROUPS[source.format](file, names, optional)
        return
    file = replace(file, dialect=Dialect.of(source))
    for part in read_parts(file, source.format):
        raw = _read(part, spec, relation, names, optional)
        yield replace(raw, number=file.number, before=part.before, whole=part.is_whole)


def _read(
    part: SourceFile,
    spec: ShardSpec,
    relation: Relation,
    names: Sequence[str],
    optional: Collection[str],
) -> RawFile:
    source = spec.source
    array = source.format == "json"
    if source.envelope == "debezium":
        return read_debezium(part, relation, names, array=array)
    if source.envelope == "upsert" and array | (source.format == "jsonl"):
        return read_records(part, relation, names, source.deleted_column, array=array)
    if source.format == "jsonl":
        types = {column.name: column.type for column in relation.columns}
        if source.envelope == "diff":
            types[source.diff_column] = INT64
        return read_jsonl(part, names, optional, types)
    return READERS[source.format](part, names, optional)
