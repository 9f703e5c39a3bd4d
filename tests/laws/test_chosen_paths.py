"""Law: which paths of JSON have statistics is a choice, in one order, under the cap and the budget.

First those that the declaration keeps, then those that filters use, then those in most rows, and
last those that are the same in every part. Whatever is chosen is sound, and no row depends on it.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.format.layout import Description
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.parts.write import WrittenPart, write_parts
from strata.stats import encoded_size, json_scan
from strata.stats.worth import NO_WORTH, StatsWorth
from tests.support.sizes import tries
from tests.support.stored import memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "doc", parse_type("jsonb"))), (1,), ()
)
CAP = 6  # paths, the root included
KEYS = "abcdefghij"
PLENTY = 1 << 20
DOCUMENTS = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.integers(-9, 9)), min_size=1, max_size=6
)
SOME = st.frozensets(st.sampled_from(KEYS), max_size=4)


def written(
    documents: list[dict[str, int]], worth: StatsWorth, keep: frozenset[str], budget: int
) -> WrittenPart:
    rows = [(n, json.dumps(one), 0, 1) for n, one in enumerate(documents)]
    [part] = write_parts(
        memory_stores().blob,
        "shards/s/0",
        [table(RELATION, rows)],
        RELATION,
        layout="both",
        description=Description(0, 1, 0),
        part_bytes=PLENTY,
        row_group_bytes=PLENTY,
        stats_spec=StatsSpec(budget, tuple(f"doc.{key}" for key in sorted(keep))),
        worth=worth,
    )
    return part


def names(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(f"s.2$.{key}" for key in keys)


def known(part: WrittenPart) -> dict[str, Any]:
    assert part.stats is not None
    row = part.stats.to_pylist()[0]
    return {key: row[f"s.2$.{key}"] for key in KEYS if row.get(f"s.2$.{key}") is not None}


@pytest.fixture(autouse=True, scope="module")
def few_paths() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_scan, "MAX_PATHS", CAP)
        yield


@given(DOCUMENTS, SOME, SOME, SOME)
@trying(max_examples=tries(25, 2000), deadline=None)
def test_paths_are_chosen_in_one_order(
    documents: list[dict[str, int]],
    keep: frozenset[str],
    used: frozenset[str],
    same: frozenset[str],
) -> None:
    there = frozenset(key for one in documents for key in one)
    worth = StatsWorth(dict.fromkeys(names(used), 1.0), names(used), names(same))

    chosen = known(written(documents, worth, keep, PLENTY)).keys()

    assert chosen <= there
    assert len(chosen) == min(len(there), CAP - 1)
    ranks = {
        key: 0 if key in keep else 1 if key in used else 3 if key in same else 2 for key in there
    }
    assert not chosen or max(ranks[key] for key in chosen) <= min(
        (ranks[key] for key in there - chosen), default=9
    )


@given(DOCUMENTS, SOME, SOME, SOME, st.integers(0, 400))
@trying(max_examples=tries(25, 2000), deadline=None)
def test_a_choice_is_sound_within_the_budget_and_always_the_same(
    documents: list[dict[str, int]],
    keep: frozenset[str],
    used: frozenset[str],
    same: frozenset[str],
    budget: int,
) -> None:
    worth = StatsWorth(dict.fromkeys(names(used), 1.0), names(used), names(same))

    part = written(documents, worth, keep, budget)

    again = written(documents, worth, keep, budget)
    assert part.stats is not None
    assert part.stats.equals(again.stats)
    plain = written(documents, NO_WORTH, keep, PLENTY)
    assert part.ref.key == plain.ref.key, "no byte of a part depends on it"
    for key, fields in known(part).items():
        values = [one[key] for one in documents if key in one]
        assert fields["present"] == len(values)
        assert fields["num_low"] <= min(values) <= max(values) <= fields["num_high"]
    root = part.stats.to_pylist()[0].get("s.2$")
    there = frozenset(key for one in documents for key in one)
    if root is not None and root["complete"]:
        assert known(part).keys() == there
    bare = written(documents, NO_WORTH, keep, 0)
    assert bare.stats is not None
    assert encoded_size(part.stats) <= max(budget, encoded_size(bare.stats))


def test_where_the_budget_is_short_what_filters_use_outlives_the_rest() -> None:
    documents = [{"a": 1, "b": 2, "c": 3}]
    whole = written(documents, NO_WORTH, frozenset(), PLENTY)
    assert whole.stats is not None
    short = encoded_size(whole.stats) - 1
    worth = StatsWorth({"s.2$.a": 0.5}, names(frozenset("a")))
    assert "a" not in known(written(documents, NO_WORTH, frozenset(), short))
    assert "a" in known(written(documents, worth, frozenset(), short))
