"""The bounds of differences at the ends of 64 bits, and what claims are true."""

import pyarrow as pa
import pytest

from strata.format.columns import updates_schema
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats.pairs import (
    INTEGERS,
    MOST_BYTES,
    UNKNOWN,
    fits_later,
    pair_facts,
    wanted_pairs,
)
from strata.stats.shapes import TextShape, encloses
from strata.stats.wire import PAIR

RELATION = Relation(
    0, tuple(Column(n, name, parse_type("int64")) for n, name in enumerate("ab", 1)), (1,), (1,)
)
(SOUGHT,) = wanted_pairs(RELATION, StatsSpec(pairs=(("a", "b"),)))
LEAST, FAR = -(2**63), 2.0**63


def of_rows(*values: tuple[int, int]) -> pa.Table:
    columns = [pa.array(side, pa.int64()) for side in zip(*values, strict=True)]
    ends = [pa.array([0] * len(values), pa.int64())] * 2
    return pa.Table.from_arrays([*columns, *ends], schema=updates_schema(RELATION))


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        (0, LEAST, FAR, float("inf")),
        (-1, LEAST, FAR, FAR),
        (-2, 2**63 - 1, float("-inf"), -FAR),
        (-1, 2**63 - 1, -FAR, -FAR),
    ],
)
def test_a_difference_beyond_64_bits_has_its_sign(a: int, b: int, low: float, high: float) -> None:
    facts = pair_facts(of_rows((a, b)), SOUGHT)

    assert facts is not None
    assert facts.low <= a - b <= facts.high
    assert (facts.low > 0, facts.high < 0) == (a - b > 0, a - b < 0)
    if abs(a - b) >= 2**63 and a - b != LEAST:
        assert (facts.low, facts.high) == (low, high)


def test_a_pair_waits_for_room_where_it_lacks() -> None:
    claims = [None, {"form": INTEGERS}, {"form": UNKNOWN}, {"form": "decimal2"}]
    bytes_used = pa.array([10] * 4, pa.int64())
    table = pa.table({"stats_bytes": bytes_used, SOUGHT.name: pa.array(claims, PAIR)})

    enough = 10 + MOST_BYTES
    assert fits_later(SOUGHT, table, enough).tolist() == [True, False, False, True]
    assert not fits_later(SOUGHT, table, enough - 1).any()
    assert fits_later(SOUGHT, table.select(["stats_bytes"]), enough).all()


@pytest.mark.parametrize(
    ("fields", "true"),
    [
        ({"low": 5, "high": 9, "whole": True}, True),
        ({"low": 6, "high": 9, "whole": True}, False),
        ({"low": 5, "high": 8, "whole": True}, False),
        ({"low": 5.0, "high": 9.0, "whole": False}, False),
        ({"low": None, "high": None, "whole": None}, True),
    ],
)
def test_a_claim_of_a_shape_that_is_too_narrow_is_no_true_one(
    fields: dict[str, object], true: bool
) -> None:
    shape = TextShape((5, 9), None, frozenset())
    assert encloses({**fields, "patterns": None}, shape) == true
