"""What the judge of flipped rules calls wider is wider; its page is read as it is written."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from strata.expr.elements import Elements
from strata.expr.registry import REGISTRY
from strata.expr.spec import NO, YES, Bools, Numbers, Spec, Texts
from tests.support.mutations import MUTATIONS
from tests.support.recorded import cases_of, ruled
from tools.explained import EXPLAINED, WIDER
from tools.mutate_compare import only_wider
from tools.mutate_page import TABLE, read_verdicts, table


def texts(low: str | None, high: str | None) -> Texts:
    return Texts(*(pa.array([t and t.encode()], pa.binary()) for t in (low, high)))


def listed(element: Spec, shortest: int, longest: int) -> Elements:
    return Elements(NO, lambda: element, np.array([shortest]), np.array([longest]))


ONE = Numbers(np.array([2, 0]), np.array([3, 0]), np.array([False, True]))
PAIRS = {
    "numbers": (Numbers(np.array([1, 5]), np.array([3, 9])), ONE),
    "constant numbers": (Numbers(np.array([0]), np.array([3])), ONE),
    "texts": (texts("a", None), texts("a", "b")),
    "open texts": (texts(None, None), texts("a", None)),
    "truths": (Bools(YES, YES), Bools(YES, NO)),
    "lists": (listed(Spec(ONE, YES), 0, 4), listed(Spec(ONE), 1, 4)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_holds_more_is_wider_and_not_the_other_way(name: str) -> None:
    wide, narrow = (Spec(values) for values in PAIRS[name])

    assert only_wider(wide, narrow)
    assert only_wider(narrow, narrow)
    assert not only_wider(narrow, wide)


@pytest.mark.parametrize("flag", ["null", "fail"])
def test_a_null_or_a_failure_more_is_wider(flag: str) -> None:
    more, less = Spec(ONE, **{flag: YES}), Spec(ONE)

    assert only_wider(more, less)
    assert not only_wider(less, more)


def test_a_nan_more_is_wider() -> None:
    some = Numbers(np.array([0.0]), np.array([1.0]), nan=YES)

    assert only_wider(Spec(some), Spec(replace(some, nan=NO)))
    assert not only_wider(Spec(replace(some, nan=NO)), Spec(some))


def test_the_page_is_read_as_it_is_written() -> None:
    text = TABLE.read_text("utf-8")

    assert table(read_verdicts(text)) == text


def test_a_mutant_that_is_said_to_be_wider_is() -> None:
    """On the parts of the certificates; `make mutate` looks at all that Spark was asked."""
    compared = 0
    for name, title in WIDER:
        assert (name, title) in EXPLAINED
        for case in cases_of(name):
            said = case.said()
            for change in MUTATIONS[title]:
                with ruled(name, change(REGISTRY[name].transfer)):
                    assert only_wider(case.said(), said), (name, title, case.text)
                    compared += 1
    assert compared > 10
