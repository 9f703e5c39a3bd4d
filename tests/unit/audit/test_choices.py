"""What a validation looks at, how long, and whom it blames: each rule by itself."""

import time
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from strata.audit import budget, soft
from strata.audit.budget import NO_LIMIT, Budget, in_chunks
from strata.audit.contain import guilty_functions
from strata.audit.cost import Share, costs
from strata.audit.scope import Scope
from strata.audit.soft import Confirming, Evaluated
from strata.audit.verdict import NAME_MAX, Verdict, check_run
from strata.decide.skips import Drawn
from strata.errors import InvalidRequest
from strata.expr.nodes import Call, Column

FILTER: Any = SimpleNamespace(now_low=0, now_high=0)


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
    blank = Verdict("run", "s", "check", "sql", "part", "missing", 0, 0, 0, "both", 1, "", "")
    none: Any = None

    found = soft._verdict(
        none,
        none,
        FILTER,
        Left(groups),
        Evaluated("part", 9, 1),
        blank,
        witness=None,  # type: ignore[arg-type]
    )

    assert (found.outcome, found.column, found.suspects) == ("mismatch", column, suspects)


def test_a_run_has_a_name_that_can_name_a_folder() -> None:
    assert check_run("r" * NAME_MAX) == "r" * NAME_MAX
    for name in ("", " ", ".hidden", "a/b", "a\nb", "r" * (NAME_MAX + 1)):
        with pytest.raises(InvalidRequest, match="cannot be the name of a run"):
            check_run(name)
