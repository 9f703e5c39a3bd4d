"""Hostile values as Debezium tells them: plain, with a schema, and as base64."""

import base64
from random import Random
from typing import Any, Final

from strata.model.types import ColumnType, Kind
from tests.wall import fragments, leaves

KAFKA: Final = "org.apache.kafka.connect.data."
TIME: Final = "io.debezium.time."
DAY: Final = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_799
Told = tuple[dict[str, Any] | None, bytes, bool]  # schema, JSON, promised
MOMENTS: Final = {  # ticks a second
    TIME + "Timestamp": 10**3,
    TIME + "MicroTimestamp": 10**6,
    TIME + "NanoTimestamp": 10**9,
    KAFKA + "Timestamp": 10**3,
}
CLOCKS: Final = {
    TIME + "Time": 10**3,
    TIME + "MicroTime": 10**6,
    TIME + "NanoTime": 10**9,
    KAFKA + "Time": 10**3,
}
SIMPLE: Final = {
    Kind.BOOL: "boolean",
    Kind.INT16: "int16",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
}


def plain(draw: Random, column_type: ColumnType) -> Told:
    """Return a value of an event without a schema."""
    kind = column_type.kind
    if draw.random() < 0.5 and kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return None, str(_ticks(draw, kind, 10**6)).encode(), kind is not Kind.TIMESTAMPTZ
    if kind is Kind.BYTES:
        return None, _bytes(draw), True
    if kind is Kind.JSONB:
        text = leaves.text(draw, column_type)
        return None, fragments.quoted(draw, text), isinstance(text, str)
    spelt, well = fragments.fragment(draw, column_type)
    return None, spelt, well and not spelt.startswith((b"[", b"{"))


def _ticks(draw: Random, kind: Kind, per: int) -> int:
    if kind is Kind.DATE:
        return draw.choice((0, -1, FIRST // DAY, FIRST // DAY - 1, LAST // DAY, LAST // DAY + 1,
                            2**31, -(2**40), draw.randint(FIRST // DAY, LAST // DAY)))  # fmt: skip
    if kind is Kind.TIME:
        day = DAY * per
        return draw.choice((0, 1, -1, day - 1, day, day + 1, 2 * day, -day, draw.randrange(day)))
    return draw.choice(
        (0, -1, 1, FIRST * per, FIRST * per - 1, (LAST + 1) * per - 1, (LAST + 1) * per, 2**63 - 1,
         2**63, -(2**63), draw.randint(FIRST, LAST) * per + draw.randrange(per))
    )  # fmt: skip


def _bytes(draw: Random) -> bytes:
    good = base64.b64encode(draw.randbytes(draw.randrange(12))).decode()
    bad = (good + "=", good[:-1], good + "\n", "-_==", "a", "====", " " + good, "é", '\\"', "AA=A")
    return b'"' + draw.choice((good, good, good, *bad)).encode() + b'"'


def with_schema(draw: Random, column_type: ColumnType) -> Told:
    """Return a value of an event with its schema, decimals and bytes as text."""
    kind = column_type.kind
    if kind is Kind.DATE:
        name = draw.choice((TIME, KAFKA)) + "Date"
        return _named("int32", name), str(_ticks(draw, kind, 1)).encode(), True
    if kind is Kind.TIME:
        name, per = draw.choice(tuple(CLOCKS.items()))
        return _named("int64", name), str(_ticks(draw, kind, per)).encode(), True
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and draw.random() < 0.7:
        name, per = draw.choice(tuple(MOMENTS.items()))
        return _named("int64", name), str(_ticks(draw, kind, per)).encode(), True
    if kind is Kind.TIMESTAMPTZ:
        return _named("string", TIME + "ZonedTimestamp"), *plain(draw, column_type)[1:]
    if kind is Kind.JSONB:
        return _named("string", "io.debezium.data.Json"), *plain(draw, column_type)[1:]
    if kind is Kind.BYTES:
        return {"type": "bytes", "optional": True}, _bytes(draw), True
    if kind in (Kind.LIST, Kind.ARRAY) and column_type.element is not None:
        schema, _, _ = with_schema(Random(7), column_type.element)
        items = [_item(draw, column_type.element) for _ in range(draw.choice((0, 1, 2)))]
        return {"type": "array", "items": schema}, b"[" + b",".join(items) + b"]", False
    return _named(SIMPLE.get(kind, "string"), None), *plain(draw, column_type)[1:]


def _item(draw: Random, column_type: ColumnType) -> bytes:
    wanted = with_schema(Random(7), column_type)[0]
    for _ in range(20):
        schema, item, _ = with_schema(draw, column_type)
        if schema == wanted:
            return item
    return b"null"


def _named(kind: str, name: str | None) -> dict[str, Any]:
    return {"type": kind, "optional": True} | ({} if name is None else {"name": name})


def as_base64(draw: Random, column_type: ColumnType) -> Told:
    """Return a number as Debezium's precise mode tells it."""
    unscaled = draw.choice(
        (
            *(2**bits - draw.randint(-1, 2) for bits in leaves.BITS),
            0,
            *(10**power - draw.randint(-1, 1) for power in leaves.POWERS),
            draw.randrange(10 ** draw.choice(leaves.LENGTHS)),
        )
    )
    unscaled *= draw.choice((1, -1))
    size = unscaled.bit_length() // 8 + 1 + draw.choice((0, 0, 0, 3))
    packed = base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    own = column_type.scale or 0
    scale = draw.choice((own, own, own, 0, 1, 2, 10, 18, 38, 39, -1, -5))
    if draw.random() < 0.05:
        packed = draw.choice(("", "a", "!", packed[:-1], packed + "="))
    if draw.random() < 0.5:
        parameters = {"scale": str(scale), "connect.decimal.precision": "38"}
        return (
            _named("bytes", KAFKA + "Decimal") | {"parameters": parameters},
            f'"{packed}"'.encode(),
            packed != "",
        )
    value = f'{{"scale":{scale},"value":"{packed}"}}'.encode()
    return _named("struct", "io.debezium.data.VariableScaleDecimal"), value, packed != ""
