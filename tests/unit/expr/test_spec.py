"""The domain: constants are points, unions enclose, texts of JSON are ranges."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.spec import (
    NO,
    YES,
    Anything,
    Json,
    Numbers,
    Spec,
    Texts,
    as_texts,
    everything,
    exactly,
    gate,
    hull,
    occupied,
    text_compare,
    text_greatest,
    text_least,
    uniform,
)


def _numbers(low: int, high: int, *, empty: bool = False) -> Numbers:
    return Numbers(np.array([low]), np.array([high]), np.array([empty]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [(5, "integer"), (-(2**63), "long"), (Decimal("1.50"), "decimal(10,2)"), (2.5, "double")],
)
def test_a_constant_is_a_point(value: object, kind: str) -> None:
    values = exactly(value, kind).values

    assert isinstance(values, Numbers)
    assert values.low.tolist() == values.high.tolist()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**31, "integer"),
        ("5", "integer"),
        (Decimal("1.555"), "decimal(10,2)"),
        (Decimal("NaN"), "decimal(10,2)"),
        (True, "string"),
    ],
)
def test_a_constant_that_does_not_suit_its_type_opens_it(value: object, kind: str) -> None:
    assert exactly(value, kind).values == everything(kind)


def test_null_has_no_value() -> None:
    spec = exactly(None, "integer")

    assert spec.null[0]
    assert not occupied(spec.values)[0]


def test_a_decimal_of_38_digits_is_exact() -> None:
    value = Decimal("9" * 38)
    values = exactly(value, "decimal(38,0)").values

    assert isinstance(values, Numbers)
    assert values.low[0] == 10**38 - 1


def test_a_union_takes_no_bound_from_an_empty_side() -> None:
    union = hull(_numbers(1, 5), _numbers(-100, 100, empty=True))

    assert isinstance(union, Numbers)
    assert (union.low[0], union.high[0], union.empty[0]) == (1, 5, False)


def test_a_union_of_unlike_kinds_is_anything() -> None:
    union = hull(_numbers(1, 5), Texts(None, None))

    assert isinstance(union, Anything)
    assert not union.empty[0]


def test_a_gate_removes_values_part_by_part() -> None:
    values = gate(Numbers(np.array([1, 2]), np.array([1, 2])), np.array([True, False]))

    assert occupied(values).tolist() == [True, False]


def test_an_open_bound_decides_nothing() -> None:
    bounds = pa.array([b"a", None], pa.binary())
    key = pa.scalar(b"b", pa.binary())

    assert text_compare("less", bounds, key).tolist() == [True, True]
    assert text_compare("less", bounds, key, unknown=False).tolist() == [True, False]
    assert text_compare("less", None, key).tolist() == [True]


def _json(**kinds: object) -> Json:
    nothing = Numbers(np.array([0.0]), np.array([0.0]), YES)
    known = {"true": NO, "false": NO, "numbers": nothing, "integral": NO, "lists": NO, "maps": NO}
    strings = Texts(None, None, YES)
    fields = known | {"strings": strings, "quoted": False, "child": lambda _: Spec(strings)} | kinds
    return Json(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "inside", "outside"),
    [
        (_json(true=YES), b"true", b"false"),
        (_json(true=YES, false=YES), b"false", b"a"),
        (_json(numbers=Numbers(np.array([-1.0]), np.array([5.0]))), b"-0.5", b"a"),
        (_json(lists=YES), b"[1]", b"{}"),
        (_json(maps=YES), b'{"a":1}', b"[1]"),
        (_json(strings=Texts(None, None), quoted=True), b'"x"', b"x"),
    ],
)
def test_json_prints_as_a_range_of_texts(values: Json, inside: bytes, outside: bytes) -> None:
    texts = as_texts(values)

    for text, expected in ((inside, True), (outside, False)):
        key = pa.scalar(text, pa.binary())
        found = text_compare("less_equal", texts.low, key) & text_compare(
            "less_equal", key, texts.high
        )
        assert bool(found[0]) == expected


def test_numbers_beyond_doubles_may_print_as_any_text() -> None:
    texts = as_texts(_json(numbers=Numbers(np.array([1.0]), np.array([np.inf]))))

    assert texts.high is None or texts.high.as_py() is None


def test_flags_that_agree_are_one_element() -> None:
    assert uniform(np.array([True, True])) is YES
    assert uniform(np.array([False, False])) is NO
    assert uniform(np.array([True, False])).tolist() == [True, False]


def test_the_lesser_of_a_bound_and_none_is_none_unless_said_otherwise() -> None:
    a, b = pa.array([b"a", None], pa.binary()), pa.array([b"b", b"b"], pa.binary())

    assert text_least(None, a) is text_least(a, None) is text_greatest(None, a) is None
    assert text_least(a, b).to_pylist() == [b"a", None]
    assert text_greatest(a, b).to_pylist() == [b"b", None]
    assert text_least(None, a, open_wins=False) is a
    assert text_greatest(a, None, open_wins=False) is a
    assert text_least(a, b, open_wins=False).to_pylist() == [b"a", b"b"]
