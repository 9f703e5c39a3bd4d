"""A result is at fault where it lies outside of what statistics allow, on any side of it."""

import numpy as np
import pyarrow as pa
import pytest

from strata.audit.escape import SeenValues, _escapes
from strata.expr.nodes import Call, Expr
from strata.expr.spec import NO, YES, Bools, Numbers, Spec, Texts

TEXT: Expr = Call("concat", (), "string")
BOTH_ENDS = (pa.array([b"b"]), pa.array([b"d"]))


def seen(*values: object, kind: str = "string") -> SeenValues:
    found = pa.array(values)
    return SeenValues(Call("any", (), kind), found, pa.array([False] * len(values)))


@pytest.mark.parametrize(
    ("ends", "values", "escapes"),
    [
        (BOTH_ENDS, ["b", "c", "d"], False),
        (BOTH_ENDS, ["c", "a"], True),
        (BOTH_ENDS, ["c", "da"], True),
        ((pa.scalar(b"b"), pa.scalar(b"d")), ["b", "d"], False),
        ((pa.scalar(b"b"), pa.scalar(b"d")), ["a"], True),
        ((pa.scalar(b"b"), pa.scalar(b"d")), ["e"], True),
        ((pa.array([None], pa.binary()), pa.array([b"d"])), ["a"], False),
        ((pa.array([None], pa.binary()), pa.array([b"d"])), ["e"], True),
        ((pa.array([b"b"]), None), ["e"], False),
        ((pa.array([b"b"]), None), ["a"], True),
        ((None, None), ["", "z"], False),
    ],
)
def test_a_text_escapes_below_and_above_its_ends(
    ends: tuple[object, object], values: list[str], escapes: bool
) -> None:
    assert _escapes(Spec(Texts(*ends)), seen(*values)) is escapes


@pytest.mark.parametrize(
    ("spec", "values", "escapes"),
    [
        (Spec(Bools(YES, NO)), [True, True], False),
        (Spec(Bools(YES, NO)), [True, False], True),
        (Spec(Bools(NO, YES)), [True], True),
        (Spec(Bools(NO, NO)), [True], True),
        (Spec(Bools(YES, NO)), [None], True),
        (Spec(Bools(YES, NO), YES), [True, None], False),
        (Spec(Bools(NO, NO), YES), [None], False),
    ],
)
def test_a_truth_value_or_a_null_that_may_not_be_escapes(
    spec: Spec, values: list[bool | None], escapes: bool
) -> None:
    assert _escapes(spec, seen(*values, kind="boolean")) is escapes


def test_a_number_escapes_below_and_above_its_ends_and_as_nan() -> None:
    known = Spec(Numbers(np.array([1.0]), np.array([2.0])))

    found = [_escapes(known, seen(n, kind="double")) for n in (1.0, 2.0, 0.5, 2.5, float("nan"))]

    assert found == [False, False, True, True, True]
