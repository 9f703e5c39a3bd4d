"""Rows of the row codec from nowhere: columns or Corrupt, and the same as the patient decoder says.

An input is: one byte for the column's type, one for the row's border, then the bytes of two rows.
"""

from typing import Final

import pyarrow as pa

from strata.errors import Corrupt
from strata.format.encodings import arrow_type
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.format.rowcodec.objects import from_objects
from strata.format.rowcodec.scalar import decode_row
from strata.format.values.canonical import canonical
from strata.model.types import ColumnType, parse_type
from tests.formats import every_type
from tests.formats.logical import stored

TYPES: Final = [parse_type(text) for text in every_type.TYPES]


def check(data: bytes) -> None:
    """Decode; anything but columns or Corrupt is an error, and so is a difference of decoders."""
    if len(data) < 2:
        return
    kind, body = TYPES[data[0] % len(TYPES)], data[2:]
    border = min(data[1], len(body))
    rows = [body[:border], body[border:]]
    try:
        (found,) = decode_rows(pa.array(rows, pa.binary()), [kind])
    except Corrupt:
        found = None
    if found is not None:
        found.validate(full=True)
    try:
        patient = from_objects([decode_row(row, [kind])[0] for row in rows], kind)
    except Corrupt:
        patient = None
    assert (found is None) == (patient is None), kind
    if found is not None and patient is not None:
        # as bytes: a NaN is not equal to itself
        assert bytes_of(found, kind) == bytes_of(patient, kind), kind


def bytes_of(array: pa.Array, kind: ColumnType) -> list[bytes]:
    """Return what the codec makes of values again."""
    return [bytes(row) for row in encode_rows([array], [kind]).to_pylist()]


def seeds() -> list[bytes]:
    """Return an input for each pair of values at the edges of each type."""
    found = []
    for number, (name, values) in enumerate(every_type.TYPES.items()):
        kind = parse_type(name)
        array = pa.array([stored(v, kind) for v in [*values, None]], arrow_type(kind))
        rows = bytes_of(canonical(array, kind), kind)
        for first, second in zip(rows, [*rows[1:], rows[0]], strict=True):
            if len(first) < 256 and len(second) < 2000:
                found.append(bytes([number, len(first)]) + first + second)
    return found
