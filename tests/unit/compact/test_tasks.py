"""How a merge is cut and bounded, where whole shards hardly show it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.compact import pay_debt
from strata.compact.kept import _holding
from strata.compact.tasks import _budget, check_inputs, merge_tasks
from strata.errors import Corrupt
from strata.model.settings import CompactSettings
from strata.state.spine import debt
from tests.support.stored import settings
from tests.unit.compact.test_run import filled, load, whole


def test_inputs_behind_a_batch_without_a_manifest_are_checked_too() -> None:
    stores = filled(3)
    _, request, manifests = whole(stores, 2)
    first, *others = request.batches
    hollow = replace(request, batches=(replace(first, manifest=None), *others))

    check_inputs(hollow, manifests)

    last = replace(others[-1], updates=others[-1].updates + 1)
    with pytest.raises(Corrupt, match="contradicts the state"):
        check_inputs(replace(hollow, batches=(*hollow.batches[:-1], last)), manifests)


def test_a_merge_leaves_room_for_memory_that_allocators_keep() -> None:
    stores = filled(2)
    state, request, manifests = whole(stores, 1)
    memory = 2**36
    (task,) = merge_tasks(state, request, manifests, stores.settings, memory)

    assert memory / 2 < _budget(task) < 0.8 * memory


def test_a_merge_of_nothing_is_one_task_that_writes_an_empty_run() -> None:
    stores = filled(2)
    state, request, manifests = whole(stores, 1)

    (task,) = merge_tasks(state, request, dict.fromkeys(manifests, ()), stores.settings, 2**30)

    assert (task.runs, task.kept) == ((), ())


def test_a_debt_is_paid_down_to_half_of_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = filled(9)
    monkeypatch.setattr("strata.compact.debt.compact_shard", lambda *_, **how: how["enough"])

    for allowed in range(1, debt(load(stores).spine)):
        options = replace(settings(), compact=CompactSettings(debt_runs=allowed))
        assert pay_debt(stores, "shard", options) == allowed // 2


def test_a_page_of_a_manifest_that_has_no_high_key_may_list_any_part() -> None:
    pages = pa.table(
        {"key_low": [b"a", b"c", b"x"], "key_high": pa.array([b"b", None, b"z"], pa.binary())}
    )
    manifest: Any = SimpleNamespace(
        in_pages=True,
        root=lambda _: None,
        leaves=lambda _: [pages],
        pieces_of=lambda some: some["key_low"].to_pylist(),
    )
    kept: Any = [SimpleNamespace(ref=SimpleNamespace(key_low=key)) for key in (b"d", b"k")]

    assert list(_holding(manifest, kept)) == [b"c"]
