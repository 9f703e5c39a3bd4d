"""Hostile values of every type through every source are stored equal, or rejected with their place.

The oracle is the twin, which shares no code with the cast. More values: `make explore`, or
`python -m tests.wall --seed S --values N`.
"""

from pathlib import Path

import pytest

from tests.support.sizes import slice_of, tries
from tests.wall.cells import SOURCES, TYPES, run
from tests.wall.kept import Fault, faults, replay, unexcused

SEED = 21
VALUES, KEYS = tries(20, 1000), tries(60, 1000)  # few keys are one value in two spellings
# Retries are the same whatever the format, keys and encodings whatever the text: these share types.
SHARING = [
    [name for name in SOURCES if name.startswith("retry ")],
    [name for name in SOURCES if name.startswith("csv in ")],
    ["key csv", "key jsonl"],
]
CELLS = [
    (name, source)
    for number, name in enumerate(TYPES)
    for source in SOURCES
    if all(source not in some or source in slice_of(some, number, len(some)) for some in SHARING)
]
OPEN = "a fault that is open: see the file"


@pytest.mark.parametrize(("name", "source"), CELLS)
def test_a_hostile_value_is_stored_equal_or_rejected(
    name: str, source: str, tmp_path: Path
) -> None:
    values = KEYS if SOURCES[source].key == "v" else VALUES
    verdict = run(name, SOURCES[source], SEED, values, tmp_path)

    assert unexcused(verdict.failures)[:10] == []
    if SOURCES[source].holds is None:
        assert verdict.values > VALUES / 2


VALUES_FOUND = [
    pytest.param(
        fault,
        value,
        id=f"{fault.name}-{n}",
        marks=[pytest.mark.xfail(strict=True, reason=OPEN)] if fault.open else [],
    )
    for fault in faults()
    for n, value in enumerate(fault.values)
]


@pytest.mark.parametrize(("fault", "value"), VALUES_FOUND)
def test_what_was_found_once_is_mended(
    fault: Fault, value: dict[str, object], tmp_path: Path
) -> None:
    verdict = replay(value, tmp_path)

    assert verdict.failures == [], fault.fault
