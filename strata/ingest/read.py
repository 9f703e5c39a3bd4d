"""Read one source file as its shard declares it: which reader, for which columns."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from strata.ingest.files import SourceFile
from strata.ingest.read_avro import read_avro
from strata.ingest.read_csv import read_csv
from strata.ingest.read_debezium import read_debezium, read_records
from strata.ingest.read_jsonl import read_json, read_jsonl
from strata.ingest.read_parquet import read_orc, read_parquet
from strata.ingest.source import RawFile
from strata.ingest.updates import source_names
from strata.model.schema import Relation
from strata.model.spec import ShardSpec

READERS: Final[dict[str, Callable[[SourceFile, Sequence[str], Collection[str]], RawFile]]] = {
    "avro": read_avro,
    "csv": read_csv,
    "json": read_json,
    "jsonl": read_jsonl,
    "orc": read_orc,
    "parquet": read_parquet,
}


def read_file(file: SourceFile, spec: ShardSpec, relation: Relation) -> RawFile:
    """Return the rows of a file, not yet typed; of change streams with what became of them.

    Raises: InvalidRequest for a file of the wrong shape.
    """
    names = source_names(spec, relation)
    source = spec.source
    array = source.format == "json"
    if source.envelope == "debezium":
        return read_debezium(file, relation, names, array=array)
    if source.envelope == "upsert" and source.format in ("json", "jsonl"):
        return read_records(file, relation, names, source.deleted_column, array=array)
    optional = [column.name for column in relation.columns if column.default is not None]
    if source.envelope == "upsert" and source.deleted_column:
        optional.append(source.deleted_column)
    return READERS[source.format](file, names, optional)
