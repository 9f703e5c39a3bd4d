"""The first three walks, step by step; each goes on where the one before it ended."""

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from demo.api import ENDED, Api, wait_until
from demo.faults import CATALOGUE, Site
from demo.places import PROJECT, RESULTS
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from tests.walks.browser import Walker
from tests.walks.world import Place, day

RUN_SECONDS: Final = 1800.0
# Airflow 3.3.2 ends a task that is answered before the scheduler has heard that it waits.
READS_MS: Final = 15_000
REASON: Final = "the verdicts of today, and the mended bound"
FAULT: Final = "high bound below the rows"
INGEST, COMPACT, STATS = "shard_ingest", "shard_compact", "stats_backfill"
EVALUATE, GATE = "soft_evaluation", "rollout_gate"


@dataclass(frozen=True, slots=True)
class Walk:
    """Who walks, and where."""

    place: Place
    ann: Walker
    bob: Walker
    api: Api  # as ann

    def newest(self, dag: str, run_type: str = "") -> list[str]:
        """Return the ids of the runs of a DAG, the newest first."""
        runs = self.api.runs(dag)
        return [r["dag_run_id"] for r in runs if run_type in ("", r["run_type"])]

    def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until `ready`; an answer that takes too long is none."""

        def patient() -> bool:
            try:
                return ready()
            except OSError:
                return False

        wait_until(what, patient, seconds=RUN_SECONDS, alive=lambda: "")

    def ended(self, dag: str, run: str, state: str = "success") -> None:
        """Wait for the end of a run, which has to be `state`."""
        self.wait(f"{dag} {run}", lambda: self.api.run_state(dag, run) in ENDED)
        assert self.api.run_state(dag, run) == state, (dag, run)

    def unpause(self, dag: str) -> None:
        """Switch a DAG on, on its page."""
        self.ann.go(f"/dags/{dag}", see="Overview")
        self.ann.page.locator("[data-scope=switch][data-part=control]").first.click()


def scheduled(walk: Walk) -> None:
    """Walk 1: the schedule takes yesterday in, compaction follows, the numbers are on the asset."""
    ann = walk.ann
    ann.go("/dags", see="Shards: ingest")
    ann.shot("1-dags")
    walk.unpause(COMPACT)
    walk.unpause(INGEST)
    ann.shot("1-unpaused")
    walk.wait("the scheduled run", lambda: bool(walk.newest(INGEST, "scheduled")))
    (run,) = walk.newest(INGEST, "scheduled")
    walk.ended(INGEST, run)
    ann.go(f"/dags/{INGEST}/runs/{quote(run)}", see="success")
    ann.shot("1-ingested")
    walk.wait("compaction", lambda: bool(walk.newest(COMPACT)))
    (merged,) = walk.newest(COMPACT)
    walk.ended(COMPACT, merged)  # until it has begun Airflow 3.3.2 cannot show the event
    (event,) = walk.api.asset_events("strata_batches")
    ann.go(f"/assets/{event['asset_id']}", see="strata_batches")
    ann.page.locator(".codicon-folding-collapsed").first.click()  # what the event counts
    ann.shot("1-asset")
    ann.go(f"/dags/{COMPACT}/runs/{quote(merged)}/tasks/compact", see="Result")
    ann.shot("1-compacted")


def backfilled(walk: Walk) -> None:
    """Walk 2: statistics for a day that has none, from Airflow's own form; then again, really."""
    ann = walk.ann
    walk.unpause(STATS)
    ann.click("Trigger")
    ann.see("What to do")
    ann.shot("2-form")
    _backfill_form(walk, days=2)
    ann.see("2 runs will be triggered")
    ann.shot("2-preview")
    _be_real(walk)
    ann.shot("2-real")
    ann.click("Run Backfill")
    walk.wait("two runs", lambda: len(walk.newest(STATS, "backfill")) == 2)
    for run in walk.newest(STATS, "backfill"):
        walk.ended(STATS, run)
    ann.go(f"/dags/{STATS}", see="Overview")
    ann.shot("2-done")
    done = set(walk.newest(STATS, "backfill"))

    walk.wait("the end of the backfill", lambda: not walk.api.backfilling(STATS))
    ann.click("Trigger")
    _backfill_form(walk, days=1)
    ann.page.get_by_text("All Runs", exact=True).click()
    ann.see("1 run will be triggered")
    ann.shot("2-reprocess")
    _be_real(walk)
    ann.click("Run Backfill")
    walk.wait("one more", lambda: len(walk.newest(STATS, "backfill")) == len(done) + 1)
    (again,) = set(walk.newest(STATS, "backfill")) - done
    walk.ended(STATS, again)
    result = json.loads(Path(walk.api.returned(STATS, again, "stats")["result"]).read_text())
    assert sum(shard["parts_changed"] for shard in result["shards"]) > 0
    ann.go(f"/dags/{STATS}/runs/{quote(again)}/tasks/stats", see="Result")
    ann.shot("2-redone")


def _backfill_form(walk: Walk, days: int) -> None:
    """Fill the dates into the form of a backfill, so many days up to the day before yesterday."""
    page = walk.ann.page
    page.get_by_text("Run this Dag for a range of dates").click()
    for field, ago in ((0, days + 1), (1, 2)):
        page.get_by_test_id("datetime-input").nth(field).click()
        page.get_by_placeholder("YYYY/MM/DD").last.fill(f"{day(ago):%Y/%m/%d}")
        page.get_by_placeholder("HH:mm").last.fill("00:00")
        page.get_by_text("Date Range", exact=True).click()  # beside it, which closes it


