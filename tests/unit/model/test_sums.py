"""Diffs that add up beyond int64 are stored, merged, read and checked like any others."""

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from strata.audit.run import Scope, validate_shard
from strata.audit.soft import Evaluated
from strata.cli.app import main
from strata.compact import compact_shard
from strata.decide.descent import load_manifest
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.format.manifest import (
    decode_manifest,
    encode_manifest,
    manifest_table,
    part_refs,
    stats_rows,
)
from strata.ingest.changes.lookup import rows_of_slice
from strata.ingest.changes.resolve import _as_changes
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.schema import Column, Relation
from strata.model.sums import LEAST, MOST, wrapped
from strata.model.types import parse_type
from strata.parts.part_facts import Observed
from strata.read.scan import scan
from strata.state import spine as spines
from strata.state.state import State
from strata.state.transitions import replace_manifests
from strata.store import keys
from strata.store.open import Stores
from strata.updates.slices import WHOLE
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import table

COLUMNS = (Column(1, "id", parse_type("string")), Column(2, "n", parse_type("int64")))
RELATION = Relation(0, COLUMNS, (1,), ())
HALF = 2**62

Run = list[tuple[str, int, int, int]]
ROWS: dict[str, list[Run]] = {  # batches; of each the time is its number
    "different rows": [[("a", 1, 0, HALF)], [("b", 1, 1, HALF)]],
    "the same row": [[("a", 1, 0, HALF)], [("a", 1, 1, HALF)]],
    "amounts": [[(f"row {i}", i, b, 10**18) for i in range(12)] for b in range(3)],
    "amounts of one row": [[("a", 1, b, 10**18)] for b in range(12)],
    "least twice": [[("a", 1, 0, LEAST)], [("a", 1, 1, LEAST)]],
    "both ends": [[("a", 1, 0, LEAST)], [("a", 1, 1, MOST)], [("a", 1, 2, MOST)]],
    "nothing is left": [[("a", 1, 0, MOST)], [("a", 1, 1, LEAST)], [("a", 1, 2, 1)]],
    "there and back": [[("a", 1, 0, MOST)] * 9, [("a", 1, 1, -MOST)] * 9, [("b", 1, 2, 1)]],
    "within one file": [[("a", 1, 0, MOST)] * 50, [("b", 1, 1, 1)]],
}


def filled(batches: list[Run], **changes: Any) -> Stores:
    stores = memory_stores()
    create(stores, RELATION, **changes)
    for number, rows in enumerate(batches):
        append(stores, "shard", number, number + 1, [table(RELATION, rows)])
    return stores


def load(stores: Stores) -> State:
    return Machine(stores).load("shard")


def counted(rows: list[Any]) -> Counter[Any]:
    """Return how often each row is there, by Python's integers."""
    found: Counter[Any] = Counter()
    for *row, _, diff in rows:
        found[tuple(row)] += diff
    return Counter({row: count for row, count in found.items() if count})


def plainly_read(stores: Stores) -> Counter[Any]:
    state = load(stores)
    batches = scan(stores, state, plan_read(stores, state))
    return counted([tuple(row.values()) for b in batches for row in b.to_pylist()])


def wrong(stores: Stores) -> list[str]:
    """Return what validation finds wrong with the formats of the shard."""

    def judge(*_: object) -> list[Evaluated]:
        return []

    report = validate_shard(stores, "shard", [], judge, serial, Scope("run 1"))
    return [f"{v.column}: {v.bound}" for v in report.mismatches]


def told(stores: Stores) -> list[tuple[int, int]]:
    """Return of each batch the sum that the state tells, and that of its manifest."""
    state = load(stores)
    return [
        (b.diffs_sum, wrapped(sum(load_manifest(stores, state, b)["diffs_sum"].to_pylist())))
        for b in state.batches
        if b.manifest
    ]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("history", [None, 1])
