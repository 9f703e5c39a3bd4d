"""What a job says of its batches: new ones are counted, old ones named."""

from strata.ingest.counts import Counts
from strata.ingest.summary import line, summary_of, table
from strata.ingest.task import IngestReport

COUNTS = Counts(rows=8, rejected=1, files=4, late=2, stats_bytes=30, stats_ms=250.4)
NEW = IngestReport("s", 3, 0, 10, 7, 2, 900, False, counts=COUNTS, quarantine=("key",))
OLD = IngestReport(
    "s",
    2,
    -10,
    0,
    5,
    1,
    100,
    True,
    counts=Counts(rejected=9, taken_before=3),
    copies=(("x.csv", "a.csv"),),
)


def test_only_new_batches_are_counted() -> None:
    summary = summary_of("s", [OLD, NEW], 1.23456)

    assert summary == {
        "shard": "s", "batches": 1, "already_committed": 1, "files": 4, "updates": 7,
        "rejected": 1, "in_place": 0, "late": 2, "early": 0, "late_files": 0, "contradictions": 0,
        "passed": 0, "repeated": 0, "taken_before": 3, "changed": [], "copies": ["x.csv"],
        "undeclared": [], "defaulted": {}, "suppressed": 0, "verified": 0,
        "parts": 2,
        "bytes": 900, "lower": -10, "upper": 10, "seqno": 3, "seconds": 1.235,
        "quarantine": ["key"], "stats_bytes": 30, "stats_ms": 250,
    }  # fmt: skip


def test_a_job_without_steps_has_a_summary() -> None:
    assert summary_of("s", [], 0.0)["seqno"] is None


def test_lines_say_what_became_of_a_batch() -> None:
    assert line(OLD, 1, 2).endswith(
        "already committed, left alone, 1 files not taken, as their bytes are in under another name"
    )
    assert line(NEW, 2, 2) == (
        "s 2/2 1970-01-01T00:00:00Z: 7 updates in 2 parts from 4 files, 1 rows rejected, "
        "2 rows late"
    )


def test_a_table_has_a_line_for_each_shard() -> None:
    lines = table([summary_of("s", [NEW], 1.0), summary_of("longer", [], 0.5)]).splitlines()

    assert [text.split()[0] for text in lines] == ["shard", "s", "longer"]
    assert len({len(text) for text in lines}) == 1


def test_a_table_names_its_columns() -> None:
    header, row = table([summary_of("s", [NEW], 1.0)]).splitlines()

    assert header.split() == [
        "shard", "batches", "already_committed", "files", "updates", "rejected", "parts", "bytes",
        "seconds",
    ]  # fmt: skip
    assert row.split() == ["s", "1", "0", "4", "7", "1", "2", "900", "1.0"]
