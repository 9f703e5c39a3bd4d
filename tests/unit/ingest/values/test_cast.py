"""Source values become typed columns; each value is judged alone, and none is guessed."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.ingest.values.cast import (
    NumberText,
    from_arrow,
    from_objects,
    from_text,
    to_milliseconds,
)
from strata.ingest.values.column import all_or_halves
from strata.model.time import MAX_TIME, MIN_TIME
from strata.model.types import parse_type


def naive(*fields: int) -> datetime:
    """Return a time without a zone, as a timestamp column has it."""
    return datetime(*fields)  # noqa: DTZ001


READABLE = [
    ("int16", "5", 5),
    ("int64", " -5 ", -5),
    ("float64", "1e3", 1000.0),
    ("float64", "-inf", float("-inf")),
    ("numeric(10,2)", "1.5", Decimal("1.50")),
    ("bool", "TRUE", True),
    ("bool", "0", False),
    ("date", "2013-02-28", date(2013, 2, 28)),
    ("timestamp", "2013-01-01T10:00:00.5", naive(2013, 1, 1, 10, 0, 0, 500_000)),
    ("timestamp", "2013-01-01 10:00", naive(2013, 1, 1, 10)),
    ("timestamptz", "2013-01-01T10:00:00Z", datetime(2013, 1, 1, 10, tzinfo=UTC)),
    ("timestamptz", "2013-01-01 10:00:00+01:00", datetime(2013, 1, 1, 9, tzinfo=UTC)),
    ("timestamptz", "2013-01-01T10:00-0130", datetime(2013, 1, 1, 11, 30, tzinfo=UTC)),
    ("timestamptz", "2013-01-01T10:00:00", datetime(2013, 1, 1, 10, tzinfo=UTC)),
    ("timestamptz", "2013-01-01", datetime(2013, 1, 1, tzinfo=UTC)),
    ("timestamptz", "9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("string", " kept ", " kept "),
    ("bytes", "abc", b"abc"),
    ("jsonb", '{"b": 1, "a": [1.0, 2]}', '{"a":[1.0,2],"b":1}'),
    ("jsonb", "12345678901234567890123", "12345678901234567890123"),
]
GOOD = {"float32": "1.5", "numeric(4,2)": "1.5"}
UNREADABLE = [
    ("int16", "40000"),
    ("int64", "5.0"),
    ("int64", "12a"),
    ("float64", "1,5"),
    ("float64", "1e400"),
    ("float32", "1e39"),
    ("numeric(10,2)", "1.005"),
    ("numeric(4,2)", "100"),
    ("bool", "yes"),
    ("date", "2013-02-30"),
    ("date", "0000-01-01"),
    ("timestamp", "2013-01-01T10:00:00Z"),
    ("timestamp", "0000-12-31T23:59:59"),
    ("timestamptz", "0001-01-01T00:00:00+01:00"),
    ("timestamptz", "9999-12-31T23:59:59-01:00"),
    ("timestamptz", "2013-01-01T25:00:00Z"),
    ("timestamptz", "yesterday"),
    ("jsonb", "{a: 1}"),
    ("jsonb", "NaN"),
]


@pytest.mark.parametrize(("kind", "text", "value"), READABLE)
def test_text_is_read(kind: str, text: str, value: object) -> None:
    cast = from_text(pa.array([text, None]), parse_type(kind))

    assert cast.bad.tolist() == []
    assert cast.values.to_pylist() == [value, None]


@pytest.mark.parametrize(("kind", "text"), UNREADABLE)
def test_text_that_is_no_value_is_bad_and_its_neighbours_are_not(kind: str, text: str) -> None:
    good = GOOD.get(kind) or next(t for k, t, _ in READABLE if k == kind)

    cast = from_text(pa.array([good, text, None, good, text]), parse_type(kind))

    assert cast.bad.tolist() == [1, 4]
    assert [v is None for v in cast.values.to_pylist()] == [False, True, True, False, True]


def test_bytes_that_are_no_utf8_are_bad() -> None:
    cast = from_text(pa.array([b"a", b"\xff", b"\xc3\xa9"]), parse_type("string"))

    assert cast.bad.tolist() == [1]
    assert cast.values.to_pylist() == ["a", None, "é"]


SCALARS = ["int16", "int64", "float64", "numeric(10,2)", "bool", "date", "timestamp", "timestamptz"]


@given(
    st.sampled_from(SCALARS),
    st.lists(st.sampled_from([text for _, text, _ in READABLE] + [text for _, text in UNREADABLE])),
)
@example("timestamptz", ["2013-01-01", "2013-01-01T10:00:00Z", "yesterday"])
@example("float64", ["nan"])
def test_a_value_is_judged_alone(kind: str, texts: Sequence[str]) -> None:
    """The slow twin converts one value at a time."""
    target = parse_type(kind)

    whole = from_text(pa.array(texts, pa.string()), target)

    alone = [from_text(pa.array([text]), target) for text in texts]
    # By their texts: two NaN are never equal.
    assert [repr(value) for value in whole.values.to_pylist()] == [
        repr(cast.values[0].as_py()) for cast in alone
    ]
    assert whole.bad.tolist() == [n for n, cast in enumerate(alone) if len(cast.bad)]


LETTERS = st.text(st.sampled_from("0123456789+-.eExXnNaAiIfFtTrRuUlLsSyYZ:/ \t\u0661"), max_size=12)
NUMBERS = [
    "true",
    "0",
    "-5",
    "0x1F",
    ".5",
    "1.",
    "1e5",
    "1.e-3",
    "nan",
    "NaN(1)",
    "-inf",
    "infinit",
]
DAYS = ["2013-02-28", "20130228", "+2013-02-28", "12013-02-28", "2013-2-8", "", "+", "1_0", "1e"]
CLOCKS = ["2013-02-28T10", "2013-02-28 10:00:00.5Z", "2013-02-28t10:00", "2013-02-28 10:00 UTC"]
NEARLY = st.sampled_from([*NUMBERS, *DAYS, *CLOCKS])


@pytest.mark.parametrize(
    "kind",
    [
        "bool",
        "int16",
        "uint64",
        "float32",
        "float64",
        "numeric(9,2)",
        "date",
        "timestamp",
        "timestamptz",
    ],
)
@given(text=st.one_of(NEARLY, LETTERS, st.tuples(NEARLY, LETTERS).map("".join)))
def test_a_text_that_is_not_tried_is_read_by_no_conversion(kind: str, text: str) -> None:
    """Beside a bad text only those are tried that look like their type; alone, each is tried."""
    target = parse_type(kind)
    alone = from_text(pa.array([text]), target)

    beside = from_text(pa.array([text, "none"]), target)

    assert beside.bad.tolist() == [*alone.bad.tolist(), 1]
    assert beside.values[:1].to_pylist() == alone.values.to_pylist() or text.lower() == "nan"


def test_texts_of_another_form_are_not_tried_one_by_one() -> None:
    tried: list[int] = []

    def convert(texts: pa.Array) -> pa.Array:
        tried.append(len(texts))
        return texts.cast(pa.int64())

    texts = pa.array([*(f"word {n}" for n in range(1000)), "5", "9" * 30])
    cast = all_or_halves(texts, pa.int64(), convert, r"^-?\d+$")

    assert (cast.values[1000].as_py(), len(cast.bad)) == (5, 1001)
    assert len(tried) < 30


def test_floats_have_one_zero_and_one_nan() -> None:
    cast = from_text(pa.array(["-0.0", "-nan", "nan"]), parse_type("float64"))
    words = cast.values.view(pa.uint64()).to_pylist()

    assert words == [0, 0x7FF8000000000000, 0x7FF8000000000000]


JSON_VALUES = st.sampled_from(
    [None, True, False, 0, -1, 5, 2**40, 2**62, 1.5, 5.0, -0.0, 1e30, "5", "x", "true", "", [1], {}]
)


@given(st.sampled_from([*SCALARS, "string", "jsonb"]), st.lists(JSON_VALUES))
def test_a_json_value_is_judged_alone(kind: str, values: list[object]) -> None:
    target = parse_type(kind)

    whole = from_objects(values, target)

    alone = [from_objects([value], target) for value in values]
    assert [repr(v) for v in whole.values.to_pylist()] == [
        repr(cast.values[0].as_py()) for cast in alone
    ]
    assert whole.bad.tolist() == [n for n, cast in enumerate(alone) if len(cast.bad)]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("int32", 5.0, 5),
        ("int32", NumberText("5e0"), 5),
        ("int64", NumberText("9223372036854775807"), 2**63 - 1),
        ("float64", 2**62, float(2**62)),
        ("numeric(20,2)", NumberText("123456789012345678.25"), Decimal("123456789012345678.25")),
        ("string", "5", "5"),
        ("timestamptz", "2013-01-01T00:00:00Z", datetime(2013, 1, 1, tzinfo=UTC)),
        ("jsonb", {"b": -0.0, "a": None}, '{"a":null,"b":-0.0}'),
        ("jsonb", {"n": NumberText("12345678901234567890.5")}, '{"n":12345678901234567890.5}'),
        ("jsonb", [NumberText("-0"), NumberText("1E+2")], "[0,100.0]"),
        ("jsonb", "text", '"text"'),
    ],
)
def test_json_values_are_read(kind: str, value: object, read: object) -> None:
    cast = from_objects([value], parse_type(kind))

    assert cast.bad.tolist() == []
    if kind == "jsonb":
        assert orjson.loads(cast.values[0].as_py()) == orjson.loads(str(read))
    else:
        assert cast.values.to_pylist() == [read]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int32", True),
        ("int32", 5.5),
        ("int32", 2**31),
        ("int64", NumberText("1e999999")),
        ("bool", 1),
        ("string", 5),
        ("string", NumberText("5")),
        ("string", {"a": 1}),
        ("timestamptz", 1356998400000),
        ("float64", [1.0]),
    ],
)
def test_a_json_value_of_another_type_is_bad(kind: str, value: object) -> None:
    assert from_objects([value, None], parse_type(kind)).bad.tolist() == [0]


def test_arrow_columns_are_cast_without_loss() -> None:
    assert from_arrow(pa.array([1, 300_000]), parse_type("int16")).bad.tolist() == [1]
    assert from_arrow(pa.array([1.0, 1.5]), parse_type("int32")).bad.tolist() == [1]
    nanoseconds = pa.array([1_000, 1_001], pa.timestamp("ns"))
    assert from_arrow(nanoseconds, parse_type("timestamp")).bad.tolist() == [1]
    texts = pa.array(["5", "x"]).dictionary_encode()
    assert from_arrow(texts, parse_type("int32")).values.to_pylist() == [5, None]
    fixed = from_arrow(pa.array([b"\xff\x00", None], pa.binary(2)), parse_type("bytes"))
    assert (fixed.values.to_pylist(), fixed.bad.tolist()) == ([b"\xff\x00", None], [])


def test_a_column_of_another_family_is_bad_throughout() -> None:
    times = pa.array([1, None, 2], pa.timestamp("us"))

    assert from_arrow(times, parse_type("int64")).bad.tolist() == [0, 2]
    assert from_arrow(pa.array([1, 2]), parse_type("timestamptz")).bad.tolist() == [0, 1]


def test_a_blank_may_stand_before_a_zone() -> None:
    texts = ["2013-12-01 10:00:00.5 UTC", "2013-12-01 02:00:00.500 -0800", "2013-12-01 10:00 Z"]
    refused = ["2013-12-01 10:00:00 PST", "2013-12-01 UTC", "2013-12-01 -0800"]
    for some in (texts, [*texts, "2013-12-01 10:00:00", *refused]):
        found = from_text(pa.array(some), parse_type("timestamptz"))
        micros = found.values.view(pa.int64()).to_pylist()
        assert micros[:3] == [1_385_892_000_500_000] * 2 + [1_385_892_000_000_000]
        assert list(found.bad) == [n for n, text in enumerate(some) if text in refused]
    assert len(from_text(pa.array(texts), parse_type("timestamp")).bad) == len(texts)


def test_zones_of_arrow_timestamps_are_converted() -> None:
    berlin = pa.array([naive(2013, 7, 1, 12)], pa.timestamp("us"))
    zoned = pa.compute.assume_timezone(berlin, "Europe/Berlin")

    instant = from_arrow(zoned, parse_type("timestamptz")).values
    assert instant.to_pylist() == [datetime(2013, 7, 1, 10, tzinfo=UTC)]
    assert from_arrow(zoned, parse_type("timestamp")).values.to_pylist() == [naive(2013, 7, 1, 10)]


def test_nested_arrow_columns_become_json() -> None:
    column = pa.array([{"b": 1, "a": [None]}, None])

    assert from_arrow(column, parse_type("jsonb")).values.to_pylist() == [
        '{"a":[null],"b":1}',
        None,
    ]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_last_millisecond_is_taken_to_its_last_microsecond_and_no_further(
    zone: str | None,
) -> None:
    first, last = MIN_TIME * 1000, MAX_TIME * 1000 + 999
    micros = pa.array([first - 1, first, last - 998, last, last + 1]).cast(pa.timestamp("us", zone))

    cast = from_arrow(micros, parse_type("timestamptz" if zone else "timestamp"))

    assert cast.bad.tolist() == [0, 4]
    assert cast.values.cast(pa.int64()).to_pylist() == [None, first, last - 998, last, None]


def test_milliseconds_round_down() -> None:
    micros = pa.array([-1, 999, 1000, None], pa.timestamp("us", "UTC"))

    assert to_milliseconds(micros).to_pylist() == [-1, 0, 1, None]
    assert to_milliseconds(pa.array([date(1970, 1, 2)])).to_pylist() == [86_400_000]
    assert to_milliseconds(pa.array([5, None])).to_pylist() == [5, None]
