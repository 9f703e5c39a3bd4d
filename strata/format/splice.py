"""Parts made of a file of somebody else, and a tail of our own behind its bytes.

    their file, as it is             tail
    PAR1 … columns … footer … PAR1 | t, d, columns that are not theirs, our footer … PAR1

Read as one file, this is a part of layout `structured`: our footer names the pages of their columns
where they lie. Nothing of theirs is copied or changed. Their columns keep their encodings; what
Parquet's statistics say of them is left out. Source: docs/reference/format.md.
"""

import base64
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt
from strata.format.columns import K_S, V_S, child
from strata.format.field_ids import with_field_ids
from strata.format.layout import Footer, part_schema
from strata.format.part_write import ARROW_SCHEMA, RUN_KEY, file_columns
from strata.format.thrift import (
    I64,
    LIST,
    STRUCT,
    ThriftList,
    ThriftStruct,
    read_struct,
    write_struct,
)
from strata.model.schema import Relation

MAGIC: Final = b"PAR1"
LAYOUT: Final = "structured"
FILE_KEY: Final = b"strata.file"  # whose bytes come first, so that equal files make distinct parts
END_BYTES: Final = 64 * 1024  # read first from the end of a file
MOST_CHUNKS: Final = 100_000  # of a file: a footer of more costs more than its rows
SETTINGS: Final[Mapping[str, Any]] = {
    "compression": "zstd",
    "version": "2.6",
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}
# Numbers of fields in `parquet.thrift`
_SCHEMA, _GROUPS = 2, 4  # FileMetaData
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN = 1, 2, 3, 4, 5  # SchemaElement
_CHUNKS, _PLAIN, _ROWS = 1, 2, 3  # RowGroup
_FILE, _OFFSET, _META = 1, 2, 3  # ColumnChunk
_PATH, _PLAIN_BYTES, _BYTES, _DATA, _DICTIONARY = 3, 6, 7, 9, 11  # ColumnMetaData
_KEPT: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 11})  # without statistics and filters
_OPTIONAL, _REPEATED = 1, 2


class NotSplicedError(Exception):
    """A file cannot be the beginning of a part; the message says why."""


@dataclass(frozen=True)
class TheirFile:
    """What the footer of a Parquet file says, as far as a part needs it."""

    size_bytes: int
    groups: tuple[ThriftStruct, ...]
    elements: Mapping[str, ThriftStruct]  # of columns that are not nested, by name
    places: Mapping[str, int]  # of these columns among the chunks of a row group

    @property
    def rows(self) -> list[int]:
        """Return the number of rows of each row group."""
        return [group[_ROWS][1] for group in self.groups]


def their_file(size_bytes: int, read: Callable[[int, int], bytes]) -> TheirFile:
    """Return what the footer of a file says; `read` gives bytes from a position on.

    Raises: NotSplicedError. Cost: two reads, three if the footer is long.
    """
    end = read(max(0, size_bytes - END_BYTES), min(size_bytes, END_BYTES))
    length = int.from_bytes(end[-8:-4], "little")
    if size_bytes < 12 or end[-4:] != MAGIC or read(0, 4) != MAGIC:
        raise NotSplicedError("it is no plain Parquet file")
    if length + 12 > size_bytes:
        raise NotSplicedError("its footer is damaged")
    if length + 8 > len(end):
        end = read(size_bytes - length - 8, length + 8)
    try:
        found = _described(_footer(end), size_bytes)
    except (Corrupt, KeyError, TypeError, AttributeError, IndexError, UnicodeDecodeError) as error:
        raise NotSplicedError("its footer is damaged") from error
    if sum(len(group[_CHUNKS][1].items) for group in found.groups) > MOST_CHUNKS:
        raise NotSplicedError("it has very many columns or row groups")
    if not found.groups or min(found.rows) < 1:
        raise NotSplicedError("it has no rows, or a row group without any")
    return found


