"""What a validation looks at, how long, and whom it blames: each rule by itself."""

import time
from dataclasses import asdict, dataclass, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from strata.audit import budget, format, run, soft, softly, standing, used
from strata.audit.batches import Looked, verdicts_of
from strata.audit.budget import NO_LIMIT, Budget, Clock, in_chunks, pile_of
from strata.audit.compare import Finding, Recorded, compare_part
from strata.audit.contain import guilty_functions
from strata.audit.cost import Share, costs
from strata.audit.scope import Scope
from strata.audit.soft import Confirming, Evaluated
from strata.audit.verdict import NAME_MAX, SCHEMA, Verdict, check_run, verdict_table
from strata.decide.skips import Drawn
from strata.errors import Conflict, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.manifest import PartRef
from strata.format.part_write import encode_part
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.rollout.policy import Policy
from strata.state.state import Batch, RolloutEntry

FILTER: Any = SimpleNamespace(now_low=0, now_high=0)
BLANK = Verdict("run", "s", "check", "sql", "part", "missing", 0, 0, 0, "both", 1, "", "")


def test_a_budget_of_bytes_or_of_seconds_is_a_limit() -> None:
    assert Budget(size_bytes=1).limited
    assert Budget(seconds=0.5).limited
    assert not NO_LIMIT.limited


@pytest.mark.parametrize("seconds", [None, 60])
def test_chunks_have_each_part_once(monkeypatch: pytest.MonkeyPatch, seconds: float | None) -> None:
    monkeypatch.setattr(budget, "CHUNK_PARTS", 2)
    some = Drawn(np.array([7, 3, 5, 1, 9]), np.array([1, 1, 1, budget.CHUNK_BYTES + 1, 1]))
    until = None if seconds is None else time.monotonic() + seconds

    chunks = [chunk.tolist() for chunk in in_chunks(some, until)]

    assert sorted(chain.from_iterable(chunks)) == [1, 3, 5, 7, 9]
    assert all(chunk == sorted(chunk) and 0 < len(chunk) <= 2 for chunk in chunks)
    assert list(in_chunks(some, time.monotonic())) == [], "the time is over"


def test_only_functions_of_mismatches_are_distrusted_in_other_shards() -> None:
    """A column or a part is at fault in its own shard alone."""
    words = "5 shards/s/parts/00ff.parquet plus"
    verdicts: Any = [
        SimpleNamespace(outcome="mismatch", suspects=words),
        SimpleNamespace(outcome="clean", suspects="lower"),
        SimpleNamespace(outcome="mismatch", suspects=""),
    ]

    assert guilty_functions(verdicts) == ("plus",)


def test_an_estimate_is_in_proportion_to_what_the_run_fetched() -> None:
    [half] = costs([Share(10, 2, 50)], FILTER, seconds=2, audited_bytes=100)
    [unknown] = costs([Share(10, 2, 50)], FILTER, seconds=2, audited_bytes=0)

    assert (half.seconds, unknown.seconds) == (1.0, 0.0)
    assert (half.parts, half.size_bytes, half.requests) == (2, 50 * 2, 2 * 2)


@pytest.mark.parametrize(
    ("asked", "mode", "share"), [(7, "on", 7), (None, "on", 3), (None, "soft", 100), (0, "soft", 0)]
)
def test_who_asks_for_a_share_gets_it(asked: int | None, mode: str, share: int) -> None:
    state: Any = SimpleNamespace(rollout=SimpleNamespace(mode=mode, audit_percent=3))

    assert Scope("run", percent=asked).share(state) == share


def test_each_mismatch_is_looked_at_again() -> None:
    """Those before it were none, or could not be read."""

    def evaluate(_: object, refs: Any, *__: object) -> list[Evaluated]:
        return [Evaluated(ref, 9, int(ref == "true")) for ref in refs]

    came = {
        "clean": Evaluated("clean", 9, 0),
        "failed": Evaluated("failed", 0, 0, failed="the store is away"),
        "once": Evaluated("once", 9, 1),
        "true": Evaluated("true", 9, 1),
        "error": Evaluated("error", 9, 0, error="division by zero"),
    }
    skips: Any = {key: SimpleNamespace(ref=key, groups=()) for key in came}

    found = Confirming(evaluate, FILTER).confirmed(came, skips)

    assert found["true"] == came["true"]
    assert found["failed"] == came["failed"]
    assert found["once"].failed == "not seen a second time: 1 accepted rows"
    assert found["error"].failed == "not seen a second time: division by zero"


