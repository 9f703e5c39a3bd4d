"""A receipt is checked again from what is stored: forged, lost and wrong ones are told apart."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.audit.receipts import (
    Receipt,
    Replay,
    issue,
    keep_receipt,
    kept_receipts,
    read_receipt,
    replay,
    write_receipt,
)
from strata.audit.soft import Evaluated
from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.spec import ColumnSpec
from strata.model.types import parse_type
from strata.read.scan import read_updates
from strata.state.schema import AddColumn
from strata.state.state import State
from strata.store.keys import BlobKind, parse_key
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import table

RELATION = Relation(0, (Declared(1, "n", parse_type("int64")),), (1,), ())


def greater(than: int) -> Filter:
    expr: Expr = Call("greater_than", (Column(1, "n", "long"), Literal(than, "long")), "boolean")
    return Filter(expr, f"n > {than}", 0, 0)


@pytest.fixture
def stores() -> Stores:
    """Three batches of one part: n is 0 to 9, 10 to 19, 20 to 29."""
    stores = memory_stores()
    create(stores, RELATION)
    for day in range(3):
        rows = table(RELATION, [(n, day, 1) for n in range(10 * day, 10 * day + 10)])
        append(stores, "shard", day, day + 1, [rows], "both")
    return stores


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")


def issued(stores: Stores, than: int = 14, mode: str = "on") -> Receipt:
    state = load(stores)
    plan = plan_read(stores, state, filter=greater(than), mode=mode)
    return json.loads(json.dumps(issue(stores, state, plan, greater(than))))


def again(stores: Stores, receipt: Receipt, *, look: bool = False) -> Replay:
    state = load(stores)

    def evaluator(filter: Filter, refs: Sequence[PartRef]) -> list[Evaluated]:
        than = filter.expr.args[1].value  # type: ignore[union-attr]
        return [_evaluated(stores, state, ref, than) for ref in refs]

    return replay(stores, state, receipt, evaluator if look else None)


def _evaluated(stores: Stores, state: State, ref: PartRef, than: int) -> Evaluated:
    if stores.blob.get(ref.key) is None:
        return Evaluated(ref.key, 0, 0, failed=f"a part is missing part={ref.key}")
    values = read_updates(stores, state, ref)["1"].to_pylist()
    return Evaluated(ref.key, len(values), sum(n > than for n in values))


@pytest.mark.parametrize("mode", ["on", "off", "soft"])
def test_a_decision_is_made_again(stores: Stores, mode: str) -> None:
    found = again(stores, issued(stores, mode=mode), look=True)

    assert found.reproduced
    assert (found.parts, found.skipped) == (3, 1 if mode == "on" else 0)
    assert (found.looked_into, found.matching) == (found.skipped, ())


def test_it_is_made_again_from_manifests_that_were_replaced_since(stores: Stores) -> None:
    receipt = issued(stores)
    compact_shard(stores, "shard", settings(), full=True)

    assert load(stores).batches != ()
    assert again(stores, receipt, look=True).reproduced


def test_a_receipt_that_was_altered_is_found(stores: Stores) -> None:
    receipt = issued(stores)
    receipt["batches"][0]["fetched"] = receipt["batches"][0].pop("skipped")
    receipt["batches"][0]["skipped"] = []

    found = again(stores, receipt)
    assert found.altered
    assert not found.reproduced
    assert "fetched then, skipped now" in found.differences[0]


def test_a_forged_seal_does_not_help(stores: Stores) -> None:
    """Whoever seals a lie anew is contradicted by the manifests, or by the rows."""
    from strata.audit.receipts import _seal

    receipt: dict[str, Any] = {k: v for k, v in issued(stores).items() if k != "digest"}
    kept = receipt["batches"][1]
    kept["skipped"], kept["fetched"] = kept["fetched"], []
    found = again(stores, {**receipt, "digest": _seal(receipt)}, look=True)

    assert not found.altered
    assert "skipped then, fetched now" in found.differences[0]
    assert "5 of 10 rows match" in found.matching[0]


def test_a_part_that_is_gone_is_no_proof(stores: Stores) -> None:
    receipt = issued(stores)
    (key,) = receipt["batches"][0]["skipped"]
    stores.blob.delete(key)

    found = again(stores, receipt, look=True)
    assert (found.looked_into, found.matching) == (0, ())
    assert not found.reproduced
    assert key in found.unchecked[0]


def test_a_manifest_that_is_gone_is_told(stores: Stores) -> None:
    receipt = issued(stores)
    stores.blob.delete(receipt["batches"][2]["manifest"])

    found = again(stores, receipt)
    assert "manifest is missing" in found.unchecked[0]
    assert not found.differences


def test_quarantine_is_what_it_was_then(stores: Stores) -> None:
    receipt = issued(stores)
    state = load(stores)
    now = replace(state, rollout=replace(state.rollout, quarantine=("1",)))

    assert replay(stores, now, receipt).reproduced


def test_files_hold_receipts_or_are_refused(stores: Stores, tmp_path: Path) -> None:
    path, receipt = tmp_path / "new" / "receipt.json", issued(stores)
    write_receipt(path, receipt)
    assert read_receipt(path) == receipt

    for text in ("", "[]", "{}", '{"receipt": 99}'):
        path.write_text(text)
        with pytest.raises(InvalidRequest):
            read_receipt(path)
    with pytest.raises(InvalidRequest, match="another shard"):
        replay(stores, load(stores), {**receipt, "shard": "other"})
    with pytest.raises(InvalidRequest, match="cannot be read"):
        replay(stores, load(stores), {**receipt, "batches": [{}]})


def test_what_a_validation_would_skip_is_kept_once_and_checked_again(stores: Stores) -> None:
    state = load(stores)
    key = keep_receipt(stores, state, greater(14))
    assert key is not None
    assert keep_receipt(stores, state, greater(14)) == key  # the same decision, the same bytes
    assert keep_receipt(stores, state, greater(-1)) is None  # skips nothing
    other = keep_receipt(stores, state, greater(25))

    kept = dict(kept_receipts(stores, load(stores)))
    assert set(kept) == {key, other}
    assert again(stores, kept[key], look=True).reproduced
    assert again(stores, kept[key]).skipped == 1
    assert (
        parse_key(key).kind is BlobKind.VERDICT
    )  # garbage collection keeps it as long as verdicts


def test_receipts_of_a_former_shard_of_other_columns_are_not_checked_again(stores: Stores) -> None:
    first, machine = load(stores), Machine(stores)
    before = keep_receipt(stores, first, greater(14))
    machine.evolve("shard", AddColumn("m", parse_type("int64")))
    after = keep_receipt(stores, load(stores), greater(14))
    assert {key for key, _ in kept_receipts(stores, load(stores))} == {before, after}

    machine.drop("shard", by="ann", reason="other columns", force=True)
    columns = (ColumnSpec("n", parse_type("string")),)
    machine.create(replace(first.spec, columns=columns), revive=True)

    assert not list(kept_receipts(stores, load(stores)))


def test_a_kept_receipt_that_was_damaged_is_told(stores: Stores) -> None:
    key = keep_receipt(stores, load(stores), greater(14))
    assert key is not None
    stores.blob.delete(key)
    stores.blob.set(key, b"something else")

    with pytest.raises(Corrupt, match="what its name says"):
        list(kept_receipts(stores, load(stores)))