def _footer(view: bytes) -> ThriftStruct:
    length = int.from_bytes(view[-8:-4], "little")
    return read_struct(view[-8 - length : -8])


def _described(footer: ThriftStruct, size_bytes: int) -> TheirFile:
    elements: dict[str, ThriftStruct] = {}
    places: dict[str, int] = {}
    for place, (path, element) in enumerate(_leaves(footer[_SCHEMA][1].items)):
        if len(path) == 1 and element[_REPETITION][1] != _REPEATED:
            elements[path[0]], places[path[0]] = element, place
    groups = tuple(footer[_GROUPS][1].items)
    for chunk in (chunk for group in groups for chunk in group[_CHUNKS][1].items):
        if _FILE in chunk or _META not in chunk:
            raise NotSplicedError("its columns are encrypted, or lie in other files")
    return TheirFile(size_bytes, groups, elements, places)


def _leaves(schema: list[ThriftStruct]) -> list[tuple[tuple[str, ...], ThriftStruct]]:
    """Return the columns of a schema in order, each with the names on the way to it."""
    found: list[tuple[tuple[str, ...], ThriftStruct]] = []
    open_groups: list[list[Any]] = []  # name, and how many children are to come
    for element in schema[1:]:
        while open_groups and not open_groups[-1][1]:
            open_groups.pop()
        if open_groups:
            open_groups[-1][1] -= 1
        name = element[_NAME][1].decode()
        if _CHILDREN in element:
            open_groups.append([name, element[_CHILDREN][1]])
        else:
            found.append(((*(outer for outer, _ in open_groups), name), element))
    return found


@dataclass(frozen=True)
class Splicer:
    """Makes a part's tail for a file.

    `updates` are of `updates_schema(relation)`, in the order of the file's rows. `names` are the
    file's columns that may stay in it, by the ids of ours; those stay that the file stores with the
    physical type of a part. Whether they hold the same values, only a reading of the part can show.
    """

    theirs: TheirFile
    updates: pa.Table
    relation: Relation
    footer: Footer
    names: Mapping[int, str]
    mark: str  # of the file, see FILE_KEY
    run: int = 0

    def tail(self) -> bytes:
        """Return what lies behind the file in the part. Raises: NotSplicedError."""
        if sum(self.theirs.rows) != self.updates.num_rows:
            raise NotSplicedError("it has other rows than were read from it")
        template = self._template(self.staying, self.theirs.rows)
        known = _footer(template)
        tail = bytearray()
        for group, other in zip(known[_GROUPS][1].items, self.theirs.groups, strict=True):
            self._join(group, other, template, tail)
        encoded = write_struct(known)
        return bytes(tail) + encoded + len(encoded).to_bytes(4, "little") + MAGIC

    @cached_property
    def staying(self) -> Mapping[str, str]:
        """Return the file's columns that stay in it, by the Parquet columns of the part."""
        elements = self.theirs.elements
        wanted = {
            f"{side.name}.{field.name}": self.names[int(field.name)]
            for side in part_schema(self.relation, self.footer)
            if side.name in {K_S, V_S}
            for field in side.type
            if not pa.types.is_nested(field.type) and field.name.isdigit()
            if self.names.get(int(field.name)) in elements
        }
        ours = _leaves(_footer(self._template(wanted, [1]))[_SCHEMA][1].items)
        physical = {".".join(path): _physical(element) for path, element in ours}
        return {p: name for p, name in wanted.items() if physical[p] == _physical(elements[name])}

    def _template(self, staying: Mapping[str, str], rows: Sequence[int]) -> bytes:
        """Return a part with these row groups, and zeros in the columns that stay in the file."""
        schema = self._schema(staying)
        written = with_field_ids(schema)
        known = {**schema.metadata, FILE_KEY: self.mark.encode()}
        known |= {RUN_KEY: str(self.run).encode()} if self.run else {}
        numbers = {int(path.partition(".")[2]) for path in staying}
        out = io.BytesIO()
        with pq.ParquetWriter(out, written, **SETTINGS) as writer:
            for start, count in zip(accumulate(rows, initial=0), rows, strict=False):
                group = _with_zeros(self.updates.slice(start, count).combine_chunks(), numbers)
                shaped = file_columns(group, self.relation, written, written.names)
                writer.write_table(shaped, row_group_size=count)
            stored = base64.b64encode(schema.with_metadata(known).serialize())
            writer.add_key_value_metadata({ARROW_SCHEMA: stored, **known})
        return out.getvalue()

    def _schema(self, staying: Mapping[str, str]) -> pa.Schema:
        """Return the part's schema, with the levels that the pages of the file have."""
        plain, elements = part_schema(self.relation, self.footer), self.theirs.elements
        fields = []
        for field in plain:
            if field.name in {K_S, V_S}:
                names = [staying.get(f"{field.name}.{inner.name}") for inner in field.type]
                inner = [
                    one.with_nullable(name is None or elements[name][_REPETITION][1] == _OPTIONAL)
                    for one, name in zip(field.type, names, strict=True)
                ]
                fields.append(pa.field(field.name, pa.struct(inner), nullable=False))
            else:
                fields.append(field)
        return pa.schema(fields, plain.metadata)

    def _join(
        self, group: ThriftStruct, other: ThriftStruct, template: bytes, tail: bytearray
    ) -> None:
        """Make a row group of the template name the file's chunks, and move its own to the tail."""
        chunks: list[ThriftStruct] = []
        for chunk in group[_CHUNKS][1].items:
            ours = chunk[_META][1]
            name = self.staying.get(b".".join(ours[_PATH][1].items).decode())
            if name is None:
                made = _moved(ours, template, self.theirs.size_bytes, tail)
            else:
                found = other[_CHUNKS][1].items[self.theirs.places[name]][_META][1]
                made = {number: found[number] for number in _KEPT if number in found}
                made[_PATH] = ours[_PATH]
            chunks.append({_OFFSET: (I64, _begin(made)), _META: (STRUCT, made)})
        size = sum(chunk[_META][1][_PLAIN_BYTES][1] for chunk in chunks)
        rows = group[_ROWS]
        group.clear()
        group |= {_CHUNKS: (LIST, ThriftList(STRUCT, chunks)), _PLAIN: (I64, size), _ROWS: rows}


