"""Texts with few distinct values, held as Arrow dictionaries: each text once, a code per row.

Such texts are read from a part, merged, inspected and written again without conversion to plain
texts and back. Every property is computed for the dictionary and assigned to rows by code. Coding
does not change the meaning of rows: `decoded` gives the same rows as plain texts, and both are
written as the same bytes.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.values.physical import numbers, offsets, pack_mask, valid_mask
from strata.kernels.arrays import Bools, Int32s, Ints, Words
from strata.model.types import Kind

CODE: Final = pa.int32()
CODED: Final = frozenset(
    {Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BYTES}
)  # kinds that may be coded
SHORT: Final = 32  # bytes; shorter texts are not counted one by one
CODED_BYTES: Final = 64 * 1024  # a larger dictionary does not pay: too few rows share a text


def is_coded(kind: pa.DataType) -> bool:
    """Return whether values of a type are codes of texts."""
    return bool(pa.types.is_dictionary(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type holds plain texts or bytes, which can be coded."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def are_within(array: pa.DictionaryArray) -> bool:
    """Return whether the dictionary has a text for every code."""
    ends = pc.min_max(array.indices).as_py()
    return ends["min"] is None or 0 <= ends["min"] <= ends["max"] < len(array.dictionary)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the decoded values."""
    return kind.value_type if is_coded(kind) else kind


def coded_type(kind: pa.DataType) -> pa.DictionaryType:
    """Return the type of coded texts of a type."""
    return pa.dictionary(CODE, kind)


def decoded(values: Any) -> Any:
    """Return an array, chunks, a batch or a table with plain texts in place of codes."""
    if isinstance(values, pa.Table | pa.RecordBatch):
        if not any(is_coded(kind) for kind in values.schema.types):
            return values
        fields = [f.with_type(plain_type(f.type)) for f in values.schema]
        schema = pa.schema(fields, metadata=values.schema.metadata)
        return type(values).from_arrays([decoded(c) for c in values.columns], schema=schema)
    if not is_coded(values.type):
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([decoded(c) for c in values.chunks], plain_type(values.type))
    return values.dictionary_decode()


def alike(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """Return tables in which a column that is plain in one table is plain in all."""
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return tables
    plain = {f.name for table in tables for f in table.schema if not is_coded(f.type)}
    return [_without_codes(table, plain) for table in tables]


def _without_codes(table: pa.Table, names: set[str]) -> pa.Table:
    for i, field in enumerate(table.schema):
        if field.name in names and is_coded(field.type):
            plain = field.with_type(plain_type(field.type))
            table = table.set_column(i, plain, decoded(table.column(i)))
    return table


def codes(array: pa.DictionaryArray) -> Int32s:
    """Return the place of each value in the dictionary; 0 for null."""
    found: Int32s = numbers(array.indices, np.dtype("<i4"))
    valid = valid_mask(array)
    return found if valid is None else np.where(valid, found, np.int32(0))


def of_codes(array: pa.DictionaryArray, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `found` of each value's text, which has one entry per text; anything for null."""
    if not len(found):
        return np.zeros(len(array), found.dtype)
    handed: npt.NDArray[Any] = found[codes(array)]
    return handed


def ranks(array: pa.DictionaryArray) -> Words:
    """Return numbers that sort like the texts and are equal for equal texts; anything for null."""
    dense = pc.rank(array.dictionary, tiebreaker="dense").to_numpy()
    return of_codes(array, dense.astype(np.uint64))


def text_ends(array: pa.DictionaryArray) -> Ints:
    """Return the offsets that plain texts would have; a null is empty. Shape: n+1."""
    from strata.kernels import codes as kernels  # loads the compiler

    ends = np.empty(len(array) + 1, np.int64)
    kernels.write_text_ends(*_known(array), np.diff(offsets(array.dictionary)), ends)
    return ends


def decoded_bytes(rows: pa.Table) -> int:
    """Return the size of the coded texts after decoding, in bytes.

    Errs: may be too large if all texts are short.
    """
    return sum(
        _bytes(chunk) for column in rows.columns if is_coded(column.type) for chunk in column.chunks
    )


def _bytes(array: pa.DictionaryArray) -> int:
    lengths = np.diff(offsets(array.dictionary))
    longest = int(lengths.max(initial=0))
    return longest * len(array) if longest <= SHORT else int(text_ends(array)[-1])


def canonical(array: pa.Array) -> pa.DictionaryArray:
    """Return texts as codes; the dictionary has each text once, in order of first occurrence.

    Texts may be coded already; the result is the same.
    """
    from strata.kernels import codes as kernels  # loads the compiler

    if not is_coded(array.type):
        return array.dictionary_encode()
    once = array.dictionary.dictionary_encode()
    if len(once.dictionary) < len(once):  # the writer has repeated a text
        indices = pa.array(codes(once)[codes(array)], CODE, mask=array.is_null().to_numpy(False))
        array = pa.DictionaryArray.from_arrays(indices, once.dictionary)
    number, made = np.full(len(array.dictionary), -1, np.int32), np.empty(len(array), np.int32)
    count = kernels.renumber(*_known(array), number, made)
    firsts = np.empty(count, np.int64)
    firsts[number[number >= 0]] = np.flatnonzero(number >= 0)
    buffers = [pack_mask(valid_mask(array)), pa.py_buffer(made)]
    indices = pa.Array.from_buffers(CODE, len(array), buffers)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(firsts)))


def texts_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the texts in coded values, each at least once, without others and without null."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    found = [canonical(chunk).dictionary for chunk in chunks]
    return pa.concat_arrays(found) if found else pa.array([], plain_type(values.type))


def _known(array: pa.DictionaryArray) -> tuple[Int32s, Bools]:
    """Return codes and the mask of valid ones, in the form that kernels take."""
    found, valid = codes(array), valid_mask(array)
    found.flags.writeable = (
        False  # like Arrow's buffers: kernels are compiled for read-only arrays only
    )
    return found, np.ones(0, np.bool_) if valid is None else valid
