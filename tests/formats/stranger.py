"""A reader of parts and manifests by a stranger, who had only docs/reference/format.md.

Nothing of Strata is imported: pyarrow opens Parquet and Arrow files, the rest is the standard
library, one value at a time. Types are JSON: {"kind": ..., "element": ..., "fields": ...}. Values
come as tests/formats/logical.py describes them.
"""

import io
import struct
import uuid
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

Type = dict[str, Any]

ROLES: Final = {100: "s", 200: "g", 300: "u", 400: "p"}
EPOCH: Final = date(1970, 1, 1).toordinal()
CYCLE_DAYS: Final = 146_097  # of 400 years
RANGE: Final = ("lower", "upper", "lower_inclusive", "upper_inclusive", "empty")
INTERVALS: Final = ("interval", "interval day to second", "interval year to month")


class RefusedError(Exception):
    """The file is of a version or state that must not be read."""


# ---- 1. Parts


def read_part(data: bytes, key: list[int], types: dict[int, Type]) -> dict[str, dict[str, Any]]:
    """Return a part's columns by id, once for each believable half: "rows", "columns"."""
    file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
    says = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
    if says["strata.format_version"] != "1":
        raise RefusedError("format version")
    if says["strata.migration"] not in ("0", "1"):
        raise RefusedError("migration")
    table, layout = file.read(), says["strata.layout"]
    if table.num_rows != int(says["strata.rows"]):
        raise RefusedError("rows")
    believed = layout != "row" and says["strata.migration"] == "1"
    if layout == "structured" and not believed:
        raise RefusedError("columns that must be ignored")
    sides = {"k": key, "v": [i for i in types if i not in key]}
    times = {name: table[name].to_pylist() for name in ("t", "d")}
    halves: dict[str, dict[str, Any]] = {}
    if layout != "structured":
        halves["rows"] = times | _rows(table, sides, types)
    if believed:
        halves["columns"] = times | _columns(table, sides, types)
    return halves


def _rows(table: pa.Table, sides: dict[str, list[int]], types: dict[int, Type]) -> dict[str, Any]:
    found: dict[str, Any] = {str(i): [] for i in types}
    for name, ids in sides.items():
        for row in table[name].to_pylist():
            values = datums(row, [types[i] for i in ids])
            for i, value in zip(ids, values, strict=True):
                found[str(i)].append(value)
    return found


def _columns(
    table: pa.Table, sides: dict[str, list[int]], types: dict[int, Type]
) -> dict[str, Any]:
    found = {}
    for name, ids in sides.items():
        side = table[f"{name}_s"].combine_chunks()
        children = dict(zip([f.name for f in side.type], side.flatten(), strict=True))
        for i in ids:
            found[str(i)] = [stored(value, types[i]) for value in children[str(i)]]
    return found


# ---- 1.1 Stored types


def stored(value: pa.Scalar, kind: Type) -> Any:
    """Return one stored value."""
    if not value.is_valid:
        return None
    name = kind["kind"]
    if name in ("list", "array", "int2vector", "map", "record", "range"):
        return _nested(value, kind)
    if name in ("date", "timestamp", "timestamptz", "interval day to second"):
        return value.value
    if name == "numeric" and "precision" in kind:
        return format(value.as_py(), "f")
    return _STORED.get(name, lambda same: same)(value.as_py())


def _nested(value: pa.Scalar, kind: Type) -> Any:
    name, element = kind["kind"], kind.get("element", {})
    if name == "list":
        return [stored(item, element) for item in value.values]
    if name in ("array", "int2vector"):
        dims = [list(dim.values()) for dim in value["dims"].as_py()]
        return {"dims": dims, "vals": [stored(item, element) for item in value["vals"].values]}
    if name == "map":
        keys, items = value.values.flatten()
        return [[k.as_py(), stored(v, element)] for k, v in zip(keys, items, strict=True)]
    if name == "record":
        return [stored(value[field["name"]], field["type"]) for field in kind["fields"]]
    ends = [stored(value[end], element) for end in RANGE[:2]]
    return ends + [value[flag].as_py() for flag in RANGE[2:]]


def _packed(data: bytes) -> str:
    digits, exponent, *units = struct.unpack_from("<Ii13H", data)
    flag = data[34]
    if flag & 0x20:
        return "NaN"
    if flag & 0x40:
        return "-Infinity" if flag & 0x80 else "Infinity"
    number = sum(unit * 1000**i for i, unit in enumerate(units))
    assert len(str(number)) == digits
    return _decimal(-number if flag & 0x80 else number, exponent)


def _decimal(number: int, exponent: int) -> str:
    digits = tuple(int(c) for c in str(abs(number)))
    return str(Decimal((int(number < 0), digits, exponent)))


def _float(value: float) -> Any:
    if value != value:  # noqa: PLR0124 -- NaN
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, value)


def _role(letter: str, number: int) -> str:
    return letter if letter == "p" else f"{letter}{number}"


def _unpack_interval(data: bytes) -> list[int]:
    months, days, micros = struct.unpack(">IIQ", data)
    return [months - 2**31, days - 2**31, micros - 2**63]


def _unpack_mz_aclitem(data: bytes) -> list[Any]:
    tag, grantee, other_tag, grantor, mode = struct.unpack(">IQIQQ", data)
    return [_role(ROLES[tag], grantee), _role(ROLES[other_tag], grantor), mode]


