"""Texts, bytes, JSON and uuids."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.types import from_json
from strata.format.types.row import Encoding, Form, Layout, TypeView, scalar
from strata.format.types.shown import from_hexadecimal, hex_texts
from strata.format.values.json_text import canonical_json
from strata.format.values.physical import refuse, true
from strata.model.types import ColumnType, Kind

UUID_BYTES: Final = 16
TEXT: Final = Layout(Form.TEXT)


def _text(kind: Kind, *examples: str) -> Encoding:
    return scalar(
        kind,
        pa.string(),
        "string",
        ("string", 8),
        layout=TEXT,
        order="by code point, as UTF-8 bytes",
        json=from_json.text,
        examples=examples,
        spelling=_spelt_text if examples else None,
    )


def _spelt_text(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return texts after a check of their length in characters; char loses trailing blanks."""
    if column_type.kind is Kind.CHAR:
        array = pc.utf8_rtrim(array, " ")
    if column_type.length is not None:
        long = true(pc.greater(pc.utf8_length(array), column_type.length))
        cure = f"at most {column_type.length} characters, or widen the column"
        refuse(array, long, column_type, cure)
    return array


def _spelt_json(array: pa.Array, column_type: ColumnType) -> pa.Array:
    result, invalid = canonical_json(array)
    refuse(array, invalid, column_type, "write it as JSON; numbers are finite")
    return result


def _store_uuid(array: pa.Array, column_type: ColumnType) -> pa.Array:
    plain = pc.utf8_lower(pc.replace_substring(array, "-", ""))
    good = pc.match_substring_regex(plain, "^[0-9a-f]{32}$")
    wrong = true(array.is_valid()) & ~true(good)
    refuse(array, wrong, column_type, "32 hexadecimal digits, with or without hyphens")
    return from_hexadecimal(plain, UUID_BYTES, array)


ROWS: Final = (
    _text(Kind.STRING),
    _text(Kind.CHAR, "char(3)"),
    _text(Kind.VARCHAR, "varchar(3)"),
    scalar(
        Kind.BYTES, pa.binary(), "binary", ("bytes", 7), layout=Layout(Form.BYTES),
        order="by unsigned byte", json=from_json.raw_bytes,
    ),
    scalar(
        Kind.JSONB, pa.string(), "string", ("string", 8), layout=TEXT,
        order="as canonical JSON text", json=from_json.as_canonical_text,
        quoted=False, stats="json", by_value=False, spelling=_spelt_json,
    ),
    scalar(
        Kind.UUID, pa.binary(UUID_BYTES), "string", ("uuid", 25), layout=Layout(Form.BLOCK),
        order="by unsigned byte", json=from_json.text,
        view=TypeView(pa.string(), lambda a: hex_texts(a, (8, 12, 16, 20)), _store_uuid),
    ),
)  # fmt: skip
