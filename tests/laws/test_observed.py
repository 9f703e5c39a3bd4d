"""What is said of a part's rows does not depend on how many row groups are looked at together."""

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from strata.audit.blame import find_lies
from strata.format.columns import D, T
from strata.format.digest import content_digest
from strata.model.schema import Relation
from strata.observed import KEY_BYTES, SMALL, TOGETHER_BYTES, Known, Observed
from strata.stats import collect
from strata.updates.order import encode_keys, high_key, sort_updates
from tests.updates import relations, split, updates

SIZES = st.integers(0, TOGETHER_BYTES)


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

    twin(known, rows, groups, [key[:KEY_BYTES] for key in keys_of(groups, relation)[::2]])
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


def twin(known: Known, rows: pa.Table, groups: list[pa.Table], lows: list[bytes]) -> None:
    """Hold what is known against all rows at once."""
    starts = [sum(g.num_rows for g in groups[:i]) for i in range(len(groups))]
    assert known.rows == rows.num_rows
    assert (known.t_low, known.t_high) == tuple(pc.min_max(rows[T]).as_py().values())
    assert known.diffs_sum == sum(rows[D].to_pylist())
    assert known.retractions == any(d < 0 for d in rows[D].to_pylist())
    assert [(s.row, s.key) for s in known.splits] == list(zip(starts, lows, strict=True))
    assert known.key_low == lows[0]