@dataclass(frozen=True)
class Left:
    """What a read would leave out of a part."""

    groups: tuple[int, ...]
    ref: ClassVar[Any] = SimpleNamespace(key="part")
    rows: int = 9
    stats: Any = None


@pytest.mark.parametrize(
    ("groups", "bound", "column", "suspects"),
    [((1,), "they lie", "splits", "part"), ((1,), "", "n", "plus"), ((), "they lie", "n", "plus")],
)
def test_keys_of_row_groups_are_blamed_where_they_are_wrong_and_rules_elsewhere(
    monkeypatch: pytest.MonkeyPatch, groups: tuple[int, ...], bound: str, column: str, suspects: str
) -> None:
    guilty = Call("plus", (Column(1, "n", "bigint"),), "bigint")
    said = {"explain_mismatch": [], "_misplaced": bound, "fetched_stats": None, "proving": guilty}
    for name, answer in said.items():
        monkeypatch.setattr(soft, name, lambda *_, answer=answer: answer)
    none: Any = None

    found = soft._verdict(
        none,
        none,
        FILTER,
        Left(groups),
        Evaluated("part", 9, 1),
        BLANK,
        witness=None,  # type: ignore[arg-type]
    )

    assert (found.outcome, found.column, found.suspects) == ("mismatch", column, suspects)


def test_a_run_has_a_name_that_can_name_a_folder() -> None:
    assert check_run("r" * NAME_MAX) == "r" * NAME_MAX
    for name in ("", " ", ".hidden", "a/b", "a\nb", "r" * (NAME_MAX + 1)):
        with pytest.raises(InvalidRequest, match="cannot be the name of a run"):
            check_run(name)


def test_a_verdict_has_no_nulls() -> None:
    assert not any(column.nullable for column in SCHEMA)
    assert verdict_table([BLANK]).to_pylist() == [asdict(BLANK)]


def test_the_verdict_on_a_batch_is_under_the_key_of_its_manifest() -> None:
    state: Any = SimpleNamespace(name="s")
    looked = [Looked(Batch(0, 9, 0, manifest=key), None, found) for key, found in BATCHES.items()]

    verdicts = verdicts_of(state, looked, "run")

    assert [(one.part, one.outcome) for one in verdicts] == [("a", "clean"), ("b", "mismatch")]


BATCHES: dict[str, tuple[Finding, ...]] = {"a": (), "b": (Finding("manifest", "damaged"),)}


@pytest.mark.parametrize(("size_bytes", "taken"), [(0, [1, 2, 0]), (1, [1, 2]), (9, [1, 2, 0])])
def test_a_pile_has_the_newest_parts_as_far_as_bytes_reach(
    size_bytes: int, taken: list[int]
) -> None:
    skips: Any = SimpleNamespace(spans=lambda _: [(10, 0, 1), (20, 1, 3)])
    drawn = Drawn(np.arange(3), np.array([5, 1, 1]))
    bytes_max = {"size_bytes": size_bytes} if size_bytes else {}

    pile = pile_of(skips, drawn, np.zeros(3, np.bool_), 7, **bytes_max)

    assert pile.parts.numbers.tolist() == taken
    assert (pile.wanted_parts, pile.wanted_bytes) == (3, 7)


@pytest.mark.parametrize(("rows", "said"), [(0, []), (2, ["rows recorded 2, the part has 0"])])
def test_a_part_without_rows_is_one_only_if_it_is_recorded_so(rows: int, said: list[str]) -> None:
    relation = Relation(0, (Declared(1, "n", parse_type("int64")),), (1,), ())
    empty = updates_schema(relation).empty_table()
    how = Description(0, 9, 0)
    data = encode_part(empty, relation, "both", description=how, row_group_bytes=1024).data
    part = PartRef("k", len(data), rows, 0, "both", 0, (1,), 0, 0, 0, 0, False, b"", None)

    found = compare_part(Recorded(part, None, (relation,), ()), data)

    assert [one.statement for one in found.findings] == said


