"""Call every kernel of the row codec once, so that it is compiled and cached."""

import pyarrow as pa

from strata.format.encodings import arrow_type
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.model.types import parse_type

TYPES = (
    "bool", "int64", "float64", "string", "uuid", "date", "timestamp", "interval", "mz_aclitem",
    "numeric", "numeric(10,2)", "list<int64>", "array<int64>", "map<int64>", "record<a: bool>",
    "range<int64>",
)  # fmt: skip


def warm() -> None:
    """Encode and decode a null of each type: kernels are compiled by the types of their arrays."""
    types = [parse_type(text) for text in TYPES]
    columns = [pa.nulls(1, arrow_type(column_type)) for column_type in types]
    decode_rows(encode_rows(columns, types), types)
