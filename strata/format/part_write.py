"""Write a part: layout, row groups, and measured Parquet settings.

Equal updates give equal bytes: chunking and slicing of the input leave no trace. Parquet's own
statistics are written for other readers; Strata never relies on them.
"""

import base64
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import InvalidRequest
from strata.format.columns import K_S, V_S, D, K, T, V, child, updates_schema
from strata.format.field_ids import with_field_ids
from strata.format.layout import Description, Footer, check_layout, part_schema
from strata.format.part_settings import (
    DICTIONARY_SHARE,
    SAMPLE_ROWS,
    few_texts,
    sample_of,
    writer_settings,
)
from strata.format.rowcodec.codec import encode_batches, encode_rows
from strata.format.values.coded import canonical, coded_type, decoded, is_coded, plain_type
from strata.format.values.nested import leaves, purged
from strata.format.weigh import HUGE_ROW_BYTES, fitting, plain_bytes
from strata.model.schema import Column, Relation

ROWS_KEY: Final = b"strata.rows"
COPY_KEY: Final = b"strata.copy"
RUN_KEY: Final = b"strata.run"
ARROW_SCHEMA: Final = b"ARROW:schema"  # the key under which Arrow's readers look for it
CHUNK_BYTES: Final = 150  # approximate size of a footer's entry for one column of one row group


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The bytes of a part and its division into row groups."""

    data: bytes
    row_groups: list[int]  # rows of each row group, in order; empty for a part without rows


class PartWriter:
    """A part that is written row group by row group; holds encoded bytes and no rows."""

    def __init__(  # noqa: PLR0913  what a part is made from
        self,
        relation: Relation,
        layout: str,
        description: Description,
        sample: pa.Table,
        rows: int,
        file: Any,
        *,
        huge: bool,
    ) -> None:
        """Choose the settings from a `sample` of the updates, about `rows` in all.

        `file`: receives the bytes, a Python or Arrow file object; it is left open. `huge`: whether
        the sample has huge rows.
        Raises: InvalidRequest for another schema, an empty interval, or an unknown layout.
        """
        _check(sample, relation, description)
        self.footer = Footer(check_layout(layout), relation.version, description, rows)
        self._relation = relation
        self.schema = part_schema(relation, self.footer)
        names = [name for name in self.schema.names if name not in (K, V)]
        columns = file_columns(decoded(sample_of(sample)), relation, self.schema, names)
        settings = writer_settings(columns, rows, layout)
        self._groups: list[int] = []
        self._outgrown = False
        self._chunks = len(
            settings["write_statistics"]
        )  # per row group, one for each Parquet column
        if huge:
            settings["write_statistics"] = _of_no_text(settings["write_statistics"], columns)
        self._file = file
        codes = few_texts(columns, settings["use_dictionary"] or ())
        self._written = with_field_ids(_with_codes(self.schema, codes))
        self._writer = pq.ParquetWriter(file, self._written, **settings)
        self._schema_bytes = self.schema.serialize().size * 4 // 3  # it is stored as base64

    @property
    def size_bytes(self) -> int:
        """Return the approximate size of the part if it ended now; the footer's size is a guess."""
        if not self._groups:
            return 0
        footer = self._schema_bytes + CHUNK_BYTES * self._chunks * len(self._groups)
        return int(self._file.tell() + footer)

    @property
    def outgrown(self) -> bool:
        """Return whether texts with few distinct values in the sample mostly differ by now."""
        return self._outgrown

    def prepare(self, group: pa.Table) -> pa.Table:
        """Return the updates of a row group in the columns of the file.

        Raises: InvalidRequest for another schema, or nulls in t or d.
        """
        _check(group, self._relation, self.footer.description)
        whole = _without_hidden(group.combine_chunks())
        if self.footer.has_rows:
            whole = decoded(whole)
        return file_columns(whole, self._relation, self._written, self.schema.names)

    def write(self, prepared: pa.Table) -> None:
        """Write a row group."""
        rows = max(prepared.num_rows, 1)
        self._writer.write_table(prepared, row_group_size=rows)
        self._groups.append(prepared.num_rows)
        self._outgrown = rows >= SAMPLE_ROWS and any(  # in fewer rows, many may differ by chance
            len(texts.dictionary) > DICTIONARY_SHARE * rows for texts in _coded(prepared)
        )

    def close(self, copy: int = 0, run: int = 0) -> list[int]:
        """Write the footer, which completes the part; return the rows of each row group.

        Parts are named by their bytes, so `run` and `copy` distinguish parts with the same rows:
        `run` in other runs of the batch, `copy` earlier in the same run.
        """
        known = {**self.schema.metadata, ROWS_KEY: str(sum(self._groups)).encode()}
        numbers = {COPY_KEY: copy, RUN_KEY: run}
        known |= {key: str(number).encode() for key, number in numbers.items() if number}
        schema = self.schema.with_metadata(known)
        # The schema of the rows as they are read, not of the codes that the encoder received.
        stored = base64.b64encode(schema.serialize())
        self._writer.add_key_value_metadata({ARROW_SCHEMA: stored, **known})
        self._writer.close()
        return self._groups


def has_huge_rows(rows: int, size_bytes: int) -> bool:
    """Return whether rows of this size, as `plain_bytes` counts, are too large for copies."""
    return size_bytes >= HUGE_ROW_BYTES * max(rows, 1)


