"""Specs that pin rules beyond what rows can show; docs/reference/mutations.md counts on them."""

import pytest

from tests.spec.sharp import SHARP


@pytest.mark.parametrize("function", SHARP)
def test_a_rule_counts_with_what_no_test_data_holds(function: str) -> None:
    for spec in SHARP[function]:
        spec.check()
