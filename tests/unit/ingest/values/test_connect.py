"""Values as Kafka Connect encodes them: each is what its schema says, or nothing at all."""

from base64 import b64encode
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from strata.ingest.readers.debezium import Event, defaulted
from strata.ingest.twin.connect import from_connect
from strata.ingest.twin.unreadable import Unreadable
from strata.ingest.values.cast import from_objects
from strata.ingest.values.connect import plain_values
from strata.model.schema import Column
from strata.model.types import parse_type

DECIMAL = "org.apache.kafka.connect.data.Decimal"
TIME = "io.debezium.time."


def stored(
    values: list[Any], kind: str, field: dict[str, Any] | None
) -> tuple[list[Any], set[int]]:
    """Return what becomes of values of one field, and which of them are refused."""
    column = Column(1, "x", parse_type(kind))
    plain = plain_values(values, column, [None if field is None else {"x": field}] * len(values))
    cast = from_objects(plain, column.type)
    return cast.values.to_pylist(), set(cast.bad.tolist())


def base64(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal_field(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": DECIMAL, "parameters": {"scale": str(scale)}}


def test_decimals_in_base64_keep_all_their_digits() -> None:
    random = Random(1)
    for scale in (0, 10, 38):
        units = [random.choice([1, -1]) * random.randint(0, 10**38 - 1) for _ in range(300)]
        units += [10**38 - 1, 1 - 10**38, 10**28 + 1, 12345678901234567890123456789012345678]

        values, bad = stored(
            [base64(u) for u in units], f"numeric(38,{scale})", decimal_field(scale)
        )

        assert not bad
        signs = [(-1) ** value.as_tuple().sign for value in values]
        digits = [int("".join(map(str, value.as_tuple().digits))) for value in values]
        assert [s * d for s, d in zip(signs, digits, strict=True)] == units


@pytest.mark.parametrize("number", [10**38, 2**128, 2**128 + 1, 2**256 - 1, -(10**38)])
def test_decimals_in_base64_that_do_not_fit_are_refused(number: int) -> None:
    assert stored([base64(number)], "numeric(38,0)", decimal_field(0)) == ([None], {0})


def test_decimals_without_precision_have_39_digits() -> None:
    field = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
    numbers = [(10**30 + 1, 0), (10**39 - 1, 5), (10**39, 0), (10**39 + 1, 0), (1, -3)]

    _, bad = stored([{"value": base64(u), "scale": s} for u, s in numbers], "numeric", field)

    assert bad == {3}


@pytest.mark.parametrize("text", ["12345", "1.5", "!", "", "MTI"])
def test_what_is_no_base64_is_no_number_either(text: str) -> None:
    assert stored([text], "numeric(10,2)", decimal_field(2))[1] == {0}
    assert stored([text + "!"], "bytes", {"type": "bytes"})[1] == {0}
    assert stored([text + "!"], "bytes", None)[1] == {0}


@pytest.mark.parametrize(("name", "unit"), [("Time", 10**6), ("MicroTime", 1000), ("NanoTime", 1)])
def test_a_time_lies_within_a_day(name: str, unit: int) -> None:
    day = 86_400 * 10**9 // unit
    field = {"type": "int64", "name": f"{TIME}{name}"}

    _, bad = stored([0, day - 1, day, -1, 2**62], "time", field)

    assert bad == {2, 3, 4}
    assert stored([86_400_000_000, 86_399_999_999], "time", None)[1] == {0}


def test_a_nanosecond_is_kept_or_refused() -> None:
    nanos = {"type": "int64", "name": f"{TIME}NanoTime"}
    moments = {"type": "int64", "name": f"{TIME}NanoTimestamp"}

    times, bad = stored([1, 3_600_000_000_001], "time", nanos)

    assert (len(set(times)), bad) == (2, set())
    assert stored([1, 1000, -1], "timestamp", moments)[1] == {0, 2}


def test_an_integer_that_its_schema_calls_no_time_is_none() -> None:
    for kind in ("date", "time", "timestamp", "timestamptz"):
        assert stored([5], kind, {"type": "int64"})[1] == {0}
        assert stored([5], kind, None)[1] == set()


@pytest.mark.parametrize("name", [f"{TIME}Date", f"{TIME}MicroTimestamp", f"{TIME}NanoTime"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int32", "5"),
        ("float64", 1.5),
        ("string", "abc"),
        ("bool", True),
        ("date", "2024-01-01"),
        ("timestamp", "2024-01-01"),
        ("time", "10:00:00"),
        ("jsonb", "5"),
        ("jsonb", [5]),
    ],
)
def test_what_its_schema_calls_a_count_is_nothing_else(name: str, kind: str, value: Any) -> None:
    field = {"type": "int64", "name": name}
    assert stored([value, None], kind, field) == ([None, None], {0})
    items = {"type": "array", "items": field}
    if kind != "jsonb":
        assert stored([[value], None], f"list<{kind}>", items) == ([None, None], {0})
    with pytest.raises(Unreadable, match="not an integer"):
        from_connect(value, field, parse_type(kind))


def test_text_of_bytes_may_be_hexadecimal_and_is_refused() -> None:
    assert stored(["deadbeef"], "bytes", {"type": "string"})[1] == {0}
    assert stored(["deadbeef"], "bytes", {"type": "bytes"}) == ([b"u\xe6\x9dm\xe7\x9f"], set())


@pytest.mark.parametrize(
    "field",
    [
        None,
        5,
        [],
        {"name": {}},
        {"type": []},
        {"name": DECIMAL, "parameters": 5},
        {"name": DECIMAL, "parameters": {"scale": "x"}},
        {"type": "array", "items": 7},
    ],
)
def test_a_schema_that_is_none_takes_no_file_down(field: Any) -> None:
    column = Column(1, "x", parse_type("numeric(10,2)"))

    plain = plain_values(["AQ==", None], column, [{"x": field}, None])

    assert from_objects(plain, column.type).values.to_pylist()[1] is None


def test_a_broken_value_is_refused_wherever_it_stands() -> None:
    array = {"type": "array", "items": decimal_field(2)}

    assert stored([["AQ==", "x!"], ["AQ=="]], "list<numeric(10,2)>", array) == (
        [None, [Decimal("0.01")]],
        {0},
    )
    for kind in ("jsonb", "string", "bool", "int32", "uuid"):
        assert stored(["x!"], kind, decimal_field(0))[1] == {0}


def test_values_that_are_their_default_are_counted_where_no_null_comes() -> None:
    schema = {
        "z": {"field": "z", "type": "int32", "optional": True, "default": 7},
        "seen": {"field": "seen", "type": "int32", "optional": True, "default": 7},
        "must": {"field": "must", "type": "int32", "optional": False, "default": 7},
        "none": {"field": "none", "type": "int32", "optional": True},
    }
    rows = [{"z": 7, "seen": 7, "must": 7, "none": 7}, {"z": 8, "seen": None, "must": 7, "none": 1}]
    events = [Event(0, row, 0, schema) for row in [*rows, rows[0]]]

    assert defaulted(events, list(schema)) == {"z": 2}
    assert defaulted([Event(0, rows[0], 0)], list(schema)) == {}
