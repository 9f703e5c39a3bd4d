"""Dashboard and alerts ask only for figures that are sent, under the names they arrive by."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from strata.history.metrics import PREFIX, _unit
from tests.unit.history import test_metrics as sent
from tools.dashboard import FILE, dashboard, text

FOLDER: Final = FILE.parent
RULES: Final = yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8"))["groups"][0]["rules"]
TRIED: Final = yaml.safe_load((FOLDER / "rules.test.yaml").read_text("utf-8"))["tests"]
# Gauges by the counts in a result: which there are is said by the dataclasses of the results.
COUNTS: Final = {
    "strata.validate.checked_parts",
    "strata.ingest.rejected",
    "strata.ingest.files",
}
TIMERS: Final = {name for name in sent.ALL if name.endswith("seconds")}
COUNTERS: Final = {
    *(sent.READS | sent.OPERATIONS) - TIMERS,
}
LABELS: Final = {"shard", "mode", "what", "outcome", "le"}


def arrives_as() -> set[str]:
    """Return the names that Prometheus gives to the figures; source: its OTLP translation."""
    found: set[str] = set()
    for name in sent.ALL | COUNTS:
        plain = name.replace(".", "_")
        if name in TIMERS:
            found |= {f"{plain}_{part}" for part in ("sum", "count", "bucket")}
        else:
            found.add(f"{plain}_total" if name in COUNTERS else plain)
    return found


def queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for rule in RULES:
        yield rule["expr"]


def test_the_dashboard_is_made_from_its_panels() -> None:
    assert FILE.read_text("utf-8") == text(), "run: python -m tools.dashboard"


@pytest.mark.parametrize("query", tuple(queries()))
def test_a_query_asks_for_what_is_sent(query: str) -> None:
    names = set(re.findall(r"\bstrata_\w+", query))
    assert names
    assert names <= arrives_as()
    labels = set(re.findall(r"(\w+)(?:=~?)\"", query))
    labels |= {
        one.strip() for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for one in by.split(",")
    }
    assert labels <= LABELS


def test_outcomes_that_are_asked_for_exist() -> None:
    asked = {
        one
        for query in queries()
        for words in re.findall(r'outcome=~?"([^"]*)"', query)
        for one in words.split("|")
    }
    assert asked == {"failed", "bad request", "mismatch", "fenced"}


def test_each_alert_is_tried_by_promtool() -> None:
    raised = {
        case["alertname"] for one in TRIED for case in one["alert_rule_test"] if case["exp_alerts"]
    }
    assert raised == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "do"}


def test_no_unit_changes_a_name() -> None:
    """Prometheus appends a unit that the name does not have, and "ratio" for the unit 1."""
    words: dict[str, Any] = {"s": "seconds", "By": "bytes"}
    for name in sent.ALL | COUNTS:
        kind = "time" if name in TIMERS else "count" if name in COUNTERS else "gauge"
        unit = _unit(kind, name)
        assert unit != "1"
        assert not unit or words[unit] in name.removeprefix(PREFIX).replace(".", "_").split("_")
