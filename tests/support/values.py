"""Values of every column type, edges first, and arrays of them.

A *plain* value is what this module's `to_array` and `plain` convert from and to: Python objects as
Arrow has them, but times as the integers inside (days, microseconds), which Python's own do not
reach, and maps as lists of pairs. None is null. `sort_key` is the slow twin of the order of
`strata.format.encodings`.

Everything drawn is canonical (`strata.format.values.canonical`); what is not, is in `MESSY`.
"""

import math
import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from strata.format.encodings import EMPTY_FIELD, arrow_type
from strata.format.values.packed import from_text, numeric
from strata.model.types import ColumnType, Kind, parse_type

Plain = Any
NAN: Final = math.nan
NEGATIVE_NAN: Final = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
MESSY: Final = (-0.0, NEGATIVE_NAN, -NAN)  # floats that are spelt otherwise when stored

SCALARS: Final = tuple(
    parse_type(text)
    for text in (
        "bool", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "oid",
        "mz_timestamp", "float32", "float64", "numeric", "numeric(38,9)", "numeric(38,0)",
        "numeric(10,2)", "numeric(18,18)", "numeric(1,0)", "date", "time", "timestamp",
        "timestamptz", "interval", "interval day to second", "interval year to month", "string",
        "char(3)", "varchar(5)", "varchar", "bytes", "jsonb", "uuid", "aclitem", "mz_aclitem",
    )
)  # fmt: skip
NESTED_TYPES: Final = tuple(
    parse_type(text)
    for text in (
        "list<int32>", "list<string>", "list<float64>", "list<bool>", "list<list<int16>>",
        "list<numeric>", "list<map<list<int64>>>", "array<int32>", "array<string>",
        "array<float32>", "int2vector", "map<string>", "map<float64>", "map<list<uuid>>",
        "record<>", "record<a: int32>", "record<a: string, b: record<c: bool, d: numeric(10,2)>>",
        "list<record<at: timestamp, tags: map<jsonb>>>", "list<record<>>", "range<int32>",
        "range<int64>", "range<date>", "range<numeric>", "range<numeric(10,2)>",
        "range<timestamptz>", "range<float64>", "range<string>", "list<range<uint8>>",
        "record<r: range<date>, v: array<time>, n: numeric>", "list<interval>", "map<bytes>",
    )
)  # fmt: skip
DISCRETE: Final = frozenset(
    {Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64,
     Kind.OID, Kind.MZ_TIMESTAMP, Kind.DATE}
)  # fmt: skip
BITS: Final = {  # integers: bits, and whether signed
    Kind.INT16: (16, True),
    Kind.INT32: (32, True),
    Kind.INT64: (64, True),
    Kind.DATE: (32, True),
    Kind.UINT8: (8, False),
    Kind.UINT16: (16, False),
    Kind.UINT32: (32, False),
    Kind.UINT64: (64, False),
    Kind.OID: (32, False),
    Kind.MZ_TIMESTAMP: (64, False),
    Kind.TIMESTAMP: (64, True),
    Kind.TIMESTAMPTZ: (64, True),
    Kind.DAY_TIME: (64, True),
    Kind.YEAR_MONTH: (32, True),
}
DAY_US: Final = 86_400_000_000
MOMENTS: Final = (
    0,
    -1,
    DAY_US - 1,
    DAY_US,
    -DAY_US,
    999_999,
    -62_135_596_800_000_000,
    -62_135_596_800_000_001,
    253_402_300_799_999_999,
    253_402_300_800_000_000,
)
LETTERS: Final = "\x00a é\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
JSON_TEXTS: Final = (
    "null", "true", "0", "1.5", '""', '"a"', "[]", "{}", "[1,2]", '{"a":1,"b":null}', '{"a":1}',
    '{"a":{"b":[{"c":"é"}]}}', "[" * 40 + "]" * 40, "123456789012345678901234567890", "1e+400",
    '"\uffff"', '"\U0010ffff"',
)  # fmt: skip
ROLES: Final = (100, 200, 300, 400)
FLOATS: Final = (0.0, NAN, math.inf, -math.inf, 5e-324, -5e-324, 1.5, -1.5, 1.7976931348623157e308)
FLOATS32: Final = (0.0, NAN, math.inf, -math.inf, 1.5, -1.5, 2**-149, 3.4028234663852886e38)
NUMBERS: Final = (
    "0", "1", "-1", "-101", "NaN", "Infinity", "-Infinity", "9" * 39, "-" + "9" * 39, "1E-39",
    "1E+38", "1.5E+300", "-1E+400", "1E-400", "1500", "0.1", "0.10000000000000000000000000001",
    "12345678901234567890123456789.0123456789",
)  # fmt: skip


