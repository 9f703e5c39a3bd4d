"""Numbers come in as they are, or not at all; the twin is Python's decimal without rounding."""

import math
import re
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from strata.ingest.readers.json_table import has_digits, read_table
from strata.ingest.values.cast import from_arrow, from_objects, from_text
from strata.ingest.values.exact_json import NumberText
from strata.ingest.values.numbers import exact_decimal, has_byte
from strata.model.types import parse_type

EXACT = Context(prec=2000, Emax=10**6, Emin=-(10**6))


def slow_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Return the number that a text says if a numeric(precision,scale) holds it."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    with localcontext(EXACT):
        value = Decimal(text)
        scaled = value.scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**precision
        return value if fits else None


def hostile_numbers(random: Random, count: int) -> list[str]:
    """Return texts about the limits of decimals: many digits, points, exponents, signs."""
    found = []
    for _ in range(count):
        length = random.choice([1, 2, 17, 18, 19, 27, 28, 29, 37, 38, 39, 40, 76, 77, 78])
        digits = "".join(random.choice("0123456789") for _ in range(length))
        if random.random() < 0.3:
            wrap = random.choice([0, 1, -1, 100, -100]) + random.randint(1, 3) * 2**128
            digits = str(abs(wrap))
        point = random.randint(0, len(digits))
        text = digits[:point] + random.choice(["", ".", "."]) + digits[point:]
        text += random.choice(["", "", "", "0" * random.randint(1, 50) * ("." in text)])
        text += random.choice(["", "", f"e{random.randint(-80, 80)}", f"E+{random.randint(0, 9)}"])
        found.append(random.choice(["", "-", "+"]) + text)
    return found


@pytest.mark.parametrize(
    "kind", ["numeric(10,2)", "numeric(38,0)", "numeric(38,20)", "numeric(38,38)", "numeric(1,0)"]
)
def test_decimals_of_text_are_those_of_python(kind: str) -> None:
    target = parse_type(kind)
    texts = [*hostile_numbers(Random(kind), 4000), *map(str, (2**256 - 1, 2**128, 10**39 - 1))]
    expected = [slow_decimal(text, target.precision or 0, target.scale or 0) for text in texts]

    cast = from_text(pa.array(texts), target)

    assert cast.values.to_pylist() == expected
    assert cast.bad.tolist() == [row for row, value in enumerate(expected) if value is None]
    assert len(set(expected)) > 3


@pytest.mark.parametrize("kind", ["numeric(10,2)", "numeric(38,0)", "numeric(38,20)"])
def test_decimals_of_json_are_those_of_python(kind: str) -> None:
    target = parse_type(kind)
    texts = [t.lstrip("+").replace("e", "E") for t in hostile_numbers(Random(kind), 1000)]
    expected = [slow_decimal(text, target.precision or 0, target.scale or 0) for text in texts]

    assert from_objects([NumberText(text) for text in texts], target).values.to_pylist() == expected


def test_an_exponent_of_a_billion_is_judged_at_once() -> None:
    assert exact_decimal("1e999999999", 38, 0) is None
    assert exact_decimal("1e-999999999999999999999", 38, 38) is None
    assert exact_decimal("0e999999999", 38, 0) == 0


def test_decimal_columns_change_their_scale_without_wrapping() -> None:
    random = Random(3)
    for _ in range(300):
        places = random.randint(0, 38)
        units = [random.randint(1, 10 ** random.randint(1, 38) - 1) for _ in range(20)]
        values = [Decimal((0, tuple(map(int, str(unit))), -places)) for unit in units]
        target = parse_type(f"numeric(38,{random.randint(0, 38)})")

        cast = from_arrow(pa.array(values, pa.decimal128(38, places)), target)

        expected = [slow_decimal(format(v, "f"), 38, target.scale or 0) for v in values]
        assert cast.values.to_pylist() == expected


def test_a_float_is_the_decimal_that_its_shortest_text_says() -> None:
    values = pa.array([0.1, 0.125, 1e22, math.nan, math.inf, None, -5.0])

    cast = from_arrow(values, parse_type("numeric(10,2)"))

    assert cast.values.to_pylist() == [Decimal("0.10"), *[None] * 5, Decimal("-5.00")]
    assert cast.bad.tolist() == [1, 2, 3, 4]


def test_a_double_that_is_no_float_is_refused() -> None:
    cast = from_arrow(
        pa.array([0.1, 0.5, 1e300, 1e-300, math.nan, math.inf, None]), parse_type("float32")
    )

    assert cast.bad.tolist() == [0, 2, 3]


def test_an_integer_fits_a_decimal_by_its_value() -> None:
    cast = from_arrow(pa.array([5, 10**8, None]), parse_type("numeric(10,2)"))

    assert cast.values.to_pylist() == [Decimal("5.00"), None, None]