def encode_part(
    updates: pa.Table,
    relation: Relation,
    layout: str,
    *,
    description: Description,
    row_group_bytes: int,
) -> EncodedPart:
    """Return a part that holds `updates`, in the given order.

    Shape: `updates_schema(relation)`. Units: `row_group_bytes` as `plain_bytes` counts.
    Raises: InvalidRequest for another schema, nulls in t or d, an empty interval, or an unknown
    layout.
    """
    file = io.BytesIO()
    huge = has_huge_rows(updates.num_rows, plain_bytes(updates))
    part = PartWriter(relation, layout, description, updates, updates.num_rows, file, huge=huge)
    _check(updates, relation, description)
    groups = row_groups(updates, row_group_bytes)
    steps = [
        partial(part.prepare, updates.slice(start, rows))
        for start, rows in zip(accumulate(groups, initial=0), groups, strict=False)
    ]
    for prepared in _ahead(steps, part.footer.has_rows):
        part.write(prepared)
    made = part.close()
    return EncodedPart(file.getvalue(), made)


def row_groups(updates: pa.Table, limit_bytes: int) -> list[int]:
    """Return the number of rows of each row group, as fits `limit_bytes` (`weigh.fitting`)."""
    groups: list[int] = []
    rest = updates
    while rest.num_rows:
        groups.append(fitting(rest, limit_bytes))
        rest = rest.slice(groups[-1])
    return groups


def _of_no_text(paths: list[str], columns: pa.Table) -> list[str]:
    """Return the Parquet columns that are not texts.

    Encoders keep the least and greatest text of each page and chunk, then drop those of a few KiB.
    """
    texts = {
        path
        for name in columns.column_names
        for path, values in leaves(_one(columns[name]), name)
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type)
    }
    return [path for path in paths if path not in texts]


def _with_codes(schema: pa.Schema, paths: Collection[str]) -> pa.Schema:
    """Return a part's schema with codes for some of its texts, as Arrow receives them."""
    for i, struct in enumerate(schema):
        if struct.name in (K_S, V_S):
            fields = [
                f.with_type(coded_type(f.type)) if f"{struct.name}.{f.name}" in paths else f
                for f in struct.type
            ]
            schema = schema.set(i, struct.with_type(pa.struct(fields)))
    return schema


def _coded(prepared: pa.Table) -> Iterator[pa.DictionaryArray]:
    """Yield the texts that Arrow receives as codes."""
    for column in prepared.columns:
        if pa.types.is_struct(column.type):
            for i, field in enumerate(column.type):
                if is_coded(field.type):
                    yield from (chunk.field(i) for chunk in column.chunks)


def _ahead(steps: Sequence[Callable[[], pa.Table]], beside: bool) -> Iterator[pa.Table]:
    """Yield the result of each step while another thread computes the next one.

    The row codec and Parquet's encoders both release Python's lock. If there is little to overlap
    (`beside` is false, or there is a single step), no thread is started.
    """
    if not beside or len(steps) < 2:
        yield from (step() for step in steps)
        return
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(steps[0])
        for step in steps[1:]:
            table, following = following.result(), pool.submit(step)
            yield table
        yield following.result()


def _without_hidden(group: pa.Table) -> pa.Table:
    """Return one row group with nothing hidden under the nulls of nested columns."""
    for i, field in enumerate(group.schema):
        if pa.types.is_nested(field.type):
            group = group.set_column(i, field, purged(_one(group.column(i))))
    return group


def file_columns(
    group: pa.Table, relation: Relation, schema: pa.Schema, names: Sequence[str]
) -> pa.Table:
    """Return one row group in the columns of the file that `names` lists."""
    made: dict[str, Any] = {T: group[T], D: group[D]}
    for codec, struct, side in (
        (K, K_S, relation.key_columns),
        (V, V_S, relation.value_columns),
    ):
        if codec in names:
            made[codec] = encode_side(group, side)
        if struct in names:
            made[struct] = _struct(group, side, schema.field(struct).type)
    fields = [schema.field(name) for name in names]
    return pa.Table.from_arrays([made[name] for name in names], schema=pa.schema(fields))


def encode_side(group: pa.Table, side: tuple[Column, ...]) -> pa.ChunkedArray:
    """Return the row codec's bytes of the key or the value columns, in chunks of BATCH rows."""
    if not side:
        return pa.chunked_array([encode_rows([], [], rows=group.num_rows)])
    columns = [_one(group[child(column.id)]) for column in side]
    batches = encode_batches(columns, [column.type for column in side])
    return pa.chunked_array(batches, pa.binary())


def _struct(group: pa.Table, side: tuple[Column, ...], wanted: pa.StructType) -> pa.Array:
    arrays = [
        canonical(array) if is_coded(field.type) else decoded(array)
        for field, array in zip(wanted, (_one(group[child(c.id)]) for c in side), strict=False)
    ]
    if not side:
        arrays = [pa.nulls(group.num_rows, pa.bool_())]
    return pa.StructArray.from_arrays(arrays, fields=list(wanted))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _check(updates: pa.Table, relation: Relation, description: Description) -> None:
    wanted = updates_schema(relation)
    found = [plain_type(kind) for kind in updates.schema.types]
    if updates.schema.names != wanted.names or found != wanted.types:
        raise InvalidRequest(
            "updates have the wrong columns",
            found=str(updates.schema),
            wanted=str(wanted),
        )
    if updates[T].null_count or updates[D].null_count:
        raise InvalidRequest("an update needs a time and a diff")
    if description.upper <= description.lower:
        raise InvalidRequest(
            "a part's interval is empty", lower=description.lower, upper=description.upper
        )
