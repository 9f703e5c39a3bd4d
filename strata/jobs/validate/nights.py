"""The index of the report: the last nights of each shard, each run with its results, the suites."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

from strata.jobs.validate.markup import lead_to_page, readable, say, say_state

NIGHTS: Final = 30  # of a shard in its row
_STATES: Final = {"Failed": "failed", "Success": "passed", "Succeeded": "passed"}
Rows = Sequence[Mapping[str, Any]]  # results as Great Expectations lists them, the newest first


def show_nights(parent: Element, rows: Rows) -> None:
    """Add a row of each shard with its last nights, then each run, the newest first."""
    shards: dict[str, list[Mapping[str, Any]]] = {}
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        shards.setdefault(_shard(row), []).append(row)
        runs.setdefault(str(row["run_name"]), []).append(row)
    _say_how_many_failed(parent, [some[0] for some in shards.values()])
    say(SubElement(parent, "h2"), "Shards")
    _shards(SubElement(parent, "div", {"class": "card"}), shards)
    say(SubElement(parent, "h2"), "Runs")
    for name, some in runs.items():
        _run(parent, name, some)


def list_suites(parent: Element, rows: Rows) -> None:
    """Add a link to each suite."""
    suites = {str(row["expectation_suite_name"]): row for row in rows}
    if suites:
        say(SubElement(parent, "h2"), "What is expected")
    items = SubElement(parent, "ul", {"class": "suites"}) if suites else parent
    for name, row in sorted(suites.items()):
        lead_to_page(SubElement(items, "li"), row["_table_row_link_path"], name)


def _shard(row: Mapping[str, Any]) -> str:
    return str(row["expectation_suite_name"]["string_template"]["params"]["link_text"])


def _state(row: Mapping[str, Any]) -> str:
    return _STATES[row["_validation_success_text"]]


def _say_how_many_failed(parent: Element, last: Rows) -> None:
    failed = sum(_state(row) == "failed" for row in last)
    every = "shard" if len(last) == 1 else "shards"
    lead = SubElement(parent, "p", {"class": "lead"})
    say(SubElement(lead, "strong"), failed or len(last))
    if failed:
        say(lead, f" of {len(last)} {every} failed when last validated")
    else:
        say(lead, f" {every}, none failed when last validated")


def _shards(parent: Element, shards: Mapping[str, Rows]) -> None:
    """Add each shard's last nights, the oldest at the left; shards that failed come first."""
    for name in sorted(shards, key=lambda name: (_state(shards[name][0]) == "passed", name)):
        last = shards[name][0]
        line = SubElement(parent, "div", {"class": f"shard {_state(last)}"})
        say(SubElement(line, "h3"), name)
        say_state(line, _state(last))
        nights = SubElement(line, "ul", {"class": "trend", "aria-label": f"Nights of {name}"})
        for row in reversed(shards[name][:NIGHTS]):
            state = _state(row)
            night = SubElement(nights, "li", {"class": state})
            lead_to_page(night, row["_table_row_link_path"], "×" if state == "failed" else "✓")
            night[0].set("title", f"{readable(str(row['run_name']))}: {state}")


def _run(parent: Element, name: str, rows: Rows) -> None:
    """Add the results of one run in the order of their making, what failed before the others."""
    whole = "failed" if any(_state(row) == "failed" for row in rows) else "passed"
    run = SubElement(parent, "article", {"class": whole})
    say(SubElement(run, "h3"), readable(name))
    items = SubElement(run, "ul", {"class": "results"})
    for row in sorted(reversed(rows), key=_state):
        item = SubElement(items, "li", {"class": _state(row)})
        say_state(item, _state(row))
        lead_to_page(item, row["_table_row_link_path"], _shard(row))
        say(SubElement(item, "small"), row["run_time"])
