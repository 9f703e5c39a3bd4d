"""The cases of the certificates hold: Spark's answers lie in the rules' ranges, not in mutants'.

A case is one row on which Spark was asked (`tests/support/recorded.py`); no Spark is needed here.
"""

import pytest

from strata.expr.registry import REGISTRY
from tests.support.recorded import FOLDER, Recorded, cases_of, ruled

CASES = {name: cases_of(name) for name in sorted(REGISTRY)}
MUTATIONS_PAGE = FOLDER.parent / "mutations.md"


def wrong(cases: list[Recorded]) -> list[str]:
    """Return the cases whose answer the rules of this moment rule out."""
    return [f"{case.text} on {case.row}: {case.answer}" for case in cases if case.escapes()]


@pytest.mark.parametrize("name", CASES)
def test_the_rule_holds_what_spark_answered(name: str) -> None:
    assert wrong(CASES[name]) == []


@pytest.mark.parametrize("name", CASES)
def test_each_mutant_misses_what_spark_answered(name: str) -> None:
    for case in CASES[name]:
        for kill in case.kills:
            with ruled(name, kill.of(REGISTRY[name].transfer)):
                assert case.escapes(), f"{kill} of {name} holds {case.answer} to {case.text}"


def test_every_mutant_that_rows_tell_has_its_case() -> None:
    lines = [
        line.strip("| ").split(" | ") for line in MUTATIONS_PAGE.read_text("utf-8").splitlines()
    ]
    [titles] = [cells[1:] for cells in lines if cells[0] == "Function" and len(cells) > 4]
    told = {
        (cells[0].strip("`"), title)
        for cells in lines
        if len(cells) == len(titles) + 1
        for title, sign in zip(titles, cells[1:], strict=True)
        if sign == "c"
    }

    assert len(told) > 1000
    recorded = {(n, kill.mutation) for n, some in CASES.items() for c in some for kill in c.kills}
    assert told == recorded


# Each is the rule of another function, which a person might take for its.
TAKEN = {
    "remainder": "floor",
    "month": "year",
    "date_sub": "date_add",
    "log10": "sqrt",
    "upper": "lower",
    "subtract": "add",
    "unix_millis": "unix_micros",
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_wrong_rule_is_told_by_the_cases(name: str) -> None:
    """The net itself."""
    with ruled(name, REGISTRY[TAKEN[name]].transfer):
        assert wrong(CASES[name])