def every_type() -> tuple[ColumnType, ...]:
    """Return types that between them have every kind, alone and inside others."""
    return (*SCALARS, *NESTED_TYPES)


def values(column_type: ColumnType) -> st.SearchStrategy[Plain]:
    """Return a strategy of canonical plain values of a type, none null outside."""
    kind, element = column_type.kind, column_type.element
    if kind in BITS:
        return _integers(kind)
    if kind in (Kind.LIST, Kind.MAP):
        assert element is not None
        inner = nullable(element)
        if kind is Kind.LIST:
            return st.lists(inner, max_size=4)
        return st.dictionaries(texts(3), inner, max_size=3).map(
            lambda d: sorted(d.items(), key=_utf8)
        )
    if kind is Kind.RECORD:
        fields = {f.name: nullable(f.type) for f in column_type.fields}
        return st.fixed_dictionaries(fields or {EMPTY_FIELD: st.none()})
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        assert element is not None
        return _arrays(element)
    if kind is Kind.RANGE:
        assert element is not None
        return _ranges(element)
    return _scalars(column_type)


def nullable(column_type: ColumnType) -> st.SearchStrategy[Plain]:
    """Return a strategy of plain values of a type, null among them."""
    return st.one_of(values(column_type), values(column_type), values(column_type), st.none())


def columns(column_type: ColumnType, max_rows: int = 12) -> st.SearchStrategy[list[Plain]]:
    """Return a strategy of columns: some of all rows alike, all null, of one row, of none."""
    cell = nullable(column_type)
    same = st.tuples(cell, st.integers(0, max_rows)).map(lambda pair: [pair[0]] * pair[1])
    # From a small pool, so that equal values meet.
    pooled = st.lists(cell, min_size=1, max_size=4).flatmap(
        lambda pool: st.lists(st.sampled_from(pool), max_size=max_rows)
    )
    nulls = st.integers(0, 3).map(lambda n: [None] * n)
    return st.one_of(st.lists(cell, max_size=max_rows), pooled, same, nulls)


def arrays(column_type: ColumnType, max_rows: int = 12) -> st.SearchStrategy[pa.Array]:
    """Return a strategy of canonical arrays of a type, slices of longer ones among them."""
    whole = columns(column_type, max_rows).map(lambda cells: to_array(cells, column_type))
    return whole | st.tuples(whole, st.integers(0, 2), st.integers(0, max_rows)).map(
        lambda made: made[0].slice(min(made[1], len(made[0])), made[2])
    )


def texts(max_size: int = 6) -> st.SearchStrategy[str]:
    """Return a strategy of texts of letters at the edges of UTF-8."""
    return st.text(
        st.sampled_from(LETTERS) | st.characters(exclude_categories=["Cs"]), max_size=max_size
    )


def to_array(cells: Sequence[Plain], column_type: ColumnType) -> pa.Array:
    """Return plain values as an array, by the slow way through Python objects."""
    return _build(cells, arrow_type(column_type))


def plain(array: pa.Array | pa.ChunkedArray) -> list[Plain]:
    """Return an array's values as plain ones."""
    return [_value(scalar) for scalar in array]


def sort_key(value: Plain, column_type: ColumnType) -> Any:
    """Return what a plain value sorts by, in the order that the table of encodings states."""
    if value is None:
        return (2,)
    kind, element = column_type.kind, column_type.element
    if kind is Kind.LIST:
        return (0, [sort_key(item, _some(element)) for item in value])
    if kind is Kind.MAP:
        return (0, [(key.encode(), sort_key(item, _some(element))) for key, item in value])
    if kind in (Kind.ARRAY, Kind.INT2VECTOR):
        dims = [(dim["lower_bound"], dim["length"]) for dim in value["dims"]]
        return (0, dims, [sort_key(item, _some(element)) for item in value["vals"]])
    if kind is Kind.RECORD:
        return (0, [sort_key(value[f.name], f.type) for f in column_type.fields])
    if kind is Kind.RANGE:
        ends = [sort_key(value[end], _some(element)) for end in ("lower", "upper")]
        flags = [value[name] for name in ("lower_inclusive", "upper_inclusive", "empty")]
        return (0, ends, flags)
    if kind is Kind.NUMERIC and column_type.precision is None:
        return (0, _float_key(value["approx"]), value["binary"])
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        return (0, _float_key(value))
    return (0, value.encode() if isinstance(value, str) else value)


def same(a: Plain, b: Plain) -> bool:
    """Return whether plain values are the same bit for bit; NaN is itself."""
    return repr(a) == repr(b)