_STORED: Final[dict[str, Callable[[Any], Any]]] = {
    "float32": _float,
    "float64": _float,
    "numeric": lambda struct_of: _packed(struct_of["binary"]),
    "bytes": bytes.hex,
    "uuid": lambda data: str(uuid.UUID(bytes=data)),
    "time": lambda data: list(struct.unpack(">II", data)),
    "aclitem": lambda data: list(struct.unpack(">IIQ", data)),
    "interval": _unpack_interval,
    "mz_aclitem": _unpack_mz_aclitem,
}


# ---- 3. Row codec


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message: number, and an integer or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value: Any
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = {1: 8, 5: 4}[tag & 7]
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def datums(row: bytes, types: list[Type]) -> list[Any]:
    """Return the values of a row."""
    found = [data for number, data in fields(row) if number == 1]
    assert len(found) == len(types)
    return [datum(data, kind) for data, kind in zip(found, types, strict=True)]


def datum(data: bytes, kind: Type) -> Any:
    """Return one value."""
    ((number, value),) = fields(data)
    if number == 1:
        special = {1: None, 2: False, 3: True, 6: "Infinity", 7: "-Infinity", 8: "NaN"}
        return special[value]
    name = kind["kind"]
    if name in _MESSAGES:
        return _MESSAGES[name](value, kind)
    if name in ("int16", "int32", "int64"):
        return _signed(value)
    if name in ("float32", "float64"):
        return _float(struct.unpack("<f" if name == "float32" else "<d", value)[0])
    if isinstance(value, int):
        return value
    if name == "bytes":
        return value.hex()
    return str(uuid.UUID(bytes=value)) if name == "uuid" else value.decode()


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _named(data: bytes, *defaults: Any) -> list[Any]:
    """Return the fields 1, 2, ... of a message that has each at most once."""
    found = dict(fields(data))
    return [found.get(i, default) for i, default in enumerate(defaults, 1)]


def _date(data: bytes, _: Type) -> int:
    year, ordinal = _named(data, 0, 0)
    cycles, year = divmod(_signed(year) - 1, 400)  # Python counts years from 1
    return date(year + 1, 1, 1).toordinal() + cycles * CYCLE_DAYS + ordinal - 1 - EPOCH


def _timestamp(data: bytes, kind: Type) -> int:
    day, clock = _named(data, b"", b"")
    seconds, nanos = _named(clock, 0, 0)
    return (_date(day, kind) * 86_400 + seconds) * 1_000_000 + nanos // 1000


def _interval(data: bytes, kind: Type) -> Any:
    months, days, micros = map(_signed, _named(data, 0, 0, 0))
    return dict(zip(INTERVALS, ([months, days, micros], micros, months), strict=True))[kind["kind"]]


def _numeric(data: bytes, kind: Type) -> str:
    bcd, scale = _named(data, b"", 0)
    number = int(bcd.hex()[:-1] or "0") * (-1 if bcd.hex()[-1] == "d" else 1)
    text = _decimal(number, -_signed(scale))
    return format(Decimal(text), "f") if "precision" in kind else text


def _aclitem(data: bytes, _: Type) -> list[Any]:
    grantee, grantor, mode = _named(data, 0, 0, b"")
    return [grantee, grantor, *_named(mode, 0)]


def _mz_aclitem(data: bytes, _: Type) -> list[Any]:
    *roles, mode = _named(data, b"", b"", b"")
    letters = {1: "s", 2: "u", 3: "p", 4: "g"}
    texts = []
    for role in roles:
        ((number, value),) = fields(role)
        texts.append(_role(letters[number], value))
    return [*texts, *_named(mode, 0)]


def _array(data: bytes, kind: Type) -> Any:
    row, dims = b"", []
    for number, value in fields(data):
        if number == 1:
            row = value
        else:
            low, length = _named(value, 0, 0)
            dims.append([_signed(low), length])
    return {"dims": dims, "vals": _items(row, kind)}


def _items(data: bytes, kind: Type) -> list[Any]:
    return [datum(item, kind["element"]) for _, item in fields(data)]


def _map(data: bytes, kind: Type) -> list[Any]:
    pairs = [_named(entry, b"", b"") for _, entry in fields(data)]
    return [[key.decode(), datum(value, kind["element"])] for key, value in pairs]


def _range(data: bytes, kind: Type) -> list[Any]:
    (inner,) = _named(data, None)
    if inner is None:
        return [None, None, False, False, True]
    low_in, low, high_in, high = _named(inner, 0, None, 0, None)
    ends = [None if end is None else datum(end, kind["element"]) for end in (low, high)]
    return [*ends, bool(low_in), bool(high_in), False]


_MESSAGES: Final = {
    "date": _date,
    "time": lambda data, _: _named(data, 0, 0),
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    **dict.fromkeys(INTERVALS, _interval),
    "numeric": _numeric,
    "aclitem": _aclitem,
    "mz_aclitem": _mz_aclitem,
    "list": _items,
    "array": _array,
    "int2vector": _array,
    "map": _map,
    "record": lambda data, kind: datums(data, [f["type"] for f in kind["fields"]]),
    "range": _range,
}


# ---- 4. Manifests


def read_manifest(data: bytes) -> list[dict[str, Any]]:
    """Return what a manifest says of each part, statistics too."""
    reader = pa.ipc.open_file(pa.BufferReader(data))
    if reader.schema.metadata[b"strata.manifest_version"] != b"1":
        raise RefusedError("manifest version")
    rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    return rows
