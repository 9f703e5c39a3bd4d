"""`make demo-lie`: put one wrong statistic into a copy of the demo's shards, and see it found.

The place of the lie is drawn at random (`--seed` repeats a draw) from all bounds that would make
a registered filter skip a part in which it accepts rows. Then soft evaluation runs through
Airflow as always, over all shards and filters; it is not told anything. The lie is found when
the DAG run fails and an alert names its shard, part, column and filter.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

from demo import places
from demo.airflow import start
from demo.progress import Progress
from demo.stages import Stage, StageError, run_stage
from strata.expr.filter import Filter
from strata.filters import load_filters
from strata.format.manifest import PartRef, encode_manifest, part_refs, stats_columns
from strata.machine import Machine
from strata.prune import decide, needed_columns
from strata.read import load_manifest
from strata.settings import load_settings
from strata.spark.catalyst import analyse
from strata.spark.evaluate import spark_evaluator
from strata.spark.session import spark_session
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.stats.wire import parse_name
from strata.store import keys
from strata.store.open import Stores, open_stores

COPY: Final = places.HIDDEN / "demo-lie"
PAIRS: Final = (("low", "high"), ("num_low", "num_high"), ("str_low", "str_high"))
TRIES: Final = 40  # candidates whose rows are looked at before giving up

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Lie:
    """One bound moved past the data."""

    shard: str
    filter: str
    batch: Batch
    row: int  # of the manifest
    ref: PartRef
    column: str  # the statistics column
    field: str  # the bound that is moved
    truth: object
    lie: object

    def __str__(self) -> str:
        """Return the lie for people."""
        return (
            f"shard {self.shard}, part {self.ref.key},\n  {self.column}.{self.field}:"
            f" {self.truth} becomes {self.lie}, so that the filter {self.filter!r} would skip it"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Inject a lie, run soft evaluation, and report whether it was found."""
    parser = argparse.ArgumentParser(prog="make demo-lie", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat the draw of an earlier run")
    seed = parser.parse_args(argv).seed
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    if not (places.WORKSPACE / "blob").is_dir():
        console.print("there are no demo shards yet: run `make demo` first", style="bold red")
        return 2
    config = _copy()
    console.print(f"drawing a lie (seed {seed}) ...")
    lie = inject(config, random.Random(seed))
    console.print(f"[bold]injected[/] into a copy of the demo: {lie}\n")
    result = _validate(config)
    return 0 if _report(config, lie, result) else 1


def _copy() -> Path:
    """Copy the demo's stores and return the settings file of the copy."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    shutil.copytree(places.WORKSPACE / "blob", COPY / "blob")
    for file in places.WORKSPACE.glob("consensus.db*"):
        shutil.copy2(file, COPY / file.name)
    return places.write_config(COPY)


def inject(config: Path, draw: random.Random) -> Lie:
    """Draw a lie that matters, and commit it the way a faulty collector would have."""
    settings = load_settings(str(config), {})
    stores = open_stores(settings.store)
    machine = Machine(stores)
    with spark_session("demo-lie", settings.spark) as spark:
        filters = load_filters(settings.filters_dir)
        draw.shuffle(filters)
        for registered in filters:
            state = machine.load(registered.shard)
            now = registered.now[0] * 1000 if registered.now else None
            filter = analyse(spark, state.relation, registered.where, now=now)
            found = list(_candidates(stores, state, filter, registered.name))
            draw.shuffle(found)
            for lie in found[:TRIES]:
                if _accepts(spark, stores, state, filter, lie.ref):
                    _commit(stores, machine, state, lie)
                    return lie
    raise SystemExit("no statistic of the demo could be made to matter; was it shortened?")


def _candidates(stores: Stores, state: State, filter: Filter, name: str) -> Iterator[Lie]:
    """Yield the bounds that, moved to the other end of their range, make the filter skip."""
    for batch in state.batches:
        if batch.manifest is None:
            continue
        manifest = load_manifest(stores, state, batch)
        stats = stats_columns(manifest)
        kept = decide(filter, stats, state.relation).keep
        wanted = needed_columns(filter)
        for row, ref in enumerate(part_refs(manifest)):
            if not kept[row]:
                continue
            for column in stats.column_names:
                if parse_name(column) is None or not _wanted(column, wanted):
                    continue
                for field, truth, lie in _moves(stats[column][row].as_py()):
                    wrong = _with(stats.slice(row, 1), column, 0, field, lie)
                    if not decide(filter, wrong, state.relation).keep[0]:
                        yield Lie(state.name, name, batch, row, ref, column, field, truth, lie)


def _wanted(column: str, wanted: set[str]) -> bool:
    return column in wanted or any(column.startswith(prefix) for prefix in wanted)


def _moves(statistics: Mapping[str, Any] | None) -> Iterator[tuple[str, object, object]]:
    for low, high in PAIRS:
        ends = (statistics or {}).get(low), (statistics or {}).get(high)
        if None not in ends and ends[0] != ends[1]:
            yield high, ends[1], ends[0]
            yield low, ends[0], ends[1]


def _with(table: pa.Table, column: str, row: int, field: str, value: object) -> pa.Table:
    """Return the table with one field of one struct replaced."""
    rows = table[column].to_pylist()
    rows[row] = {**rows[row], field: value}
    index = table.column_names.index(column)
    kind = table.schema.field(index)
    return table.set_column(index, kind, pa.array(rows, kind.type))


def _accepts(
    spark: SparkSession, stores: Stores, state: State, filter: Filter, ref: PartRef
) -> bool:
    evaluate = spark_evaluator(spark, stores.settings, state.relations)
    return any(result.accepted for result in evaluate(filter, [ref]))


def _commit(stores: Stores, machine: Machine, state: State, lie: Lie) -> None:
    manifest = _with(
        load_manifest(stores, state, lie.batch), lie.column, lie.row, lie.field, lie.lie
    )
    data = encode_manifest(manifest)
    key = keys.manifest_key(state.name, keys.content_hash(data))
    stores.blob.set(key, data)
    old = lie.batch.manifest
    assert old is not None, "a batch with parts has a manifest"
    new = replace(lie.batch, manifest=key)
    machine.apply(state.name, lambda s, now_ms: replace_manifests(s, now_ms, {old: new}))


def _validate(config: Path) -> dict[str, Any] | None:
    """Run soft evaluation through Airflow; return its result if the run failed, else None."""
    with Progress() as progress:
        progress.stage("Airflow")
        instance = start(schedules=False, tell=progress.detail, config=config)
        try:
            run_stage(
                instance, Stage("soft evaluation", "soft_evaluation", "validate", {}), progress
            )
        except StageError as error:
            console.print(f"\n[bold]the DAG run failed, as it should:[/]\n{error}\n", markup=True)
        else:
            return None
        finally:
            progress.stage("stopping Airflow")
            instance.stop()
    files = (places.RESULTS / "soft_evaluation").rglob("*.json")
    newest = max(files, key=lambda file: file.stat().st_mtime)
    result: dict[str, Any] = json.loads(newest.read_text("utf-8"))
    return result


def _report(config: Path, lie: Lie, result: Mapping[str, Any] | None) -> bool:
    """Print what was found and return whether it is the lie."""
    if result is None:
        console.print("[bold red]the lie was not found: the run succeeded[/]")
        return False
    alerts = result.get("alerts", [])
    for alert in alerts:
        console.print("[bold red]ALERT[/]")
        for name, value in alert.items():
            if value != "":
                console.print(f"  {name:13} {value}", markup=False)
    stores = open_stores(load_settings(str(config), {}).store)
    rollout = Machine(stores).load(lie.shard).rollout
    console.print(f"\nmode of {lie.shard} is now {rollout.mode!r}: {rollout.reason}")
    console.print(f"report: {result.get('report')}")
    column = _people_name(stores, lie)
    named = [
        a for a in alerts
        if (a["shard"], a["part"], a["check"]) == (lie.shard, lie.ref.key, lie.filter)
        and a["column"] == column and lie.field in a["bound"]
    ]  # fmt: skip
    found = bool(named) and rollout.mode == "off"
    console.print(
        "[bold green]the lie was found, named and the shard set back[/]"
        if found
        else "[bold red]the lie was not named[/]"
    )
    return found


def _people_name(stores: Stores, lie: Lie) -> str:
    parsed = parse_name(lie.column)
    assert parsed is not None, "drawn from statistics columns only"
    relation = Machine(stores).load(lie.shard).relation
    return relation.by_id[parsed[0]].name + lie.column.removeprefix(f"s.{parsed[0]}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
