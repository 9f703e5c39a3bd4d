"""Changes that contradict the shard: applied as far as possible, or left out."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from strata.format.columns import D, updates_schema
from strata.ingest.changes.resolve import Resolved, resolve
from strata.ingest.readers.change import DELETE, INSERT, OP, UPDATE
from tests.unit.ingest.changes.test_staging import COLUMNS, changes_of
from tests.unit.ingest.test_engine import World


@pytest.mark.parametrize(
    ("ops", "diffs"),
    [([UPDATE], [1]), ([DELETE], []), ([INSERT, INSERT], [1]), ([INSERT, UPDATE], [1])],
)
def test_a_change_that_contradicts_is_applied_unless_it_is_to_be_left_out(
    ops: list[int], diffs: list[int], tmp_path: Path
) -> None:
    """An update inserts, a delete does nothing, an insert replaces."""
    relation = World(tmp_path, columns=COLUMNS).state.relation
    changes = changes_of(relation, [1] * len(ops), 0)
    place = changes.schema.get_field_index(OP)
    changes = changes.set_column(place, changes.schema.field(OP), pa.array(np.array(ops, np.uint8)))
    old = updates_schema(relation).empty_table()

    def net(found: Resolved) -> list[int]:
        return [] if not (total := sum(found.updates[D].to_pylist())) else [total]

    applied, left = resolve(changes, old, relation), resolve(changes, old, relation, leave_out=True)

    contradicts = ops != [INSERT, UPDATE]
    assert net(applied) == diffs
    assert net(left) == ([] if ops == [UPDATE] else diffs)
    assert applied.wrong.num_rows == left.wrong.num_rows == int(contradicts)
