"""The scripts in `spine/`: what appends and merges do to the slots.

insert UPDATES... [runs=N]         append batches, 10 time units each; 0 is an empty batch
plan [since=T] | full [since=T]    the requests; each is kept under its id range
apply ID_LOWER-ID_UPPER [updates=N] [since=T] [digest=N]   its result; default: the same content
show                               a line a slot: ids, level, its batches as [lower,upper) updates
"""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.state import spine as spines
from strata.state.spine import MergeRequest, MergeResult, NotApplied
from strata.state.state import Spine
from tests.scripts.script import run_script
from tests.support.batches import batch, merged

SCRIPTS = sorted((Path(__file__).parent / "spine").glob("*.script"))


class SpineCommands:
    def __init__(self) -> None:
        self.spine = Spine()
        self.requests: dict[str, MergeRequest] = {}
        self.upper = 0

    def __call__(self, name: str, words: list[str], options: dict[str, str]) -> str:
        numbers = {k: int(v) for k, v in options.items()}
        output = str(getattr(self, f"do_{name}")(*words, **numbers))
        broken = spines.problems(self.spine, 0, self.upper)
        return "\n".join([output, *broken]) if broken else output

    def do_insert(self, *sizes: str, runs: int = 1) -> str:
        for updates in map(int, sizes):
            new = batch(self.upper, self.upper + 10, updates, runs=runs)
            self.spine = spines.insert(self.spine, new)
            self.upper += 10
        return self.do_show()

    def do_show(self) -> str:
        return "\n".join(
            f"{slot.id_lower}-{slot.id_upper} level {slot.level}: "
            + " ".join(f"[{b.lower},{b.upper}) {b.updates}" for b in slot.batches)
            for slot in self.spine.slots
        )

    def do_plan(self, since: int = 0) -> str:
        return self._keep(spines.requests(self.spine, since))

    def do_full(self, since: int = 0) -> str:
        request = spines.full_request(self.spine, since)
        return self._keep([request] if request else [])

    def do_apply(self, ids: str, updates: int | None = None, **changes: int) -> str:
        request = self.requests[ids]
        new = replace(merged(request.batches, request.since, updates), **changes)
        result = MergeResult(request.id_lower, request.id_upper, request.manifests, new)
        applied = spines.apply(self.spine, result, request.since)
        if isinstance(applied, NotApplied):
            return f"not applied: {applied.reason}"
        self.spine = applied
        return self.do_show()

    def _keep(self, requests: list[MergeRequest]) -> str:
        self.requests |= {f"{r.id_lower}-{r.id_upper}": r for r in requests}
        return (
            "\n".join(
                f"{r.id_lower}-{r.id_upper} [{r.lower},{r.upper}) since {r.since}: {r.reason}"
                for r in requests
            )
            or f"nothing: {spines.idle_reason(self.spine)}"
        )


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_the_spine_does_what_the_script_says(path: Path) -> None:
    run_script(path, SpineCommands())
