"""The console says how many paths of a JSON column have no statistics, as the other places do."""

import json

import pytest

from strata.machine.machine import Machine
from strata.maintain import exchange
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.store.open import Stores
from strata.ui.capped import capped_paths
from strata.ui.pages import Asked
from tests.support.console import filled, pages_of
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "doc", parse_type("jsonb"))), (1,), ()
)
SAID = "of 400 paths of doc, 255 have statistics and 145 are left out"


def stored(*keys: int) -> Stores:
    """Return a shard with a part whose documents have so many keys, for each."""
    stores = memory_stores()
    create(stores, RELATION, stats=StatsSpec(budget_bytes=1 << 20, keep=()))
    for at, count in enumerate(keys):
        text = json.dumps({f"k{n}": n for n in range(count)})
        append(stores, "shard", at, at + 1, [table(RELATION, [(at, text, at, 1)])])
    return stores


def test_the_page_and_the_file_say_what_the_cap_left_out() -> None:
    pages = pages_of(stored(400, 3))
    for page in (pages.shard("", "shard", Asked()), pages.file("shard", ())):
        assert page.count(SAID) == 1
        assert "name those that filters need in <code>stats.keep</code> of shard" in page
    assert SAID not in pages.shard("", "shard", Asked(batch=1))


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    stores = stored(3)
    assert capped_paths(stores, Machine(stores).load("shard")) == []
    assert "are left out" not in pages_of(stores).shard("", "shard", Asked())


def test_a_shard_without_json_has_no_manifest_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = filled()
    monkeypatch.setattr(exchange, "StoredManifest", None)
    assert capped_paths(stores, Machine(stores).load("shard")) == []
