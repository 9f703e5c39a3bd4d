"""Huge rows are merged one by one as others are together."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates import huge, merge, row
from strata.updates.order import sort_names, sort_updates
from strata.updates.row import row_at
from tests.support.updates import plain_rows, relations, sort_key, split, table, updates

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


@given(texts=st.lists(st.none() | st.text("ab\xe9", max_size=5), min_size=1, max_size=6))
@pytest.mark.parametrize("beginning", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 3])
def test_texts_compare_alike_wherever_they_are_copied_and_cut(
    texts: list[str | None], beginning: int, step: int
) -> None:
    relation = TEXTS
    rows = table(relation, [(text, 0, 1) for text in texts]).slice(len(texts) // 3)
    names = sort_names(relation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row, "BEGINNING", beginning)
        patch.setattr(row, "STEP", step)

        found = sorted(row_at(rows, n, names) for n in range(rows.num_rows))

        cells = [found[n].compare(found[n + 1]) for n in range(len(found) - 1)]
    known = [text.encode() for text in texts[len(texts) // 3 :] if text is not None]
    keys = [*sorted(known), *[None] * (rows.num_rows - len(known))]
    assert cells == [0 if a == b else -1 for a, b in pairwise(keys)]


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
