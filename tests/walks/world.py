"""What the walks walk through: flights and weather of a week, as if it were the one before today.

The files of the first days of 2013 get the names of the last days. All but the newest are taken in
beforehand; yesterday's is left to the schedule. Flights have statistics, weather has none.
"""

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from demo.airflow import PASSWORDS, Instance, start
from demo.landing import make_landing
from demo.places import PROJECT
from demo.processes import Processes
from strata.config.settings import load_settings
from strata.config.shards import ensure_shards
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.machine.machine import Machine
from strata.rollout import policy
from strata.rollout.people import Person
from strata.store.open import Stores, open_stores

PEOPLE: Final = ("ann", "bob")
DAYS: Final = 7
SHARDS: Final = {"flights": "both", "weather": "row"}  # and how their parts are written


@dataclass(frozen=True, slots=True)
class Place:
    """Where the walks' files lie."""

    folder: Path

    @property
    def home(self) -> Path:
        """Return the folder of Airflow."""
        return self.folder / "airflow"

    @property
    def config(self) -> Path:
        """Return the settings file."""
        return self.folder / "strata.toml"

    @property
    def stores(self) -> Stores:
        """Return the opened stores."""
        return open_stores(load_settings(str(self.config), {}).store)


def day(ago: int) -> datetime:
    """Return the midnight, UTC, that began the day so many days ago."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=ago)


def lay_out(place: Place) -> None:
    """Write files and settings anew, and take in every day but yesterday."""
    shutil.rmtree(place.folder, ignore_errors=True)
    place.folder.mkdir(parents=True)
    make_landing(place.folder, DAYS)
    (place.folder / "shards").mkdir()
    for shard, layout in SHARDS.items():
        declared = PROJECT / "config" / "shards" / f"{shard}.yaml"
        spec = yaml.safe_load(declared.read_text("utf-8")) | {"write_format": layout}
        (place.folder / "shards" / declared.name).write_text(yaml.safe_dump(spec))
        for n in range(DAYS):
            old = place.folder / "landing" / shard / f"2013-01-{n + 1:02}.csv"
            old.rename(old.with_name(f"{day(DAYS - n):%Y-%m-%d}.csv"))
    place.config.write_text(_settings(place.folder), "utf-8")
    _take_in(place)


def open_airflow(place: Place) -> Instance:
    """Start Airflow with its schedules on, for people who log in."""
    return start(schedules=True, tell=print, home=place.home, config=place.config, people=PEOPLE)


def password(place: Place, name: str) -> str:
    """Return what one of the people logs in with."""
    return str(json.loads((place.home / PASSWORDS).read_text("utf-8"))[name])


def close_airflow(place: Place) -> None:
    """Stop it."""
    Processes(place.home / "processes.json").stop()


def _settings(folder: Path) -> str:
    """Return the settings; those of a process make no gate laxer, see `_agree`."""
    return (
        f'shards_dir = "{folder}/shards"\nfilters_dir = "{PROJECT}/config/filters"\n'
        f'[store]\nblob = "file://{folder}/blob"\nconsensus = "sqlite:///{folder}/consensus.db"\n'
        f'landing = "{folder}"\n[validate]\nreport_dir = "{folder}/report"\n'
    )


def _agree(stores: Stores) -> None:
    """Let two people agree on gates that a week can pass."""
    audit = ("audit_parts", "audit_runs", "audit_days", "stratum_parts")
    names = (*audit, "on_parts", "on_days", "on_percent")
    ann, bob = (Person(name) for name in PEOPLE)
    ask = partial(policy.ask, to=dict.fromkeys(names, 1), who=ann, reason="a week is all there is")
    asked = policy.change(stores, ask).request
    assert asked is not None
    seen = policy.request_id(asked)
    policy.change(stores, partial(policy.approve, request=seen, who=bob, reason="agreed"))


def _take_in(place: Place) -> None:
    settings = load_settings(str(place.config), {})
    stores = open_stores(settings.store)
    _agree(stores)
    first, last = (int(day(ago).timestamp() * 1000) for ago in (DAYS, 1))
    for shard in ensure_shards(Machine(stores), settings.shards_dir, []):
        for _ in ingest_steps(stores, settings, shard, steps_of(first, last, "P1D")):
            continue
