"""Parts: one Parquet blob of updates, in three layouts, and one reader for all of them.

Layout `row` holds the row codec's bytes (`k, v, t, d`), `structured` typed columns (`t, d, k_s,
v_s`), `both` holds both, so that one can be checked against the other while a shard migrates.
Rows are returned in the columns of the wanted relation version, even if another version wrote them.

Damage is detected: pages carry checksums, the schema must match the footer's relation version, and
everything undecodable is `Corrupt`. Source: docs/reference/format.md.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.format.check import PartCheck, compare
from strata.format.columns import K_S, V_S, D, K, T, V, child
from strata.format.encodings import arrow_type
from strata.format.layout import EMPTY_CHILD, Description, Footer, layout_schema, parse_footer
from strata.format.part_write import EncodedPart, encode_part
from strata.format.rowcodec.codec import decode_rows
from strata.format.values.coded import CODED, CODED_BYTES, are_within, decoded, is_coded
from strata.format.values.migrate import check_widens, default_array, widen
from strata.model.schema import Column, Relation
from strata.model.spec import READ_FORMATS
from strata.model.types import NESTED

__all__ = [
    "BATCH_ROWS",
    "Description",
    "EncodedPart",
    "Footer",
    "PartCheck",
    "encode_part",
    "read_footer",
    "read_part",
    "validate_part",
]

BATCH_ROWS: Final = 65_536  # rows decoded at a time; measured: 32 K to 64 K is best
CODED_ROWS: Final = 8_192  # smaller row groups are read together, with texts as plain texts

Source = Any  # bytes, a pyarrow NativeFile or buffer, or a seekable binary file


def read_part(  # noqa: PLR0913 -- all but two are options, by name
    source: Source,
    relation: Relation,
    *,
    relations: Sequence[Relation] = (),
    read_format: str = "structured",
    columns: Collection[int] | None = None,
    row_groups: Sequence[int] | None = None,
    batch_rows: int = BATCH_ROWS,
    on_check: Callable[[PartCheck], None] | None = None,
    threads: bool = True,
    coded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield a part's updates in the columns of `relation`.

    `relations` are all versions that may have written the part. `columns` are the wanted ids, None
    for all; others are not decoded. `row_with_validate` decodes both halves of a part that has
    both, yields the columns, and passes each batch's check to `on_check`; without `on_check`, a
    mismatch is Corrupt. `threads`: decode columns in parallel; leave it off if parts or tasks
    already run in parallel. `coded`: texts that the part stores in small dictionaries may stay
    coded (`strata.format.values.coded`).

    Shape: `updates_schema(relation)` restricted to `columns`, then t, d.
    Raises: Corrupt for damaged or contradicting bytes; InvalidRequest for a read format that the
    part cannot serve, unknown column ids or row groups; Unavailable if the file itself fails.
    """
    wanted = _wanted(relation, columns)
    with _damage():
        file = _open(source)
        footer = parse_footer(file.metadata.metadata)
        stored = _stored_relation(footer, [*relations, relation])
        mode = _mode(footer, read_format)
        _check_rows(file, footer)
        _check_schema(file.schema_arrow, layout_schema(stored, footer.layout))
        groups = _row_groups(file, row_groups)
        plan = _Plan(stored, wanted, mode)
        wanted_rows = sum(file.metadata.row_group(i).num_rows for i in groups)
        steps = [groups]
        # Each row group has its own dictionary and is decoded alone, but not fetched alone.
        alone = len(groups) == 1 or _in_memory(source)
        texts = plan.texts() if coded and alone and wanted_rows >= CODED_ROWS * len(groups) else []
        if paths := _in_dictionaries(file.metadata, groups, texts):
            file = _open(source, metadata=file.metadata, read_dictionary=paths)
            steps = [[group] for group in groups]
        batches = chain.from_iterable(
            file.iter_batches(batch_rows, row_groups=s, columns=plan.paths(), use_threads=threads)
            for s in steps
        )
        rows = 0
        while (batch := next(batches, None)) is not None:
            made = plan.migrate(batch, rows, on_check)
            rows += batch.num_rows
            del batch
            if rows == wanted_rows and (more := next(batches, None)) is not None:
                rows += more.num_rows
            if rows == wanted_rows:  # fetched bytes are not held until the next batch is wanted
                del batches, file
                batches = chain()
            yield made
            del made
        if rows != wanted_rows:
            raise Corrupt("a part's pages hold too few rows", found=rows, wanted=wanted_rows)


def validate_part(
    source: Source, relation: Relation, relations: Sequence[Relation] = ()
) -> PartCheck:
    """Compare the two halves of a part, for each column of the version that wrote it.

    A part with only one half is decoded completely and has no invalid values.
    Raises: Corrupt if a half cannot be decoded at all.
    """
    known = [*relations, relation]
    stored = _stored_relation(read_footer(source), known)
    total = PartCheck()
    checks: list[PartCheck] = []
    rows = 0
    for batch in read_part(
        source, stored, relations=known, read_format="row_with_validate", on_check=checks.append
    ):
        rows += batch.num_rows
    for check in checks:
        total = total.plus(check)
    return PartCheck(rows, total.valid, total.invalid, total.first)


