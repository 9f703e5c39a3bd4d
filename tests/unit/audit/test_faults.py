"""Law 9: every fault of the catalogue is found in one run, named, and trips the shard."""

import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from demo.faults import CATALOGUE, Injected, Site, stated
from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import NO_GROUPS, Evaluated, Groups
from strata.errors import Corrupt
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.expr.registry import REGISTRY
from strata.format.layout import Description
from strata.format.manifest import PartRef
from strata.machine import Machine
from strata.model.runner import serial
from strata.model.settings import StoreSettings
from strata.model.spec import RolloutSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.read import read_updates
from strata.state.schema import AddColumn
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.write import write_batch, write_parts
from tests.shards import updates_table

NAME = "broken"


def greater(than: int) -> Filter:
    compared = Call("greater_than", (Column(1, "id", "long"), Literal(than, "long")), "boolean")
    return Filter(compared, f"id > {than}", 0, 0)


SPEC = {
    "name": NAME,
    "columns": [
        {"name": "id", "type": "int64"}, {"name": "other", "type": "int64"},
        {"name": "ratio", "type": "float64"}, {"name": "title", "type": "string"},
        {"name": "payload", "type": "jsonb"},
    ],
    "key": ["id"],
}  # fmt: skip


def settings_in(folder: Path) -> StoreSettings:
    return StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sound shard: three batches of two parts, each in its layout."""
    folder = tmp_path_factory.mktemp("sound")
    stores = open_stores(settings_in(folder))
    machine = Machine(stores)
    state = machine.create(replace(parse_spec(SPEC), rollout=RolloutSpec("soft")))
    append(stores, state, 0, "row")
    machine.evolve(NAME, AddColumn("added", parse_type("int32")))
    for number, layout in enumerate(("both", "structured"), 1):
        append(stores, machine.load(NAME), number, layout)
    return folder


def append(stores: Stores, state: State, number: int, layout: str, rows: int = 25) -> None:
    draw, lower = random.Random(number), 1000 * number
    width = len(state.relation.columns)
    updates = [(row(50 * number + i)[:width], lower + draw.randrange(999), -1 if i % 9 == 5 else 1)
            for i in range(50)]  # fmt: skip
    table = updates_table(state, updates)
    parts = [
        part
        for start in range(0, 50, rows)
        for part in write_parts(
            stores.blob, keys.part_prefix(NAME), [table.slice(start, rows)], state.relation,
            layout=layout, description=Description(lower, lower + 1000, MIN_TIME),
            part_bytes=1 << 20, row_group_bytes=1024, stats_spec=StatsSpec(budget_bytes=100_000),
        )
    ]  # fmt: skip
    first = MIN_TIME if not number else lower
    parts = [replace(part, ref=replace(part.ref, run=0)) for part in parts]
    batch = write_batch(stores.blob, NAME, parts, first, lower + 1000, MIN_TIME)
    Machine(stores).append(NAME, token=f"t{number}", lower=lower, upper=lower + 1000, batch=batch)


def row(number: int) -> tuple[object, ...]:
    ratio = float("nan") if number % 7 == 0 else number / 3
    payload = f'{{"n":{number},"s":"text {number}","mixed":{number if number % 2 else "true"}}}'
    other = None if number % 5 == 0 else 1000 - number
    return number, other, ratio, f"title number {number:03}", payload, number % 11


@pytest.fixture
def site(sound: Path, tmp_path: Path) -> Site:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    return Site(open_stores(settings_in(folder)), NAME)


def judge(
    site: Site, filter: Filter, refs: list[PartRef], groups: Groups = NO_GROUPS, /
) -> list[Evaluated]:
    """Evaluate a filter on rows, as Spark would."""
    than = filter.expr.args[1].value  # type: ignore[union-attr]
    found = []
    for ref in refs:
        try:
            ids = read_updates(site.stores, site.state, ref)["1"].to_pylist()
        except Corrupt as error:
            found.append(Evaluated(ref.key, 0, 0, failed=str(error), corrupt=True))
            continue
        if ref.key in groups:
            ends = [*(split.row for split in ref.splits[1:]), ref.rows]
            ids = [i for g in groups[ref.key] for i in ids[ref.splits[g].row : ends[g]]]
        found.append(Evaluated(ref.key, len(ids), sum(i > than for i in ids)))
    return found


def validate(site: Site, *filters: Filter, **scope: object) -> ValidationReport:
    checks = [Check(f.sql, f) for f in filters or [greater(120)]]
    scoped = Scope("run", **scope)  # type: ignore[arg-type]
    return validate_shard(site.stores, NAME, checks, partial(judge, site), serial, scoped)


def test_the_sound_shard_is_clean_and_its_row_groups_are_audited(site: Site) -> None:
    report = validate(site)

    assert [v for v in report.verdicts if v.outcome != "clean"] == []
    assert report.summaries[0].parts_tightened > 0
    assert report.mode_after == "soft"


def test_the_catalogue_is_long_enough() -> None:
    assert len(CATALOGUE) >= 45


# Faults that touch one part and nothing else: many of them fit into one shard, and one run.
APART = [
    name for name in CATALOGUE if name not in stated.FAULTS and name not in
    ("statistics of two parts swapped", "two parts exchanged")
]  # fmt: skip


@pytest.mark.parametrize("half", [0, 1])
def test_many_faults_at_once_are_each_found_and_named(tmp_path: Path, half: int) -> None:
    stores = open_stores(settings_in(tmp_path))
    machine = Machine(stores)
    machine.create(replace(parse_spec(SPEC), rollout=RolloutSpec("soft")))
    append(stores, machine.load(NAME), 0, "both", rows=13)
    machine.evolve(NAME, AddColumn("added", parse_type("int32")))
    for number, layout in enumerate(("both", "structured"), 1):
        append(stores, machine.load(NAME), number, layout, rows=6)
    site, broken = Site(stores, NAME), {}
    # Those first that need parts with several row groups.
    for name in sorted(APART[half::2], key=lambda name: "row group" not in name):
        injected = CATALOGUE[name](site, random.Random(name))
        assert injected is not None, f"no room for {name}"
        broken[name] = injected
        site = replace(site, avoid=site.avoid | {injected.place})

    report = validate(site)

    said = {v.part: f"{v.column} {v.bound} {v.error}" for v in report.mismatches if not v.sql}
    lost = [n for n, i in broken.items() if i.place not in said or i.names not in said[i.place]]
    assert lost == []
    assert {i.place for i in broken.values()} == {p for p in said if "/parts/" in p}
    assert report.mode_after == "off"


@pytest.mark.parametrize(
    "name",
    [n if n not in APART else pytest.param(n, marks=pytest.mark.long) for n in CATALOGUE],
)
def test_each_fault_is_found_in_one_run_named_and_trips_the_shard(site: Site, name: str) -> None:
    injected = CATALOGUE[name](site, random.Random(name))
    assert injected is not None, "this shard has room for every fault"

    report = validate(site)

    found = [v for v in report.mismatches if v.part == injected.place]
    assert found, f"{injected} not among {[(v.part, v.bound) for v in report.mismatches]}"
    assert any(_named(injected, f"{v.column} {v.bound} {v.error}") for v in found), found
    rollout = site.state.rollout
    assert (report.mode_after, rollout.mode) == ("off", "off")
    assert rollout.quarantine != () or "manifests/" in injected.place


def _named(injected: Injected, text: str) -> bool:
    return injected.names in text


def test_a_wrong_rule_is_caught_though_its_certificate_says_otherwise(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of `equal_to` in the place of that of `greater_than`."""
    wrong = replace(REGISTRY["greater_than"], transfer=REGISTRY["equal_to"].transfer)
    registry = {**REGISTRY, "greater_than": wrong}
    monkeypatch.setattr("strata.expr.interpret.REGISTRY", registry)

    report = validate(site, check_format=False)

    assert report.mismatches
    assert all("greater_than" in v.bound for v in report.mismatches)
    assert site.state.rollout.quarantine == ("greater_than",)


def test_moved_keys_of_row_groups_are_caught_by_soft_evaluation_alone(site: Site) -> None:
    while CATALOGUE["keys of row groups moved"](site, random.Random(1)) is not None:
        pass
    report = validate(site, *map(greater, (105, 111, 117)), check_format=False)

    assert {v.column for v in report.mismatches} == {"splits"}
    assert report.mode_after == "off"
