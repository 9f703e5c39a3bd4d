"""Huge rows are merged one by one as others are together."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates import huge, merge
from strata.updates.order import sort_names, sort_updates
from strata.updates.row import row_at
from tests.updates import plain_rows, relations, sort_key, split, table, updates

TEXTS = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


@given(st.data())
def test_rows_one_by_one_are_those_that_arranging_gives(data: st.DataObject) -> None:
    relation = data.draw(relations())
    drawn = data.draw(updates(relation))
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=3))
    tables = [
        sort_updates(pa.Table.from_batches([piece]), relation)
        for piece in split(drawn, cuts)
        if piece.num_rows
    ]
    if not tables:
        return
    wanted = merge.consolidate_sorted(tables, relation, None, None)

    found = huge.consolidate_rows(tables, relation, None, None)

    assert found is not None
    assert found.schema == wanted.schema
    keys = [[sort_key(row) for row in plain_rows(rows, relation)] for rows in (found, wanted)]
    assert keys[0] == keys[1]
    first, last = (row_at(tables[0], n, sort_names(relation)) for n in (0, tables[0].num_rows - 1))
    outside = huge.consolidate_rows(tables, relation, last, None) is None
    assert outside == any(row_at(t, 0, sort_names(relation)) < last for t in tables)
    outside = huge.consolidate_rows(tables, relation, None, first) is None
    assert outside == any(first < row_at(t, t.num_rows - 1, sort_names(relation)) for t in tables)


def test_huge_rows_out_of_order_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = TEXTS
    rows = table(relation, [("b", 0, 1), ("a", 0, 1)])
    monkeypatch.setattr(huge, "HUGE_ROW_BYTES", 0)

    with pytest.raises(Corrupt, match="not sorted"):
        list(merge.merge([[rows]], relation))


def test_huge_rows_cancel_and_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = TEXTS
    one = table(relation, [("a", 0, 1), ("b", 0, 2), ("c", 0, 1)])
    other = table(relation, [("a", 0, -1), ("b", 0, 3), ("d", 0, 1)])
    monkeypatch.setattr(huge, "HUGE_ROW_BYTES", 0)

    chunks = list(merge.merge([[one], [other]], relation))

    found = [row for chunk in chunks for row in plain_rows(chunk, relation)]
    assert found == plain_rows(table(relation, [("b", 0, 5), ("c", 0, 1), ("d", 0, 1)]), relation)
