"""Finds the members of JSON lines without making objects: what keys there are, and texts of values.

A column of JSON in its one spelling needs no more than the text of its values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson
import pyarrow as pa

from strata.format.values.json_text import canonical_json
from strata.format.values.physical import pack_mask
from strata.ingest.readers.json_table import WORDS, are_bare, line_places
from strata.kernels.arrays import Bytes, Ints
from strata.kernels.json_members import (
    OTHERS,
    array_lines,
    copy_values,
    find_members,
    misleads,
    narrower,
)

_NULL: Final = np.frombuffer(b"null", np.uint8)


@dataclass(frozen=True, slots=True)
class LineMembers:
    """Where the values of some keys are in the lines of a text."""

    raw: Bytes
    names: tuple[str, ...]
    begins: Ints  # by name and row; -1: the row lacks the key
    ends: Ints
    others: frozenset[str]  # keys that are not among the names
    bare: bool  # nothing stands before or behind an object in its line

    @property
    def keys(self) -> frozenset[str]:
        """Return all keys that some row has."""
        there = np.flatnonzero((self.begins >= 0).any(axis=1)).tolist()
        return self.others | {self.names[number] for number in there}

    def texts(self, name: str) -> pa.Array:
        """Return the values of a key as they are written; null where it is null or lacking."""
        number = self.names.index(name)
        begins, ends = self.begins[number], self.ends[number]
        out = np.empty(int((ends - begins)[begins >= 0].sum()), np.uint8)
        borders, valid = np.zeros(len(begins) + 1, np.int64), np.empty(len(begins), np.bool_)
        copy_values(self.raw, begins, ends, _NULL, borders, valid, out)
        buffers = [pack_mask(valid), pa.py_buffer(borders.astype(np.int32)), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.string(), len(begins), buffers)

    def lines(self, names: Sequence[str]) -> bytes:
        """Return lines with these members alone, as they are written."""
        chosen = [self.names.index(name) for name in names]
        begins, ends = self.begins[chosen], self.ends[chosen]
        keys = [orjson.dumps(name) + b":" for name in names]
        borders = np.cumsum([0, *map(len, keys)])
        there = begins >= 0
        room = int((ends - begins)[there].sum()) + 3 * begins.shape[1]
        room += int((there.sum(axis=1) * (np.diff(borders) + 1)).sum())
        out = np.empty(room, np.uint8)
        packed = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
        return out[: narrower(self.raw, begins, ends, packed, borders, out)].tobytes()

    def json(self, name: str) -> pa.Array | None:
        """Return the values of a key in their one spelling; None: some have none."""
        values, bad = canonical_json(self.texts(name))
        return None if bad.any() else values


def members_of(data: bytes, names: Sequence[str]) -> LineMembers | None:
    """Return the members of JSON lines, which are UTF-8; None: read them one by one.

    Errs: is None for some lines that are objects, and finds members in some that are not.
    """
    starts, stops, raw = line_places(data)
    texts = [name.encode() for name in names]
    borders = np.cumsum([0, *map(len, texts)])
    begins = np.full((len(names), len(starts)), -1, np.int64)
    ends, others = np.zeros_like(begins), np.zeros((OTHERS, 2), np.int64)
    packed = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    count = find_members(raw, starts, stops, packed, borders, begins, ends, others)
    if count < 0:
        return None
    keys = frozenset(data[at : at + size].decode() for at, size in others[:count].tolist())
    return LineMembers(raw, tuple(names), begins, ends, keys, are_bare(starts, stops, raw))


def lines_of_array(data: bytes) -> tuple[bytes, int] | None:
    """Return the elements of a JSON array as lines, and how many there are, blank ones included.

    None: this is no array, or none of some elements. Errs: takes some texts that are no JSON.
    """
    out = np.empty(len(data), np.uint8)
    commas, size = array_lines(np.frombuffer(data, np.uint8), out)
    return None if commas < 0 else (out[:size].tobytes(), commas + 1)


def warm() -> None:
    """Use the kernel once, so that it is compiled."""
    found = members_of(b'{"a":1,"b":[2]}\n', ["a"])
    assert found is not None
    found.texts("a")
    found.lines(["a"])
    lines_of_array(b'[{"a":1},{"a":2}]')
    misleads(np.frombuffer(b"{}", np.uint8), *WORDS)
