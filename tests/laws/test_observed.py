"""What is said of a part's rows does not depend on how many row groups are looked at together."""

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from strata.audit.blame import find_lies
from strata.format.columns import D, T
from strata.format.digest import content_digest
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts.part_facts import (
    KEY_BYTES,
    MOST_KEY_BYTES,
    SMALL,
    TOGETHER_BYTES,
    Observed,
    PartFacts,
)
from strata.stats import collect
from strata.updates.order import encode_keys, high_key, sort_updates
from tests.support.updates import beginnings, relations, split, table, updates

SIZES = st.integers(0, TOGETHER_BYTES) | st.just(3 * TOGETHER_BYTES)  # of more than a few bytes


@given(st.data(), st.booleans(), st.booleans())
def test_what_is_observed_is_what_the_rows_say(
    data: st.DataObject, small: bool, wants_stats: bool
) -> None:
    relation = data.draw(relations())
    rows = sort_updates(data.draw(updates(relation).filter(lambda u: u.num_rows)), relation)
    cuts = data.draw(st.lists(st.integers(0, 50), max_size=5))
    groups = [pa.Table.from_batches([batch]) for batch in split(rows, cuts)]
    group_bytes = 1 if small else int(SMALL * TOGETHER_BYTES) + 1

    observed = Observed(relation, group_bytes, stats=wants_stats)
    for group in groups:
        observed.add(group, data.draw(SIZES))
        observed.look()
    known = observed.finish()

    twin(known, rows, groups, beginnings(keys_of(groups, relation)[::2]))
    assert known.digest == content_digest(rows, relation)
    assert known.key_high == high_key(keys_of(groups, relation)[-1], KEY_BYTES)
    assert (known.stats is not None) == wants_stats
    if known.stats is not None:
        assert known.stats.column("rows")[0].as_py() == rows.num_rows
        assert find_lies(known.stats, collect(rows, relation), relation) == []


def keys_of(groups: list[pa.Table], relation: Relation) -> list[bytes]:
    """Return the whole key of the first row and the last of each row group."""
    found = []
    for group in groups:
        keys = encode_keys(group, relation).to_pylist()
        found += [keys[0], keys[-1]]
    return found


@given(
    st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 2), st.integers(0, 100)), min_size=1)
)
def test_split_points_are_so_long_that_they_differ(rows: list[tuple[int, int, int]]) -> None:
    """Keys that begin alike are told apart, as far as is kept of them."""
    relation = Relation(0, (Column(1, "k", parse_type("string")),), (1,), (1,))
    texts = sorted("p" * shared + "abc"[letter] + "x" * more for shared, letter, more in rows)
    groups = [table(relation, [(text, 0, 1)]) for text in texts]
    keys = keys_of(groups, relation)[::2]

    observed = Observed(relation, 1, stats=False)
    for group in groups:
        observed.add(group, 1)
    known = observed.finish()
    splits = known.splits

    assert known.key_high == high_key(keys_of(groups, relation)[-1], KEY_BYTES)
    assert [split.key for split in splits] == beginnings(keys)
    for (a, b), (key, following) in zip(pairwise(splits), pairwise(keys), strict=True):
        assert KEY_BYTES <= len(b.key) <= MOST_KEY_BYTES or b.key == following
        assert a.key <= b.key
        assert a.key < b.key or key[:MOST_KEY_BYTES] == following[:MOST_KEY_BYTES]
        assert not following.startswith(a.key) or key[:MOST_KEY_BYTES] == following[:MOST_KEY_BYTES]


def twin(known: PartFacts, rows: pa.Table, groups: list[pa.Table], lows: list[bytes]) -> None:
    """Hold what is known against all rows at once."""
    starts = [sum(g.num_rows for g in groups[:i]) for i in range(len(groups))]
    assert known.rows == rows.num_rows
    assert (known.t_low, known.t_high) == tuple(pc.min_max(rows[T]).as_py().values())
    assert known.diffs_sum == sum(rows[D].to_pylist())
    assert known.retractions == any(d < 0 for d in rows[D].to_pylist())
    assert [(s.row, s.key) for s in known.splits] == list(zip(starts, lows, strict=True))
    assert known.key_low == lows[0]
