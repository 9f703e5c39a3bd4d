"""Names as numbers: which are there, which are there twice, also where there are none."""

import numpy as np
import pytest

from strata.parts.numbered import Numbered, name_numbers, numbers_in

NAMES = ["a", "b", "c", "a", "d", "a", "c"]


def test_names_that_come_more_than_once_come_back_once() -> None:
    found = Numbered()
    numbers = found.add(NAMES)

    assert numbers.tolist() == [hash(name) for name in NAMES]
    assert found.twice().tolist() == sorted({hash("a"), hash("c")})
    assert found.sorted().tolist() == sorted(numbers.tolist())


@pytest.mark.parametrize("known", [[], ["x"], ["b", "d", "x"], NAMES])
def test_numbers_are_found_among_others(known: list[str]) -> None:
    others = np.sort(name_numbers(known))

    found = numbers_in(name_numbers(NAMES), others)

    assert found.tolist() == [name in known for name in NAMES]
    assert numbers_in(name_numbers([]), others).tolist() == []