def test_any_diffs_can_be_compacted_and_read(name: str, history: int | None) -> None:
    stores = filled(ROWS[name])
    rows = [row for batch in ROWS[name] for row in batch]
    there = counted(rows)
    before = snapshot(stores, "shard")
    assert counted(before) == there == plainly_read(stores)
    assert len(before) == sum(-(-n // MOST) if n > 0 else -(n // -LEAST) for n in there.values())
    assert wrong(stores) == []

    compact = settings() if history is None else settings(history_ms=history)
    report = compact_shard(stores, "shard", compact, full=True)

    assert [r.outcome for r in report.requests] == ["applied"]
    assert snapshot(stores, "shard") == before
    assert plainly_read(stores) == there
    assert wrong(stores) == []
    assert all(state == manifest for state, manifest in told(stores))
    assert wrapped(sum(state for state, _ in told(stores))) == wrapped(sum(r[-1] for r in rows))
    again = compact_shard(stores, "shard", compact, full=True)
    assert snapshot(stores, "shard") == before
    assert again.to_json()["updates_out"] == again.to_json()["updates_in"]


def test_a_row_beyond_int64_is_read_whole_whatever_the_slices_and_row_groups() -> None:
    """Its updates fill row groups, so that these begin with it; slices end among its neighbours."""
    rows = [(f"row {i:03}", i, 0, MOST) for i in range(60)]
    stores = filled([rows, [("row 030", 30, 1, MOST)] * 400, rows], row_group_bytes=300)
    compact_shard(stores, "shard", settings(history_ms=1), full=True)
    before = snapshot(stores, "shard")

    assert counted(before)["row 030", 30] == 402 * MOST
    assert [row[:2] for row in before].count(("row 030", 30)) == 402
    assert len(load(stores).batches[0].runs) == 1
    assert wrong(stores) == []
    append(stores, "shard", 3, 4, [table(RELATION, [("row 030", 30, 3, LEAST)] * 402)])
    compact_shard(stores, "shard", settings(history_ms=1), full=True)
    assert counted(snapshot(stores, "shard"))["row 030", 30] == -402
    assert wrong(stores) == []


def test_row_groups_whose_sums_leave_int64_make_one_part() -> None:
    """Each fits, their sum does not: it is the column of the manifest that has to hold it."""
    seen = Observed(RELATION, 1 << 30, stats=False)
    for number in range(12):
        seen.add(table(RELATION, [(f"row {number:02}", 1, 0, 10**18)]), 1 << 30)
        seen.look()

    known = seen.finish()

    assert known.diffs_sum == wrapped(12 * 10**18) < 0
    stores = filled(
        [[(f"row {i:02}", i, 0, 10**18) for i in range(12)]], row_group_bytes=96, part_bytes=1 << 20
    )
    (ref,) = part_refs(load_manifest(stores, load(stores), load(stores).batches[0]))
    assert len(ref.splits) > 1
    assert ref.diffs_sum == known.diffs_sum
    assert wrong(stores) == []


def test_an_update_beyond_int64_is_no_row_that_a_key_can_replace() -> None:
    stores = filled([[("a", 1, 0, MOST)], [("a", 1, 1, 1)]])
    found = rows_of_slice(stores, load(stores), WHOLE)

    assert found.rows["d"].to_pylist() == [MOST, 1]
    with pytest.raises(InvalidRequest, match="does not hold this key exactly once"):
        _as_changes(found.rows, RELATION, found.rows.schema)


def with_sum(stores: Stores, diffs_sum: int) -> None:
    """Let the state tell another sum of its first batch."""
    machine = Machine(stores)

    def change(state: State, now_ms: int) -> tuple[State, bool]:
        slots = [
            replace(
                slot,
                batches=tuple(
                    replace(b, diffs_sum=diffs_sum) if b == state.batches[0] else b
                    for b in slot.batches
                ),
            )
            for slot in state.spine.slots
        ]
        return replace(
            state, seqno=state.seqno + 1, spine=replace(state.spine, slots=tuple(slots))
        ), True

    machine.apply("shard", change)


OLD = [[("a", 1, 0, HALF), ("b", 1, 0, HALF)], [("a", 2, 1, 1)]]


def test_a_state_from_before_tells_the_plain_sum_and_is_right() -> None:
    stores = filled(OLD)
    with_sum(stores, 2**63)
    old = load(stores).batches[0]
    assert old.diffs_sum == 2**63
    assert wrong(stores) == []

    same = replace(old, diffs_sum=LEAST, manifest=old.manifest)
    state, count = replace_manifests(load(stores), 0, replacements={str(old.manifest): same})
    report = compact_shard(stores, "shard", settings(), full=True)

    assert count == 1
    assert state.batches[0].diffs_sum == LEAST
    assert [r.outcome for r in report.requests] == ["applied"]
    assert told(stores) == [(LEAST + 1, LEAST + 1)]


def test_a_state_that_tells_another_sum_is_found_and_not_merged() -> None:
    stores = filled(OLD)
    with_sum(stores, LEAST + 5)

    assert len([text for text in wrong(stores) if text.startswith("diffs_sum")]) == 1
    with pytest.raises(Corrupt, match="a manifest contradicts the state"):
        compact_shard(stores, "shard", settings(), full=True)


@pytest.mark.parametrize("off", [1, -1, 2**32, LEAST])
def test_a_manifest_with_a_wrong_sum_is_found(off: int) -> None:
    """Also when the state agrees with it: the part does not."""
    stores = filled(OLD)
    state = load(stores)
    batch = state.batches[0]
    manifest = load_manifest(stores, state, batch)
    lie = wrapped(manifest["diffs_sum"][0].as_py() + off)
    (ref,) = part_refs(manifest)
    data = encode_manifest(manifest_table([replace(ref, diffs_sum=lie)], stats_rows(manifest)))
    assert decode_manifest(data)["diffs_sum"].to_pylist() == [lie]
    key = keys.manifest_key("shard", keys.content_hash(data), state.generation)
    stores.blob.set(key, data)

    def swap(state: State, now_ms: int) -> tuple[State, bool]:
        new = replace(batch, manifest=key, diffs_sum=lie, stats_union=None, stats_digest=None)
        slots = [
            replace(slot, batches=tuple(new if b == batch else b for b in slot.batches))
            for slot in state.spine.slots
        ]
        return replace(
            state, seqno=state.seqno + 1, spine=replace(state.spine, slots=tuple(slots))
        ), True

    Machine(stores).apply("shard", swap)

    assert [text.split(":")[0] for text in wrong(stores)] == ["diffs_sum"]


def test_merges_compare_sums_modulo_two_to_the_64() -> None:
    stores = filled([[("a", 1, 0, MOST)], [("b", 1, 1, MOST)]])
    one, two = load(stores).batches
    made = replace(
        one, lower=one.lower, upper=two.upper, updates=2, digest=(one.digest + two.digest) % 2**64
    )

    for right in (-2, 2 * MOST):
        spines.check_merge([one, two], replace(made, diffs_sum=right), one.since, 0)
    for lie in (0, -1, MOST):
        with pytest.raises(Corrupt, match="diffs_sum"):
            spines.check_merge([one, two], replace(made, diffs_sum=lie), one.since, 0)


SPEC = """
name: balances
columns: [{name: id, type: int64, nullable: false}, {name: who, type: string}]
key: [id]
source: {format: jsonl, envelope: diff, diff_column: amount}
"""


@pytest.mark.spark
@pytest.mark.parametrize("same", [True, False])
def test_amounts_may_be_ingested_compacted_read_and_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], same: bool
) -> None:
    def run(*words: str) -> Any:
        capsys.readouterr()
        with suppress(SystemExit):
            main([*words, "--config", str(tmp_path / "strata.toml"), "--json"])
        return json.loads(capsys.readouterr().out)

    (tmp_path / "strata.toml").write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
        f'landing = "{tmp_path}"\n'
    )
    (tmp_path / "balances.yaml").write_text(SPEC)
    run("create", "balances", "--spec", str(tmp_path / "balances.yaml"))
    for day in range(2):
        file = tmp_path / f"{day}.jsonl"
        file.write_text(
            json.dumps({"id": 1 if same else day, "who": "x", "amount": HALF}) + "\n" * day
        )
        run("ingest", "balances", "--from", str(file), "--lower", str(day), "--upper", str(day + 1))

    def read(*more: str) -> list[dict[str, Any]]:
        out = tmp_path / f"{len(more)}-{len(list(tmp_path.iterdir()))}.parquet"
        run("read", "balances", "--out", str(out), *more)
        return pq.read_table(out).to_pylist()

    def total(rows: list[dict[str, Any]]) -> int:
        return sum(row["d"] for row in rows)

    before = read("--consolidate")
    assert total(before) == 2**63
    assert [row["d"] for row in before] == ([MOST, 1] if same else [HALF, HALF])
    done = run("compact", "balances", "--full")
    assert done["applied"] == 1
    assert read("--consolidate") == before
    assert total(read()) == 2**63
    checked = run("validate", "balances")
    assert (checked["mismatches"], checked["errors"], checked["missing"]) == (0, 0, 0)
