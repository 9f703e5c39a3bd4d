"""The lie of `make demo-lie` is told where soft evaluation looks."""

from demo.lie import breakable


def test_no_lie_is_told_in_a_journal() -> None:
    assert breakable(["flights", "strata_operations", "strata_verdicts"]) == ["flights"]