def _be_real(walk: Walk) -> None:
    """Switch *Dry run* off, which is on for a backfill, too."""
    box = walk.ann.page.locator("input[name$=dry_run]").first
    assert box.is_checked()
    # It lies under what is drawn of it.
    box.evaluate("box => { box.scrollIntoView({block: 'center'}); box.click() }")
    assert not box.is_checked()


def reported(walk: Walk) -> None:
    """Walk 3: a lie is found, told, replayed and mended; somebody else approves the next step."""
    found(walk)
    mended(walk)
    approved(walk)


def found(walk: Walk) -> None:
    """A bound lies; soft evaluation fails, the report names the part and how to see it again."""
    injected = CATALOGUE[FAULT](Site(walk.place.stores, "flights"), random.Random(7))
    assert injected is not None
    walk.unpause(EVALUATE)
    walk.wait("the evaluation", lambda: bool(walk.newest(EVALUATE)))
    (run,) = walk.newest(EVALUATE)
    told(walk, run)


def told(walk: Walk, run: str) -> None:
    """From the failed task to the report, to the line that replays the finding, to a shell."""
    ann = walk.ann
    walk.ended(EVALUATE, run, "failed")
    ann.go(f"/dags/{EVALUATE}/runs/{quote(run)}/tasks/validate", see="mismatch")
    ann.shot("3-failed")
    ann.go(f"/dags/{EVALUATE}/runs/{quote(run)}/tasks/validate/details", see="Extra Links")
    ann.shot("3-link")
    address = ann.page.get_by_role("link", name="Report").first.get_attribute("href")
    ann.go(str(address), see="Validation report")
    ann.shot("3-index")
    ann.page.locator("article.failed li.failed a").first.click()  # the shard whose bound lies
    ann.see("strata validate")
    ann.page.get_by_text("strata validate").first.scroll_into_view_if_needed()
    ann.shot("3-lines")
    _through_the_menu(ann)
    assert _replays(walk) == 3  # the same mismatch in a shell


def _through_the_menu(ann: Walker) -> None:
    """*Browse*, *Validation report* opens the index in a window of its own."""
    ann.go("/dags", see="Shards: ingest")
    ann.click("Browse")
    with ann.page.context.expect_page() as opened:
        ann.page.get_by_text("Validation report").first.click()
    opened.value.get_by_role("heading", name="Validation report").wait_for()
    opened.value.close()


def mended(walk: Walk) -> None:
    """The bound is collected anew; the next evaluation is clean, and evidence begins anew."""
    backfill_shard(walk.place.stores, "flights", Selection(again=True))
    evaluated(walk)


def evaluated(walk: Walk) -> None:
    """Look at all parts once more, and find nothing."""
    walk.api.pause(EVALUATE, paused=False)
    run = walk.api.trigger(EVALUATE, {"shards": ["flights"]})
    walk.ended(EVALUATE, run)


def approved(walk: Walk) -> None:
    """Ann asks for the next step, Bob looks at what is known and approves: twice, up to `audit`."""
    walk.api.pause(GATE, paused=False)
    words = ["--by", "ann", "--reason", "mended, looked at the report", "--clear", "all"]
    assert _strata(walk, "rollout", "request", "flights", *words).returncode == 0
    assert answered(walk, asked(walk)) == "soft"
    evaluated(walk)
    gate = asked(walk)
    walk.bob.go("/required_actions", see="flights")
    walk.bob.shot("3-required")
    assert answered(walk, gate, pictures=True) == "audit"
    walk.ann.go(f"/dags/{GATE}/runs/{quote(gate)}/tasks/question", see="is now")
    walk.ann.shot("3-approved")


def asked(walk: Walk) -> str:
    """Ask for the next step, in the name of Ann; return the run that waits for an answer."""
    gate = walk.api.trigger(GATE, {"shard": "flights", "reason": "a clean night"})
    walk.wait("the question", lambda: bool(walk.api.question(GATE, gate, "question")))
    return gate


def answered(walk: Walk, gate: str, *, pictures: bool = False) -> str:
    """Answer as Bob, with a reason; return the mode that the shard is in then."""
    bob = walk.bob
    bob.go(f"/dags/{GATE}/runs/{quote(gate)}/tasks/question/required_actions", see="Gates")
    reason = bob.page.locator("[id$=approver_reason], input[name$=approver_reason]").first
    assert not reason.input_value()
    approve = bob.page.get_by_role("button", name="Approve").first
    if pictures:
        bob.shot("3-question")
        approve.scroll_into_view_if_needed()
        bob.shot("3-empty")
        assert approve.is_disabled()
    reason.fill(REASON)
    if pictures:
        approve.scroll_into_view_if_needed()
        bob.shot("3-reason")
    bob.page.wait_for_timeout(READS_MS)
    approve.click()
    walk.ended(GATE, gate)
    if pictures:
        bob.go(f"/dags/{GATE}/runs/{quote(gate)}/tasks/question/required_actions", see="Gates")
        bob.shot("3-answered")
    return str(walk.api.returned(GATE, gate, "question")["mode"])


def _replays(walk: Walk) -> int:
    """Run the first replay line of the newest result; return the exit code."""
    files = RESULTS.rglob("soft_evaluation/*/validate.*.json")
    newest = max(files, key=lambda file: file.stat().st_mtime)
    alert = json.loads(newest.read_text("utf-8"))["alerts"][0]
    return _strata(walk, *shlex.split(alert["replay"])[1:]).returncode


def _strata(walk: Walk, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strata.cli.app", *words, "--config", str(walk.place.config)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
