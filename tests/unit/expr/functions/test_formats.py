"""What moments texts are read as, where nothing is known of the texts."""

import pyarrow as pa

from strata.expr.functions.formats import moments_read
from strata.expr.nodes import Call, Column
from strata.expr.sparktype import INT32
from strata.expr.spec import Numbers, Texts


def test_texts_that_are_not_alike_may_be_any_date() -> None:
    """A date has more days than a timestamp has."""
    low, high = (pa.array([text], pa.binary()) for text in (b"-200000000-01-01", b"2024-01-01"))
    call = Call("cast", (Column(1, "s", "string"),), "date")

    found, _ = moments_read(call, Texts(low, high), None)

    assert isinstance(found, Numbers)
    assert (found.low[0], found.high[0]) == INT32