def _physical(element: ThriftStruct) -> list[Any]:
    return [element.get(number, (0, 0))[1] or 0 for number in (_TYPE, _LENGTH)]


def _begin(meta: ThriftStruct) -> int:
    # Some writers give a dictionary that is not there the place 0.
    places: list[int] = [meta[_DATA][1], meta.get(_DICTIONARY, meta[_DATA])[1]]
    return min(place for place in places if place > 0)


def _moved(meta: ThriftStruct, template: bytes, before: int, tail: bytearray) -> ThriftStruct:
    """Append a chunk of the template to the tail; return what the footer says of it there."""
    start = _begin(meta)
    by = before + len(tail) - start
    tail += template[start : start + meta[_BYTES][1]]
    made = {number: meta[number] for number in _KEPT if number in meta}
    for number in (_DATA, _DICTIONARY):
        if number in made:
            made[number] = (I64, made[number][1] + by)
    return made


def _with_zeros(updates: pa.Table, numbers: Collection[int]) -> pa.Table:
    for number in numbers:
        place = updates.schema.get_field_index(child(number))
        field = updates.schema.field(place)
        updates = updates.set_column(place, field, _zeros(field.type, updates.num_rows))
    return updates


def _zeros(kind: pa.DataType, rows: int) -> pa.Array:
    """Return values that are all the same, and cost next to nothing in a file."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        buffers = [pa.py_buffer(bytes(4 * (rows + 1))), pa.py_buffer(b"")]
    else:
        buffers = [pa.py_buffer(bytes((rows * kind.bit_width + 7) // 8))]
    return pa.Array.from_buffers(kind, rows, [None, *buffers])
