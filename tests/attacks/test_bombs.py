"""Small files that unpack to gigabytes never take more memory than an ingest task may."""

from pathlib import Path

import pytest

from benchmarks.bombs import BOMBS, CAP, Bomb, Size, taken_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
SIZE = Size(1 << 30, 10_000_000)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_taken_in_or_refused_within_the_memory_of_a_task(
    bomb: Bomb, tmp_path: Path
) -> None:
    stored, wrong, found = taken_in(bomb, SIZE, tmp_path)

    assert not wrong
    assert stored < 16 << 20, "it is no bomb"
    assert found.peak <= CAP
