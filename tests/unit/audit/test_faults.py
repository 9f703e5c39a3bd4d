"""Law 9: every fault of the catalogue is found in one run, named, and trips the shard."""

import random
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from demo.faults import CATALOGUE, Injected, Site
from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import NO_GROUPS, Evaluated, Groups
from strata.errors import Corrupt
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.expr.registry import REGISTRY
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.spec import parse_spec
from strata.read.scan import read_updates
from strata.store.open import open_stores
from tests.support.faulty import APART, NAME, settings_in, sound_in, with_many


def greater(than: int) -> Filter:
    compared = Call("greater_than", (Column(1, "id", "long"), Literal(than, "long")), "boolean")
    return Filter(compared, f"id > {than}", 0, 0)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    sound_in(folder)
    return folder


@pytest.mark.parametrize("filled", [False, True])
def test_a_shard_without_parts_cannot_be_broken(tmp_path: Path, filled: bool) -> None:
    stores = open_stores(settings_in(tmp_path))
    machine = Machine(stores)
    machine.create(parse_spec({"name": "none", "columns": [{"name": "id", "type": "int64"}]}))
    if filled:
        machine.append("none", token="t", lower=0, upper=1)
    found = {
        name: fault(Site(stores, "none"), random.Random(1)) for name, fault in CATALOGUE.items()
    }
    assert set(found.values()) == {None}


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


@pytest.mark.parametrize("half", [0, 1])
def test_many_faults_at_once_are_each_found_and_named(tmp_path: Path, half: int) -> None:
    site, broken = with_many(tmp_path, APART[half::2])

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
