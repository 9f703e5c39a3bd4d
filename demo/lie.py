"""`make demo-lie`: break a copy of the demo's shards in one of fifty ways, and see it found.

Which fault, and where, is drawn at random from `demo.faults` (`--seed` repeats a draw, `--fault`
chooses one): a statistic that lies, a manifest or a state that contradicts its parts, damaged
bytes. Then soft evaluation runs through Airflow as always, over all shards and filters, without
a hint. The fault is found when the DAG run fails and an alert names it and its place.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from demo import places
from demo.airflow import start
from demo.faults import CATALOGUE, Injected, Site
from demo.progress import Progress
from demo.stages import Stage, StageError, run_stage
from strata.config.settings import load_settings
from strata.machine.machine import Machine
from strata.model.journals import is_journal
from strata.store.open import open_stores

COPY: Final = places.HIDDEN / "demo-lie"

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Lie:
    """One fault in one shard."""

    shard: str
    fault: str  # its name in the catalogue
    injected: Injected

    def __str__(self) -> str:
        """Return the fault for people."""
        return f"{self.fault}: shard {self.shard}, {self.injected.what}\n  {self.injected.place}"


def main(argv: Sequence[str] | None = None) -> int:
    """Inject a fault, run soft evaluation, and report whether it was found."""
    parser = argparse.ArgumentParser(prog="make demo-lie", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat the draw of an earlier run")
    parser.add_argument("--fault", choices=sorted(CATALOGUE), help="this one instead of any")
    asked = parser.parse_args(argv)
    seed = asked.seed
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    if not (places.WORKSPACE / "blob").is_dir():
        console.print("there are no demo shards yet: run `make demo` first", style="bold red")
        return 2
    config = _copy()
    console.print(f"drawing one of {len(CATALOGUE)} faults (seed {seed}) ...")
    lie = inject(config, random.Random(seed), asked.fault)
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


def inject(config: Path, draw: random.Random, fault: str | None = None) -> Lie:
    """Draw a fault and a shard that has room for it, and break the shard."""
    stores = open_stores(load_settings(str(config), {}).store)
    faults = [fault] if fault else sorted(CATALOGUE)
    draw.shuffle(faults)
    for name in faults:
        shards = breakable(Machine(stores).names())
        draw.shuffle(shards)
        for shard in shards:
            injected = CATALOGUE[name](Site(stores, shard), draw)
            if injected is not None:
                return Lie(shard, name, injected)
    raise SystemExit("nothing of the demo can be broken in this way; was it shortened?")


def breakable(names: Iterable[str]) -> list[str]:
    """Return the shards that soft evaluation goes through: not what Strata writes about itself."""
    return [name for name in names if not is_journal(name)]


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
        console.print("[bold red]the fault was not found: the run succeeded[/]")
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
    named = [
        a
        for a in alerts
        if (a["shard"], a["part"]) == (lie.shard, lie.injected.place)
        and lie.injected.names in f"{a['column']} {a['bound']} {a['error']}"
    ]
    found = bool(named) and rollout.mode == "off"
    console.print(
        "[bold green]the fault was found, named and the shard set back[/]"
        if found
        else "[bold red]the fault was not named[/]"
    )
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
