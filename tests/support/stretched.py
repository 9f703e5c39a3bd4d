"""Shards of several runs, in pages and not, of few parts that are read in stretches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.manifest import PartRef
from strata.model import schema as model
from strata.model.types import parse_type
from strata.read import stretches
from strata.store.open import Stores
from strata.updates.slices import Slice, end_of
from tests.support.paged import cut
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION: Final = model.Relation(
    0,
    (
        model.Column(1, "c", parse_type("string")),
        model.Column(2, "n", parse_type("int64")),
        model.Column(3, "x", parse_type("int32")),
    ),
    (1,),
    (),
)
NUMBER: Final = Column(2, "n", "long", True)
TEXT: Final = Column(1, "c", "string", True)


@contextmanager
def few(parts: int) -> Iterator[None]:
    """Read in stretches of about this many parts, however few there are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stretches, "STRETCH_PARTS", parts)
        patched.setattr(stretches, "MANY", 0)
        patched.setattr(stretches, "OPENED_PARTS", 2)
        yield


def text(number: int) -> str:
    """Return a key; some are long, begin alike, or begin with another."""
    return f"{'x' * (number % 70)}{number:03}" if number % 3 else "y" * (number % 9)


@st.composite
def shards(draw: st.DrawFn) -> Stores:
    """Draw a shard of several runs in pages and without, of which some take back what others add.

    Late times are in some pages and not in others, so that a plan opens some of them.
    """
    stores, random = memory_stores(), Random(draw(st.integers(0, 2**32)))
    part_bytes = draw(st.sampled_from([300, 900]))
    create(stores, RELATION, part_bytes=part_bytes, row_group_bytes=part_bytes // 2)
    known: list[tuple[object, ...]] = []
    for number in range(draw(st.integers(1, 4))):
        rows = [
            (text(random.randrange(120)), random.choice((1, 2, None)), random.choice((1, 1, 2)))
            for _ in range(random.choice((1, 30, 90)))
        ]
        updates = [(*row, 5 * number + random.choice((0, 0, 0, 4)), 1) for row in rows]
        taken = random.sample(known, len(known) // 3)
        updates += [(*row[:3], 5 * number + random.choice((0, 4)), -1) for row in taken]
        known += updates
        half = len(updates) // random.choice((1, 2))
        runs = [table(RELATION, some) for some in (updates[:half], updates[half:]) if some]
        with cut(*draw(st.sampled_from([(2, 3), (3, 100), (10_000, 100)]))):
            append(stores, "shard", 5 * number, 5 * number + 5, runs)
    return stores


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def ends_before(ref: PartRef, within: Slice) -> bool:
    """Return whether all rows of a part sort before a slice."""
    end = end_of(ref.key_high)
    return end is not None and end <= within.low


def covers_once(pieces: Sequence[Slice], whole: Slice) -> bool:
    """Return whether slices follow one another from one end of a slice to the other."""
    return (
        pieces[0].low == whole.low
        and pieces[-1].high == whole.high
        and all(one.high == next_.low for one, next_ in pairwise(pieces))
        and all(one.high is None or one.low < one.high for one in pieces)
    )


def compared(column: Column, value: object) -> st.SearchStrategy[Filter]:
    """Draw a filter that leaves out parts and row groups."""
    return st.sampled_from(["equal_to", "less_than", "greater_than_or_equal"]).map(
        lambda name: Filter(Call(name, (column, Literal(value, column.type)), "boolean"), "", 0, 0)
    )


FILTERS = st.one_of(
    st.integers(0, 120).flatmap(lambda number: compared(TEXT, text(number))),
    st.sampled_from([1, 2]).flatmap(lambda number: compared(NUMBER, number)),
)


def accepts(filter: Filter, row: dict[str, Any]) -> bool:
    """Return whether a filter of `compared` is true on a row."""
    assert isinstance(filter.expr, Call)
    column, literal = filter.expr.args
    assert isinstance(column, Column)
    assert isinstance(literal, Literal)
    value: Any = row[column.name]
    if value is None:
        return False
    return bool(
        {
            "equal_to": value == literal.value,
            "less_than": value < literal.value,
            "greater_than_or_equal": value >= literal.value,
        }[filter.expr.function]
    )
