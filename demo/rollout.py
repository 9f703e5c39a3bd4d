"""`make demo-rollout`: lead one shard from `off` to `on`, then lie to it, and lead it back.

A week of flights is taken into a store of its own, which says that it is a demo: two people agree
on gates that one night passes, with that as the reason. Then every step is the command that a
person would type, shown before it runs. No Airflow is needed; `make up` has the same on pages.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console

from demo import places
from demo.faults import CATALOGUE, Site
from demo.landing import make_landing
from strata.config.settings import load_settings
from strata.errors import Conflict
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.rollout import policy
from strata.rollout.people import Person
from strata.store.open import Stores, open_stores

FOLDER: Final = places.HIDDEN / "demo-rollout"
SHARD: Final = "flights"
WHERE: Final = "time_hour < timestamp '2013-01-03 00:00:00'"
FAULT: Final = "high bound below the rows"
DAYS: Final = 7
FIRST_MS: Final = 1_356_998_400_000  # 2013-01-01
DAY_MS: Final = 86_400_000
GATES: Final = (
    "audit_parts",
    "audit_runs",
    "audit_days",
    "stratum_parts",
    "on_parts",
    "on_days",
    "on_percent",
)
DEMO: Final = "a demo: one night is enough"
MISMATCH: Final = 3  # the exit code of a validation that found one
FOUND: Final = {0: "clean", MISMATCH: "a mismatch was found"}

console = Console(highlight=False, soft_wrap=True)


class UnexpectedEndError(Exception):
    """A command ended in another way than the demo wants."""


def main(argv: Sequence[str] | None = None) -> int:
    """Lead the shard up, down and up again; return the exit code."""
    parser = argparse.ArgumentParser(prog="make demo-rollout", description=__doc__)
    parser.parse_args(argv)
    console.print(f"taking in {DAYS} days of flights ...")
    config = lay_out(FOLDER)
    stores = open_stores(load_settings(str(config), {}).store)
    try:
        up(config)
        lie(config, stores)
        back(config)
    except UnexpectedEndError as error:
        console.print(f"[bold red]{error}[/]")
        return 1
    console.print(
        f"\n[bold green]from off to on, tripped by a lie, and on its way again.[/] Look at it:\n"
        f"  strata ui --config {config}"
    )
    return 0


def lay_out(folder: Path) -> Path:
    """Make the store anew: gates of a demo, and a week of flights; return its settings file."""
    shutil.rmtree(folder, ignore_errors=True)
    make_landing(folder, DAYS)
    config = places.write_config(folder)
    settings = load_settings(str(config), {})
    stores = open_stores(settings.store)
    agree(stores)
    declared = places.PROJECT / "config" / "shards" / f"{SHARD}.yaml"
    spec = yaml.safe_load(declared.read_text("utf-8")) | {"rollout": {"mode": "off"}}
    Machine(stores).create(parse_spec(spec))
    steps = steps_of(FIRST_MS, FIRST_MS + DAYS * DAY_MS, "P1D")
    for _ in ingest_steps(stores, settings, SHARD, steps):
        continue
    return config


def agree(stores: Stores, people: Sequence[str] = ("ann", "bob")) -> None:
    """Let the first two people agree on gates that one night passes; the policy keeps why."""
    asker, approver = (Person(name) for name in people[:2])
    ask = partial(policy.ask, to=dict.fromkeys(GATES, 1), who=asker, reason=DEMO)
    asked = policy.change(stores, ask).request
    if asked is None:
        raise Conflict("the gates of the demo were not asked for", shard=SHARD)
    seen = policy.request_id(asked)
    agreed = partial(policy.approve, request=seen, who=approver, reason=DEMO)
    policy.change(stores, agreed)


def up(config: Path) -> None:
    """Take the three steps, each with a clean night before it; then skip."""
    step(config, "soft", "begin to collect evidence")
    validated(config, 0)
    step(config, "audit", "a clean night")
    validated(config, 0)
    step(config, "on", "a clean night in audit")
    read = strata(config, "read", SHARD, "--where", WHERE)
    said(f"{read['rows']:,} rows; {read['parts_skipped']} parts were not fetched")


def lie(config: Path, stores: Stores) -> None:
    """Let one bound of the statistics lie; the next night finds it, and readers stop skipping."""
    injected = CATALOGUE[FAULT](Site(stores, SHARD), random.Random(7))
    if injected is None:
        raise UnexpectedEndError("no bound of the demo can be made to lie")
    said(f"now a bound lies: {injected.what} ({injected.place})")
    validated(config, MISMATCH)
    shown = strata(config, "rollout", "show", SHARD)
    last = shown["history"][0]
    said(f"{SHARD} is {shown['mode']}, by itself: {last['reason']}")
    if shown["mode"] != "off":
        raise UnexpectedEndError("the shard was not set back")


def back(config: Path) -> None:
    """Mend the bound, see a clean night, and begin again."""
    strata(config, "stats", "backfill", SHARD, "--again")
    validated(config, 0)
    step(config, "soft", "mended", "--clear", "all")


def step(config: Path, to: str, reason: str, *more: str) -> None:
    """Let Ann ask for a step, and Bob approve the request that he was shown."""
    asked = strata(config, "rollout", "request", SHARD, "--by", "ann", "--reason", reason, *more)[
        "request"
    ]
    words = ("--request", asked["id"], "--by", "bob", "--reason", f"I looked: {reason}")
    shown = strata(config, "rollout", "approve", SHARD, *words)
    parts = shown["evidence"]["parts"]
    said(f"{SHARD} is {shown['mode']}: asked by ann, approved by bob; {parts} parts were judged")
    if shown["mode"] != to:
        raise UnexpectedEndError(f"the shard is {shown['mode']}, not {to}")


def validated(config: Path, wanted: int) -> None:
    """Validate the shard as each night does."""
    found = strata(config, "validate", SHARD, ends=wanted)
    said(
        f"{found['checked_parts']} parts that filters would skip were looked into: {FOUND[wanted]}"
    )


def strata(config: Path, *words: str, ends: int = 0) -> Mapping[str, Any]:
    """Show a command, run it, and return its document. Raises: UnexpectedEndError."""
    typed = " ".join(f'"{word}"' if " " in word else word for word in words)
    console.print(f"\n[bold]$ strata[/] {typed}", markup=True)
    done = subprocess.run(
        [sys.executable, "-m", "strata.cli.app", *words, "--json"],
        cwd=places.PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "STRATA_CONFIG": str(config)},
    )
    if done.returncode != ends:
        raise UnexpectedEndError(
            f"it ended with {done.returncode}, not {ends}: {done.stderr[-2000:]}"
        )
    document: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def said(text: str) -> None:
    """Print what came of it."""
    console.print(f"  {text}", markup=False)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