@pytest.mark.parametrize("kind", ["int16", "int32", "int64", "uint8", "uint64", "oid"])
def test_hexadecimal_is_no_integer(kind: str) -> None:
    cast = from_text(pa.array(["0x10", "16", "0X1F", None]), parse_type(kind))

    assert cast.values.to_pylist() == [None, 16, None, None]
    assert cast.bad.tolist() == [0, 2]


@pytest.mark.parametrize(("kind", "bits"), [("float32", 24), ("float64", 53)])
def test_text_of_a_float_is_rounded_once(kind: str, bits: int) -> None:
    random = Random(kind)
    texts = []
    for _ in range(500):  # beside the middle between two floats, where rounding twice goes wrong
        middle = Fraction(2 * random.getrandbits(bits - 1) + 2**bits + 1, 2**bits)
        digits = random.choice([14, 15, 16, 17, 20])
        scaled = round(middle * 10**digits)
        texts.append(f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}}")

    found = from_text(pa.array(texts), parse_type(kind)).values.to_pylist()
    of_json = from_objects(
        [float(t) if len(t) < 16 else NumberText(t) for t in texts], parse_type(kind)
    ).values.to_pylist()

    for text, value in zip(texts, found, strict=True):
        numpy_type = np.float32 if kind == "float32" else np.float64
        step = Fraction(float(np.spacing(numpy_type(value))))
        assert abs(Fraction(value) - Fraction(text)) <= step / 2
    assert of_json == found


@pytest.mark.parametrize("text", ["1e-400", "0." + "0" * 400 + "1", "1e400", "nan(12)"])
def test_a_float_that_would_be_another_number_is_refused(text: str) -> None:
    assert from_text(pa.array([text, "1"]), parse_type("float64")).bad.tolist() == [0]
    assert (
        from_text(pa.array(["0", "0e5", "-0.0", "NaN", "-inf"]), parse_type("float64")).bad.tolist()
        == []
    )


def test_digits_side_by_side_are_found_wherever_they_stand() -> None:
    random = Random(5)
    for _ in range(3000):
        count = random.randint(1, 40)
        size = random.randint(0, 120)
        data = bytes(random.choice(b"0123456789" * 6 + b'ae.,":') for _ in range(size))

        expected = re.search(rb"[0-9]{%d}" % count, data) is not None
        assert has_digits(np.frombuffer(data, np.uint8), count) == expected


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("74108678113769421407796.8", pa.decimal128(38, 28)),
        (str(2**128 + 1), pa.decimal128(38, 0)),
        ("1e37", pa.decimal128(38, 2)),
        ('"12e36"', pa.decimal128(38, 2)),
        ("1e-400", pa.float64()),
        ("0." + "0" * 330 + "1", pa.float64()),
    ],
)
def test_what_arrow_reads_wrong_is_not_read_as_a_table(number: str, kind: pa.DataType) -> None:
    data = (b'{"a":1}\n' * 3) + b'{"a":%s}\n' % number.encode()

    assert read_table(data, pa.schema([("a", kind)]), others=True) is None
    assert read_table(b'{"a":1}\n' * 3, pa.schema([("a", kind)]), others=True) is not None


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("999999999 days", "interval day to second", None),
        ("P999999999D", "interval day to second", None),
        ("999999999 23:59:59.999999", "interval day to second", None),
        ("106751991 days 04:00:54.775807", "interval day to second", 2**63 - 1),
        ("106751991 days 04:00:54.775808", "interval day to second", None),
        ("1.00000000000000000000000000000000001 us", "interval day to second", None),
        ("1:61:00", "interval day to second", None),
        ("3 04:61", "interval day to second", None),
        ("178956970-7", "interval year to month", 2**31 - 1),
        ("178956970-8", "interval year to month", None),
        ("1-12", "interval year to month", None),
        ("9" * 2000 + " us", "interval day to second", None),
        ("\u0661 day", "interval day to second", None),
    ],
)
def test_an_interval_that_is_none_takes_only_its_row_down(
    text: str, kind: str, value: int | None
) -> None:
    cast = from_text(pa.array([text, "0-0" if "month" in kind else "1 us"]), parse_type(kind))

    numbers = cast.values.view(pa.int64()) if "day" in kind else cast.values
    assert numbers.to_pylist()[0] == value
    assert cast.bad.tolist() == ([] if value is not None else [0])


def test_roles_beyond_their_numbers_take_only_their_row_down() -> None:
    cast = from_text(pa.array([f"{10**30}=ar/1", "1=ar/2"]), parse_type("aclitem"))

    assert cast.bad.tolist() == [0]


def test_a_column_without_rows_may_have_no_edges() -> None:
    """Arrow allows an empty buffer there, and other writers make use of it."""
    nothing = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])

    assert len(nothing) == 0
    assert not has_byte(nothing, b"x")
    assert has_byte(pa.array(["ax", "b"]), b"x")
    assert not has_byte(pa.array(["ax", "b"])[1:], b"x")
    assert not has_byte(pa.array(["", None]), b"x")