def test_a_part_whose_verdict_a_killed_run_kept_is_not_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def check(_: object, tasks: list[str]) -> list[str]:
        asked.extend(tasks)
        return [f"fresh {task}" for task in tasks]

    answers: dict[str, Any] = {
        "basis_of": "basis",
        "_taken_up": {"old": "kept"},
        "_tasks": (),
        "_chunks": [["old", "new"]],
        "_keep": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(format, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(format, "_fingerprint", lambda task, _: task)
    none: Any = SimpleNamespace(name="s")
    runner: Any = check

    found: Any = list(format.check_parts(none, none, (), runner, run="run"))

    assert asked == ["new"]
    assert found == ["kept", "fresh new"]


@pytest.mark.parametrize(("spent", "left"), [(0, 100), (60, 40), (80, 25), (300, 25)])
def test_the_format_check_has_what_is_left_and_a_quarter_at_least(
    monkeypatch: pytest.MonkeyPatch, spent: int, left: int
) -> None:
    given: list[int] = []
    monkeypatch.setattr(run, "affordable_parts", lambda *some: given.append(some[-1]))
    for name, answer in {"check_parts": (), "verdicts_of": [], "rest_of_share": (0, 0)}.items():
        monkeypatch.setattr(run, name, lambda *_, answer=answer, **__: answer)
    none: Any = SimpleNamespace(name="s")
    scope = Scope("run", budget=Budget(100))

    run._format(none, none, (), none, scope, Clock(0, 1), spent)

    assert given == [left]


def test_a_draw_has_a_least_number_of_parts_unless_a_share_is_asked_for() -> None:
    policy = Policy()

    assert softly._least(Scope("run", policy=policy)) == policy.gates.sample_parts > 0
    assert softly._least(Scope("run", policy=policy, percent=50)) == 0


def test_evidence_of_parts_and_of_row_groups_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(softly, "_valid", lambda _: None)
    monkeypatch.setattr(softly, "evidence_of", lambda *_, groups: 5 if groups else 3)
    none: Any = SimpleNamespace(filter=None)

    assert softly._evidence(none, none) == (3, 5)


@pytest.mark.parametrize("asked_by", ["", "ann"])
def test_a_line_says_how_far_who_asked_can_be_believed_where_somebody_did(asked_by: str) -> None:
    entry = RolloutEntry(0, "approved", "off", "soft", 5, "bob", "due", asked_by=asked_by)

    line = standing._line(entry, Policy())

    assert bool(line["asked_by_is"]) == bool(asked_by)
    assert line["by_is"]


def test_a_filter_of_the_log_has_the_clock_of_the_middle_of_its_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged = SimpleNamespace(filter=Filter(Literal(True, "boolean"), "a > 1", 1000, 3000))
    monkeypatch.setattr(used.usage, "recent", lambda *_: [logged, logged])
    none: Any = None

    [found] = used.used_filters(none, "s", none, (), 9)

    assert found.filter == replace(logged.filter, now_low=2000, now_high=2000)


def test_a_mismatch_that_cannot_be_recorded_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raced: list[str] = []

    def lose(name: str, _: object) -> None:
        raced.append(name)
        raise Conflict("others were faster", cure="run again")

    stores = SimpleNamespace(blob=SimpleNamespace(set=lambda *_: None))
    state: Any = SimpleNamespace(name="s")
    machine: Any = SimpleNamespace(stores=stores, load=lambda _: state, apply=lose)
    monkeypatch.setattr(run, "_evidence", lambda *_: None)
    wrong = replace(BLANK, outcome="mismatch", suspects="plus")

    with pytest.raises(Conflict, match="others were faster"):
        run._record(machine, state, Scope("run"), [wrong], {}, 100)
    assert raced == ["s"] * run.RACES
