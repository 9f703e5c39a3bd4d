"""Rules yield what was written down of them: one that proves less than it did is noticed."""

import pytest

from tools.ranges import LOOSER, Line, kept, looser

LINES = kept()
FUNCTIONS = sorted({line.function for line in LINES})


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_rule_yields_what_was_written_down(function: str) -> None:
    for line in LINES:
        if line.function == function:
            assert line.again() == line.result, (
                f"{line.text}: if meant, run `python -m tools.ranges`"
            )


@pytest.mark.parametrize("title", LOOSER)
def test_a_rule_that_gives_up_is_noticed(title: str) -> None:
    """The net itself: nearly every rule that is made looser is told by a line."""
    noticed = [name for name in FUNCTIONS if _noticed(name, title)]

    assert len(noticed) > {"range opened": 100, "null feared": 120, "failure feared": 100}[title]


def _noticed(name: str, title: str) -> bool:
    with looser(name, LOOSER[title]):
        return any(line.again() != line.result for line in _of(name))


def _of(name: str) -> list[Line]:
    return [line for line in LINES if line.function == name]
