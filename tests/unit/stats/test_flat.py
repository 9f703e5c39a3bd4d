"""The least and the greatest of a column, and how much of a long text is needed for them."""

import pyarrow as pa
import pytest

from strata.stats.flat import COLLECT_BYTES, min_max

LONG = "m" * (3 * COLLECT_BYTES)


@pytest.mark.parametrize("chunks", [1, 2])
def test_ends_are_whole_unless_they_are_only_cut_afterwards(chunks: int) -> None:
    texts = pa.chunked_array([[LONG + "a", None, LONG + "z"]] * chunks, pa.string())

    assert [end.as_py() for end in min_max(texts)] == [LONG + "a", LONG + "z"]


def test_of_a_text_that_will_be_cut_no_more_is_taken_than_tells_how() -> None:
    ends = min_max(pa.array([LONG + "a", LONG + "z"]), cut=True)

    assert [end.as_py() for end in ends] == [LONG[: 2 * COLLECT_BYTES]] * 2