def read_footer(source: Source) -> Footer:
    """Return the footer of a part.

    Raises: Corrupt.
    """
    with _damage():
        return parse_footer(_open(source).metadata.metadata)


@dataclass(frozen=True)
class _Side:
    """The key or the value."""

    codec: str  # the Parquet column of the row codec's bytes
    struct: str  # the Parquet column of the structured columns
    stored: tuple[Column, ...]
    found: tuple[Column, ...]  # the wanted columns

    def decode(self, batch: pa.RecordBatch, first_row: int) -> dict[int, pa.Array]:
        """Decode the wanted columns from the row codec's bytes; return them by id."""
        ids = {column.id for column in self.found}
        wanted = [place for place, column in enumerate(self.stored) if column.id in ids]
        decoded = decode_rows(
            batch.column(self.codec),
            [column.type for column in self.stored],
            wanted=wanted,
            names=[column.name for column in self.stored],
            first_row=first_row,
        )
        return {self.stored[i].id: array for i, array in zip(wanted, decoded, strict=True)}


@dataclass(frozen=True)
class _Plan:
    """The stored columns to decode, and their conversion to the wanted ones."""

    stored: Relation
    wanted: tuple[Column, ...]
    mode: str  # row | structured | row_with_validate

    @cached_property
    def sides(self) -> list[_Side]:
        """Key and value."""
        ids = {column.id for column in self.wanted}
        return [
            _Side(codec, struct, side, tuple(column for column in side if column.id in ids))
            for codec, struct, side in (
                (K, K_S, self.stored.key_columns),
                (V, V_S, self.stored.value_columns),
            )
        ]

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the yielded batches if no text is coded."""
        fields = [pa.field(child(column.id), arrow_type(column.type)) for column in self.wanted]
        return pa.schema([*fields, *(pa.field(n, pa.int64(), nullable=False) for n in (T, D))])

    def texts(self) -> list[str]:
        """Return the Parquet columns of texts that are yielded as they are stored."""
        types = {column.id: column.type for column in self.wanted}
        return [
            f"{side.struct}.{child(column.id)}"
            for side in self.sides
            for column in side.found
            if self.mode == "structured" and column.type == types[column.id]
            if column.type.kind in CODED
        ]

    def paths(self) -> list[str]:
        """Return the Parquet columns to read."""
        paths = [T, D]
        for side in self.sides:
            if side.found and self.mode != "structured":
                paths.append(side.codec)
            if self.mode != "row":
                paths += [f"{side.struct}.{child(column.id)}" for column in side.found]
        return paths

    def migrate(
        self, batch: pa.RecordBatch, first_row: int, on_check: Callable[[PartCheck], None] | None
    ) -> pa.RecordBatch:
        """Return one batch of the file as updates in the wanted columns."""
        arrays: dict[int, pa.Array] = {}
        for side in self.sides:
            if not side.found:
                continue
            if self.mode == "row":
                values = side.decode(batch, first_row)
            else:
                values = _children(batch, side.struct)
                if self.mode == "row_with_validate":
                    decoded = side.decode(batch, first_row)
                    _report(
                        compare(
                            side.found,
                            [decoded[c.id] for c in side.found],
                            [values[c.id] for c in side.found],
                            first_row,
                        ),
                        on_check,
                    )
            arrays.update(values)
        return self._updates(batch, arrays)

    def _updates(self, batch: pa.RecordBatch, arrays: dict[int, pa.Array]) -> pa.RecordBatch:
        out = []
        for column in self.wanted:
            old = self.stored.by_id.get(column.id)
            if old is None:
                out.append(default_array(column, batch.num_rows))
            else:
                check_widens(old, column)
                array = arrays[column.id]
                if is_coded(array.type):
                    out.append(_coded(array))
                else:
                    out.append(_as_declared(widen(array, column), column))
        for name in (T, D):
            array = batch.column(name)
            if array.null_count:
                raise Corrupt("an update without a time or a diff", column=name)
            out.append(array)
        schema = self.schema
        for i, array in enumerate(out):
            if is_coded(array.type):
                schema = schema.set(i, schema.field(i).with_type(array.type))
        return pa.RecordBatch.from_arrays(out, schema=schema)


def _report(check: PartCheck, on_check: Callable[[PartCheck], None] | None) -> None:
    if on_check is not None:
        on_check(check)
    elif check.mismatches:
        first = check.first[0]
        raise Corrupt(
            "row codec and columns disagree",
            row=first.row,
            column=first.column,
            codec=first.codec,
            columns=first.columns,
            values=check.mismatches,
        )


def _children(batch: pa.RecordBatch, struct: str) -> dict[int, pa.Array]:
    array = batch.column(struct)
    # flatten() and not field(): a null struct makes its children null.
    return {
        int(array.type.field(i).name): values
        for i, values in enumerate(array.flatten())
        if array.type.field(i).name != EMPTY_CHILD
    }


def _as_declared(array: pa.Array, column: Column) -> pa.Array:
    """Return nested values with the inner names of updates; lists in Parquet have other names."""
    return array.cast(arrow_type(column.type)) if column.type.kind in NESTED else array


def _coded(array: pa.DictionaryArray) -> pa.Array:
    """Return texts that were read as codes; decode them if there are too many to pay off."""
    if not are_within(array):  # Arrow does not check this
        raise Corrupt("a code of a text is not in its dictionary", texts=len(array.dictionary))
    return array if array.dictionary.nbytes <= CODED_BYTES else decoded(array)


def _wanted(relation: Relation, columns: Collection[int] | None) -> tuple[Column, ...]:
    if columns is None:
        return relation.columns
    unknown = sorted(set(columns) - set(relation.by_id))
    if unknown:
        raise InvalidRequest("no such column", ids=unknown, relation_version=relation.version)
    return tuple(column for column in relation.columns if column.id in columns)


def _stored_relation(footer: Footer, relations: Sequence[Relation]) -> Relation:
    for relation in relations:
        if relation.version == footer.relation_version:
            return relation
    raise Corrupt(
        "a part was written with a relation version that the shard does not know",
        relation_version=footer.relation_version,
        known=sorted({relation.version for relation in relations}),
    )


def _mode(footer: Footer, read_format: str) -> str:
    """Return the mode that says which halves of a part are decoded."""
    if read_format not in READ_FORMATS:
        raise InvalidRequest(
            "unknown read format", value=read_format, cure=f"one of {', '.join(READ_FORMATS)}"
        )
    if not footer.has_rows:
        if read_format == "row":
            raise InvalidRequest(
                "a structured part has no row codec to read",
                layout=footer.layout,
                cure="read_format: structured",
            )
        if not footer.has_columns:
            raise Corrupt(
                "a part has only columns that must not be believed", migration=footer.migration
            )
        return "structured"
    if not footer.has_columns:
        return "row"
    return read_format


def _in_dictionaries(
    metadata: pq.FileMetaData, groups: Sequence[int], paths: Collection[str]
) -> list[str]:
    """Return the columns of `paths` that have small dictionaries in all row groups."""
    if not paths:
        return []
    found = dict.fromkeys(paths, len(groups))  # number of row groups without one
    for group in groups:
        row_group = metadata.row_group(group)
        for chunk in (row_group.column(i) for i in range(row_group.num_columns)):
            if (path := chunk.path_in_schema) in found and chunk.has_dictionary_page:
                size = chunk.data_page_offset - chunk.dictionary_page_offset
                found[path] -= size <= CODED_BYTES
    return [path for path, missing in found.items() if not missing]


def _open(source: Source, **options: Any) -> pq.ParquetFile:
    in_memory = _in_memory(source)
    # Gathering ranges first saves round trips to a store; from memory it gains nothing.
    return pq.ParquetFile(
        pa.BufferReader(source) if in_memory else source,
        pre_buffer=not in_memory,
        page_checksum_verification=True,
        **options,
    )


def _in_memory(source: Source) -> bool:
    return isinstance(source, bytes | bytearray | memoryview | pa.Buffer)


def _check_schema(found: pa.Schema, wanted: pa.Schema) -> None:
    if found.equals(wanted):
        return
    if found.names != wanted.names:
        raise Corrupt("a part has the wrong columns", found=found.names, wanted=wanted.names)
    for field in wanted:
        stored = _nullable(found.field(field.name).type)
        if stored != field.type:
            raise Corrupt(
                "a part's column has the wrong type",
                column=field.name,
                found=str(stored),
                wanted=str(field.type),
            )


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type without what says that a child is never null: other writers say it."""
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([field.with_nullable(True) for field in kind])


def _check_rows(file: pq.ParquetFile, footer: Footer) -> None:
    groups = sum(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
    if not footer.rows == file.metadata.num_rows == groups:
        raise Corrupt(
            "a part has lost or gained rows",
            wanted=footer.rows,
            found=file.metadata.num_rows,
            in_row_groups=groups,
        )


def _row_groups(file: pq.ParquetFile, row_groups: Sequence[int] | None) -> list[int]:
    if row_groups is None:
        return list(range(file.num_row_groups))
    unknown = [i for i in row_groups if not 0 <= i < file.num_row_groups]
    if unknown:
        raise InvalidRequest("no such row group", row_groups=unknown, found=file.num_row_groups)
    return list(row_groups)


@contextmanager
def _damage() -> Iterator[None]:
    """Turn Arrow's errors about damaged bytes into Corrupt.

    Only the error number distinguishes a failing disk from damage: damage has none.
    """
    try:
        yield
    except StrataError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise Unavailable(
                "a part could not be read", certain=True, reason=str(error)
            ) from error
        raise Corrupt("a part is damaged", reason=_reason(error)) from error
    except (pa.ArrowException, UnicodeDecodeError, KeyError, ValueError) as error:
        raise Corrupt("a part is damaged", reason=_reason(error)) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