@cache
def number(text: str) -> dict[str, Any]:
    """Return a number without a precision as a plain value."""
    found: dict[str, Any] = numeric(from_text(pa.array([text])))[0].as_py()
    return found


def _some(element: ColumnType | None) -> ColumnType:
    assert element is not None
    return element


def _utf8(pair: tuple[str, Plain]) -> bytes:
    return pair[0].encode()


def _float_key(value: float) -> tuple[int, float]:
    return (1, 0.0) if math.isnan(value) else (0, value)


def _integers(kind: Kind) -> st.SearchStrategy[int]:
    bits, signed = BITS[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = [low, low + 1, high, high - 1, 0, 1, -1, *(1 << b for b in range(7, bits, 7))]
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        edges += [*MOMENTS, *(d * DAY_US for d in (-719_163, -719_162, 2_932_897, 19_904))]
    if kind is Kind.DATE:
        edges += [-719_163, -719_162, 2_932_896, 2_932_897, 59, 19_904]
    inside = [edge for edge in edges if low <= edge <= high]
    return st.sampled_from(inside) | st.integers(low, high)


def _scalars(column_type: ColumnType) -> st.SearchStrategy[Plain]:
    kind = column_type.kind
    if kind is Kind.BOOL:
        return st.booleans()
    if kind is Kind.FLOAT64:
        return st.sampled_from(FLOATS) | st.floats().map(_canonical_float)
    if kind is Kind.FLOAT32:
        return st.sampled_from(FLOATS32) | st.floats(width=32).map(_canonical_float)
    if kind is Kind.NUMERIC:
        return _numbers() if column_type.precision is None else _decimals(column_type)
    if kind in (Kind.STRING, Kind.VARCHAR, Kind.CHAR):
        made = texts(min(column_type.length or 6, 6))
        return made.map(lambda t: t.rstrip(" ")) if kind is Kind.CHAR else made
    if kind is Kind.JSONB:
        return st.sampled_from(JSON_TEXTS)
    if kind is Kind.BYTES:
        runs = st.integers(0, 40).map(lambda n: b"\xff" * n)
        return st.binary(max_size=9) | runs | st.sampled_from([b"\x00", b"\x00\x01", b"\x00\xff"])
    return _fixed_bytes(kind)


def _fixed_bytes(kind: Kind) -> st.SearchStrategy[bytes]:
    word = _integers(Kind.UINT64)
    oid = _integers(Kind.OID)
    if kind is Kind.TIME:
        seconds = st.sampled_from([0, 59, 3661, 86_399]) | st.integers(0, 86_399)
        nanos = st.sampled_from([0, 1, 999_999_999]) | st.integers(0, 10**9 - 1)
        plain_times = st.tuples(seconds, nanos)
        leap = st.tuples(st.integers(0, 1439).map(lambda m: 60 * m + 59), nanos).map(
            lambda pair: (pair[0], pair[1] + 10**9)
        )
        return (plain_times | leap).map(lambda pair: struct.pack(">II", *pair))
    if kind is Kind.INTERVAL:
        parts = st.tuples(*(_integers(k) for k in (Kind.INT32, Kind.INT32, Kind.INT64)))
        return parts.map(lambda p: struct.pack(">IIQ", p[0] + 2**31, p[1] + 2**31, p[2] + 2**63))
    if kind is Kind.ACLITEM:
        return st.tuples(oid, oid, word).map(lambda p: struct.pack(">IIQ", *p))
    if kind is Kind.MZ_ACLITEM:
        role = st.tuples(st.sampled_from(ROLES), word).map(
            lambda p: struct.pack(">IQ", p[0], 0 if p[0] == 400 else p[1])
        )
        return st.tuples(role, role, word.map(lambda w: struct.pack(">Q", w))).map(b"".join)
    assert kind is Kind.UUID, kind
    edges = st.sampled_from([bytes(16), b"\xff" * 16, bytes(15) + b"\x01", b"\x80" + bytes(15)])
    return edges | st.binary(min_size=16, max_size=16)


def _canonical_float(value: float) -> float:
    return NAN if math.isnan(value) else value + 0.0


def _numbers() -> st.SearchStrategy[dict[str, Any]]:
    made = st.builds(
        lambda digits, exponent: f"{digits}E{exponent}",
        st.integers(1 - 10**39, 10**39 - 1) | st.integers(-999, 999),
        st.integers(-45, 45),
    )
    return (st.sampled_from(NUMBERS) | made).map(number)


def _decimals(column_type: ColumnType) -> st.SearchStrategy[Decimal]:
    limit = 10 ** (column_type.precision or 38) - 1
    unscaled = st.sampled_from([0, 1, -1, limit, -limit]) | st.integers(-limit, limit)
    return unscaled.map(lambda n: _scaled(n, column_type.scale or 0))


def _scaled(unscaled: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return Decimal(unscaled).scaleb(-scale)


@st.composite
def _arrays(draw: st.DrawFn, element: ColumnType) -> Plain:
    """Draw a PostgreSQL array: dimensions that differ, lower bounds other than 1, or nothing."""
    lengths = draw(st.lists(st.integers(1, 3), max_size=3))
    bounds = st.sampled_from([1, 0, -5, 2**31 - 9, -(2**31)])
    dims = [{"lower_bound": draw(bounds), "length": n} for n in lengths]
    count = math.prod(lengths) if lengths else 0
    cell = nullable(element)
    return {"dims": dims, "vals": [draw(cell) for _ in range(count)]}


@st.composite
def _ranges(draw: st.DrawFn, element: ColumnType) -> Plain:
    """Draw a canonical range: empty, unbounded on either side, or with both ends."""
    lower, upper = (draw(st.none() | values(element)) for _ in range(2))
    discrete = element.kind in DISCRETE
    if lower is not None and upper is not None:
        key = _number_key if element.kind is Kind.NUMERIC and element.precision is None else None
        keys = [key(end) if key else sort_key(end, element) for end in (lower, upper)]
        if keys[0] > keys[1]:
            lower, upper = upper, lower
        if keys[0] == keys[1] and discrete:
            lower = upper = None
            return _range(None, None, False, False, empty=True)
        if keys[0] == keys[1]:
            return _range(lower, upper, True, True)
    elif draw(st.integers(0, 3)) == 0:
        return _range(None, None, False, False, empty=True)
    flag = st.booleans()
    low_in = lower is not None and (discrete or draw(flag))
    high_in = upper is not None and not discrete and draw(flag)
    return _range(lower, upper, low_in, high_in)


def pack_decimal(number: Decimal) -> bytes:
    """Return the 40 bytes of one number."""
    packed: bytes = from_text(pa.array([str(number)]))[0].as_py()
    return packed


def unpack_decimal(packed: bytes) -> Decimal:
    """Return the number that 40 bytes hold."""
    _, exponent, *units = struct.unpack_from("<Ii13H", packed)
    sign, flags = int(packed[34] >= 0x80), packed[34] & 0x60
    if flags:
        return Decimal("NaN") if flags == 0x20 else Decimal((sign, (0,), "F"))
    coefficient = sum(unit * 1000**i for i, unit in enumerate(units))
    return Decimal((sign, tuple(map(int, str(coefficient))), exponent))


def _number_key(value: dict[str, Any]) -> Any:
    found = unpack_decimal(value["binary"])
    return (1, 0) if found.is_nan() else (0, found)


def _range(
    lower: Plain, upper: Plain, low_in: bool, high_in: bool, *, empty: bool = False
) -> Plain:
    return {
        "lower": lower,
        "upper": upper,
        "lower_inclusive": low_in,
        "upper_inclusive": high_in,
        "empty": empty,
    }


def _build(cells: Sequence[Plain], wanted: pa.DataType) -> pa.Array:
    """Return plain values as an array: leaves by Arrow, lists and structs put together here."""
    mask = pa.array([cell is None for cell in cells], pa.bool_())
    if pa.types.is_struct(wanted):
        children = [
            _build([None if cell is None else cell[field.name] for cell in cells], field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_list(wanted) or pa.types.is_map(wanted):
        ends = [0]
        for cell in cells:
            ends.append(ends[-1] + (0 if cell is None else len(cell)))
        inner = [item for cell in cells if cell is not None for item in cell]
        offsets = pa.array(ends, pa.int32())
        if pa.types.is_list(wanted):
            held = _build(inner, wanted.value_type)
            return pa.ListArray.from_arrays(offsets, held, type=wanted, mask=mask)
        keys = pa.array([key for key, _ in inner], pa.string())
        held = _build([item for _, item in inner], wanted.item_type)
        return pa.MapArray.from_arrays(offsets, keys, held, type=wanted, mask=mask)
    with localcontext() as context:
        context.prec = 60
        return pa.array(cells, wanted)


def _value(scalar: pa.Scalar) -> Plain:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_map(kind):
        return [(_value(pair["key"]), _value(pair["value"])) for pair in scalar.values]
    if pa.types.is_list(kind):
        return [_value(item) for item in scalar.values]
    if pa.types.is_struct(kind):
        return {name: _value(scalar[name]) for name in scalar}
    return scalar.as_py()
