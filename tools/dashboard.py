"""Grafana's dashboard of Strata's figures, made from the panels below.

    python -m tools.dashboard        write config/monitoring/grafana.json

Names are those that Prometheus gives to the figures of docs/reference/metrics.md. A test compares
the file with what is made now, and each name with what the engine sends.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).resolve().parents[1] / "config" / "monitoring" / "grafana.json"
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
SOME: Final = 'shard=~"$shard"'
COLUMNS: Final = 24  # of Grafana's grid
NIGHT: Final = "26h"  # a validation or an ingest is due each day


@dataclass(frozen=True)
class Panel:
    """A chart, or a number if it is `stat`; each query has the text of its legend."""

    title: str
    says: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    stat: bool = False
    stacked: bool = False
    wrong_above: float | None = None  # red from there on


def _sum(name: str, by: str, over: str = "$__rate_interval") -> str:
    return f"sum by ({by}) (rate({name}{{{SOME}}}[{over}]))"


def _slow(name: str, by: str) -> str:
    """Return the 95th percentile of a timer over an hour."""
    return f"histogram_quantile(0.95, sum by (le, {by}) (increase({name}_bucket{{{SOME}}}[1h])))"


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Does a person have to look": (
        Panel(
            "Mismatches",
            "Skips that would have lost rows, in the last night of each shard.",
            ((f"sum(last_over_time(strata_validate_mismatches{{{SOME}}}[{NIGHT}]))", ""),),
            stat=True,
            wrong_above=1,
        ),
        Panel(
            "Checks that could not be made",
            "Errors and missing parts of the last night.",
            (
                (
                    f"sum(last_over_time(strata_validate_errors{{{SOME}}}[{NIGHT}]))"
                    f" + sum(last_over_time(strata_validate_missing{{{SOME}}}[{NIGHT}]))",
                    "",
                ),
            ),
            stat=True,
            wrong_above=1,
        ),
        Panel(
            "Operations that failed in a day",
            "strata history SHARD has the error of each.",
            (
                (
                    "sum(increase(strata_operation_count_total"
                    f'{{{SOME},outcome=~"failed|bad request|mismatch"}}[1d]))',
                    "",
                ),
            ),
            stat=True,
            wrong_above=1,
        ),
        Panel(
            "Parts without statistics",
            "No read can skip them: strata stats backfill SHARD.",
            ((f"sum(last_over_time(strata_shard_parts_without_stats{{{SOME}}}[{NIGHT}]))", ""),),
            stat=True,
            wrong_above=1,
        ),
        Panel(
            "Rows rejected",
            "By the last ingest of each shard: strata quarantine show SHARD.",
            ((f"sum(last_over_time(strata_ingest_rejected{{{SOME}}}[{NIGHT}]))", ""),),
            stat=True,
            wrong_above=1,
        ),
    ),
    "What skipping saves": (
        Panel(
            "Share of the bytes that reads skip",
            "Of what the reads of each shard would have fetched without a filter.",
            (
                (
                    f"{_sum('strata_read_bytes_skipped_total', 'shard', '1h')} / "
                    f"({_sum('strata_read_bytes_skipped_total', 'shard', '1h')} + "
                    f"{_sum('strata_read_bytes_fetched_total', 'shard', '1h')})",
                    "{{shard}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Bytes of reads",
            "Fetched, skipped, and fetched although a filter rules them out: what soft evaluation "
            "costs, and the samples of a shard in audit.",
            tuple(
                (
                    f"sum(rate(strata_read_bytes_{what}_total{{{SOME}}}[$__rate_interval]))",
                    what,
                )
                for what in ("fetched", "skipped", "audited")
            ),
            unit="Bps",
            stacked=True,
        ),
        Panel(
            "Reads by mode",
            "A shard that falls to `off` was tripped, or code changed.",
            ((_sum("strata_read_reads_total", "shard, mode"), "{{shard}} {{mode}}"),),
            unit="reqps",
        ),
        Panel(
            "Until the first row, 95 of 100 reads",
            "Rises with the runs that a read merges, and with a slow store.",
            ((_slow("strata_read_first_row_seconds", "shard"), "{{shard}}"),),
            unit="s",
        ),
    ),
    "What jobs do": (
        Panel(
            "Seconds of operations, 95 of 100",
            "Of one shard, without the start of Spark.",
            ((_slow("strata_operation_seconds", "what"), "{{what}}"),),
            unit="s",
        ),
        Panel(
            "Outcomes",
            "Operations in an hour.",
            (
                (
                    "sum by (what, outcome) "
                    f"(increase(strata_operation_count_total{{{SOME}}}[1h]))",
                    "{{what}} {{outcome}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Rows of operations",
            "Rows a second that were ingested, compacted, validated.",
            ((_sum("strata_operation_rows_total", "what"), "{{what}}"),),
            unit="rowsps",
        ),
        Panel(
            "Collecting statistics",
            "Seconds in an hour.",
            (
                (
                    f"sum by (what) (increase(strata_stats_seconds_sum{{{SOME}}}[1h]))",
                    "{{what}}",
                ),
            ),
            unit="s",
        ),
    ),
    "What is stored": (
        Panel(
            "Bytes",
            "Of the parts of each shard.",
            ((f"max by (shard) (last_over_time(strata_shard_bytes{{{SOME}}}[1d]))", "{{shard}}"),),
            unit="bytes",
            stacked=True,
        ),
        Panel(
            "Parts",
            "Many small ones cost plans and reads: strata compact SHARD --plan.",
            ((f"max by (shard) (last_over_time(strata_shard_parts{{{SOME}}}[1d]))", "{{shard}}"),),
            stacked=True,
        ),
        Panel(
            "Statistics beside data",
            "Bytes of statistics as a share of the parts' bytes.",
            (
                (
                    f"max by (shard) (last_over_time(strata_shard_stats_bytes{{{SOME}}}[1d]))"
                    f" / max by (shard) (last_over_time(strata_shard_bytes{{{SOME}}}[1d]))",
                    "{{shard}}",
                ),
            ),
            unit="percentunit",
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "strata",
        "title": "Strata",
        "tags": ["strata"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                },
                {
                    "name": "shard",
                    "label": "Shard",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(strata_shard_parts, shard)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                    "sort": 1,
                },
            ]
        },
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    top, number = 0, 1
    for title, panels in ROWS.items():
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        top, number = top + 1, number + 1
        high = 4 if panels[0].stat else 8
        wide = COLUMNS // len(panels)
        for place, panel in enumerate(panels):
            at = {"x": place * wide, "y": top, "w": wide, "h": high}
            yield {"id": number, "gridPos": at, **_panel(panel)}
            number += 1
        top += high


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.wrong_above is not None:
        steps.append({"color": "red", "value": panel.wrong_above})
    shown: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "thresholds" if panel.stat else "palette-classic"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    if panel.unit == "percentunit":
        shown["max"] = 1
    if not panel.stat:
        stacked = "normal" if panel.stacked else "none"
        shown["custom"] = {"fillOpacity": 10, "stacking": {"mode": stacked, "group": "A"}}
        options = {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": shown, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(65 + n), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for n, (query, legend) in enumerate(panel.queries)
        ],
    }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
