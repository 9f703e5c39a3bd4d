"""The command line keeps its JSON, its exit codes, and says what to do about errors."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from strata.cli.app import main
from strata.cli.visible import shown_error
from strata.errors import InvalidRequest

SPEC = """
name: events
columns:
  - {name: id, type: int64, nullable: false}
  - {name: kind, type: string}
  - {name: payload, type: jsonb}
key: [id]
source: {format: jsonl}
"""


class Cli:
    """One user's settings, and the command as that user runs it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        self.config = root / "strata.toml"
        self.config.write_text(
            f'filters_dir = "{root}/filters"\n[store]\nblob = "file://{root}/blob"\n'
            f'consensus = "sqlite:///{root}/consensus.db"\nlanding = "{root}"\n'
        )
        (root / "events.yaml").write_text(SPEC)

    def file(self, name: str, *lines: str) -> str:
        path = self.root / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    def run(self, *words: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = 0
        try:
            main([*words, "--config", str(self.config)])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self.capsys.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def create(self) -> None:
        self.json("create", "events", "--spec", str(self.root / "events.yaml"))

    def ingest(self, lower: int, *lines: str) -> Any:
        file = self.file(f"in-{lower}.jsonl", *lines)
        bounds = ("--lower", str(lower), "--upper", str(lower + 1000))
        return self.json("ingest", "events", "--from", file, *bounds)


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def test_a_new_shard_is_empty_and_creating_it_again_changes_nothing(cli: Cli) -> None:
    cli.create()
    cli.create()

    found = cli.json("inspect", "events")
    assert found["since"] == found["upper"]
    assert (found["seqno"], found["batches"], found["parts"]) == (1, [], 0)
    assert found["rollout"]["mode"] == "off"


def test_what_is_declared_is_listed_before_it_exists(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest that is told of no shard takes these, and Airflow cuts them into groups."""
    (cli.root / "shards").mkdir()
    for name in ("later", "events"):
        text = SPEC.replace("name: events", f"name: {name}")
        (cli.root / "shards" / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("STRATA__SHARDS_DIR", str(cli.root / "shards"))
    cli.create()
    cli.ingest(0, '{"id": 1}')
    declared = cli.json("shards", "--declared")["shards"]
    assert [one["shard"] for one in declared] == ["events", "later"]
    assert declared[0]["bytes"] > declared[1]["bytes"] == 0
    assert [one["shard"] for one in cli.json("shards")["shards"]] == ["events"]


def test_ingest_creates_a_shard_that_is_declared(cli: Cli) -> None:
    (cli.root / "shards").mkdir()
    (cli.root / "shards/events.yaml").write_text(SPEC)
    cli.config.write_text(f'shards_dir = "{cli.root}/shards"\n{cli.config.read_text()}')

    assert cli.ingest(0, '{"id": 1, "kind": "a"}')["updates"] == 1


def test_ingest_reports_what_it_committed_and_knows_it_the_second_time(cli: Cli) -> None:
    cli.create()

    first = cli.ingest(0, '{"id": 1, "kind": "a"}', '{"id": 2, "kind": null}')
    again = cli.ingest(0, '{"id": 1, "kind": "a"}', '{"id": 2, "kind": null}')

    assert {k: first[k] for k in ("shard", "seqno", "lower", "upper", "updates", "rejected")} == {
        "shard": "events",
        "seqno": 2,
        "lower": 0,
        "upper": 1000,
        "updates": 2,
        "rejected": 0,
    }
    assert (first["parts"], first["already_committed"]) == (1, False)
    assert first["bytes"] > 0
    assert (again["already_committed"], again["seqno"]) == (True, 2)


def test_nothing_new_is_said_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path, capsys)
    cli.create()
    file = cli.file("in.jsonl", '{"id": 1}')
    said = {}
    for lower in (1000, 2000, 1000):
        bounds = ("--lower", str(lower), "--upper", str(lower + 1000))
        said[lower] = cli.run("ingest", "events", "--from", file, *bounds)[2]
    assert "1 file taken in before; once more: --again" in said[2000]
    assert "this interval is already committed" in said[1000]


def test_read_writes_columns_then_t_and_d(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, '{"id": 2, "kind": "b"}', '{"id": 1, "kind": "a", "payload": {"x": [1]}}')
    cli.ingest(1000, '{"id": 3}')
    out = cli.root / "out.parquet"

    found = cli.json("read", "events", "--out", str(out))
    old = cli.json("read", "events", "--as-of", "999", "--columns", "kind")

    assert (found["rows"], found["parts_fetched"], found["parts_skipped"]) == (3, 2, 0)
    table = pq.read_table(out)
    assert table.column_names == ["id", "kind", "payload", "t", "d"]
    assert sorted(table["id"].to_pylist()) == [1, 2, 3]
    assert set(table["t"].to_pylist()) == {1999}
    assert (old["rows"], old["as_of"]) == (2, 999)


def test_compaction_merges_what_it_planned(cli: Cli) -> None:
    cli.create()
    for lower in range(0, 4000, 1000):
        cli.ingest(lower, f'{{"id": {lower}, "kind": "k"}}')

    planned = cli.json("compact", "events", "--plan", "--full")
    done = cli.json("compact", "events", "--full")

    names = ("lower", "upper", "since", "runs", "bytes", "reason")
    assert [{n: r[n] for n in names} for r in planned["requests"]] == [
        {n: r[n] for n in names} for r in done["requests"]
    ]
    assert planned["applied"] == 0
    assert (done["applied"], done["updates_in"], done["updates_out"]) == (1, 4, 4)
    assert [len(b["runs"]) for b in cli.json("inspect", "events")["batches"]] == [1]
    assert cli.json("read", "events")["rows"] == 4


def test_statistics_are_backfilled_and_trimmed(cli: Cli) -> None:
    cli.create()
    file = cli.file("old.jsonl", '{"id": 1, "kind": "a"}', '{"id": 2, "kind": "b"}')
    cli.json(
        "ingest", "events", "--from", file, "--write-format", "row", "--upper", "9", "--lower", "0"
    )
    assert cli.json("inspect", "events")["stats"] == {"parts_with": 0, "bytes": 0}

    dry = cli.json("stats", "backfill", "events", "--dry-run")
    done = cli.json("stats", "backfill", "events")
    again = cli.json("stats", "backfill", "events")
    shown = cli.json("stats", "show", "events")
    trimmed = cli.json("stats", "trim", "events", "--budget", "0")

    assert (dry["parts_selected"], dry["parts_changed"]) == (1, 0)
    assert (done["parts_selected"], done["parts_changed"]) == (1, 1)
    assert again["parts_selected"] == 0
    ids = [s["statistics"] for s in shown["statistics"] if s["column"] == "id"]
    assert [(s["low"], s["high"]) for s in ids] == [(1, 2)]
    assert trimmed["stats_bytes_after"] < trimmed["stats_bytes_before"]


def test_statistics_are_chosen_and_their_cost_told(cli: Cli) -> None:
    cli.create()
    for lower in (0, 1000):
        file = cli.file(f"old-{lower}.jsonl", f'{{"id": {lower}, "kind": "a", "payload": {{}}}}')
        bounds = ("--lower", str(lower), "--upper", str(lower + 1000))
        cli.json("ingest", "events", "--from", file, "--write-format", "row", *bounds)

    dry = cli.json("stats", "backfill", "events", "--dry-run")
    _, told, _ = cli.run("stats", "backfill", "events", "--dry-run")
    named = cli.json("stats", "backfill", "events", "--columns", "kind,1", "--from", "1000")
    shown = cli.json("stats", "show", "events")
    limited = cli.json("stats", "backfill", "events", "--max-parts", "1", "--version", "1")
    code, _, err = cli.run("stats", "backfill", "events", "--version", "99")

    assert {"parts_selected", "parts_changed", "stats_bytes_before", "stats_bytes_after"} <= set(
        dry
    )
    assert (dry["parts_selected"], dry["requests"], dry["seconds"]) == (2, 2, None)
    assert named["parts_changed"] == 1
    assert [(s["column"], s["version"]) for s in shown["statistics"]] == [("id", 0), ("kind", 0)]
    assert limited["parts_changed"] == 1
    assert (code, "no such version" in err) == (2, True)
    assert "unknown" in told


def test_trimming_says_what_it_costs(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, *(f'{{"id": {n}, "kind": "kind {n}"}}' for n in range(9)))

    found = cli.json("stats", "trim", "events", "--budget", "0", "--columns", "kind")

    assert (found["parts_changed"], found["filters"]) == (1, [])
    assert [(c["column"], c["parts"], c["dropped"]) for c in found["columns"]] == [("kind", 1, 1)]
    code, out, _ = cli.run("stats", "trim", "events", "--budget", "0", "--dry-run")
    assert (code, "dropped" in out) == (0, True)


def test_history_and_shards_tell_what_happened(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, '{"id": 1}')

    assert [entry["seqno"] for entry in cli.json("history", "events")["history"]] == [2, 1]
    changed = [entry["changed"] for entry in cli.json("history", "events")["history"]]
    assert changed == ["1 update before 1970-01-01T00:00:01Z", "created"]
    assert [e["changed"] for e in cli.json("history", "events", "--limit", "1")["history"]] == [
        changed[0]
    ]
    [line] = cli.json("shards")["shards"]
    assert (line["shard"], line["updates"], line["upper"]) == ("events", 1, 1000)


def test_history_shows_why_an_operation_failed(cli: Cli) -> None:
    cli.create()
    assert cli.run("ingest", "events", "--from", "missing.jsonl")[0] == 2
    _, out, _ = cli.run("history", "events")
    head, *lines = (line.split("\t") for line in out.split("\n\n")[0].splitlines()[1:])
    failed = next(line for line in lines if "ingest" in line)
    assert "missing.jsonl" in failed[head.index("error")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "events"), "events.yaml"),
        (("create", "nobody"), "look in "),
        (("inspect", "nobody"), "strata create nobody --infer PATH"),
        (("gc", "plan", "nobody"), "strata create nobody --infer PATH"),
        (("gc", "restore", "foo"), "a whole key, such as shards/NAME/parts/"),
    ],
)
def test_an_error_about_what_is_not_there_says_where_it_would_be(
    cli: Cli, words: tuple[str, ...], said: str
) -> None:
    folder = cli.root / "declared"
    folder.mkdir()
    (folder / "events.yaml").write_text(SPEC)
    cli.config.write_text(f'shards_dir = "{folder}"\n{cli.config.read_text()}')
    cli.run("ingest", "nobody")  # the journal of operations is no shard to name
    code, _, err = cli.run(*words)
    assert code == 2
    assert said in err


def test_statistics_by_column_come_before_those_by_part(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, '{"id": 1}')
    _, out, _ = cli.run("stats", "show", "events")
    titles = [line for line in out.splitlines() if line.startswith("# ")]
    assert titles == ["# what is known, by column", "# what is known, by part"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("inspect", "none"), "no such shard"),
        (("read", "events", "--as-of", "5000"), "as_of"),
        (("read", "events", "--as-of", "noon"), "noon"),
        (("read", "events", "--columns", "nope"), "nope"),
        (("read", "events", "--pushdown", "maybe"), "maybe"),
        (("ingest", "events", "--from", "missing.jsonl"), "missing.jsonl"),
        (("ingest", "events", "--lower", "0", "--upper", "5"), "source.paths"),
    ],
)
def test_a_bad_request_is_two_and_names_what_is_wrong(
    cli: Cli, words: tuple[str, ...], named: str
) -> None:
    cli.create()
    cli.ingest(0, '{"id": 1}')

    code, out, err = cli.run(*words)

    assert code == 2
    assert named in err
    assert "Traceback" not in err
    assert out == ""


def test_a_file_of_the_wrong_shape_commits_nothing(cli: Cli) -> None:
    cli.create()
    file = cli.file("bad.jsonl", '{"id": "one"}', '{"id": "two"}')

    code, _, err = cli.run("ingest", "events", "--from", file, "--lower", "0", "--upper", "9")

    assert code == 2
    assert all(word in err for word in ("bad.jsonl", "id", "one"))
    assert cli.json("inspect", "events")["seqno"] == 1


def test_tables_are_for_people(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, '{"id": 1}')

    code, out, _ = cli.run("inspect", "events")

    assert code == 0
    assert "1970-01-01T00:00:01Z" in out
    assert "beginning" in out


def test_a_source_that_is_tripped_is_shown_and_released(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.create()
    file = cli.file("x.jsonl", '{"id": 1, "kind": "a", "payload": 1}')
    with monkeypatch.context() as patched:
        patched.setattr("strata.ingest.twin.from_json", lambda value, kind: "another")
        code, _, err = cli.run("ingest", "events", "--from", file, "--lower", "0", "--upper", "9")
    assert (code, "would have been stored as another one" in err) == (1, True)

    shown = cli.json("source", "show", "events")["tripped"]
    assert (shown["file"], shown["line"], shown["column"]) == ("x.jsonl", 1, "id")
    assert (shown["source"], shown["stored"]) == ("'another'", "1")
    assert cli.run("ingest", "events", "--from", file)[0] == 1
    assert cli.run("source", "release", "events", "--reason", " ")[0] == 2
    assert cli.run("source", "release", "events", "--reason", "x", "--token", "other")[0] == 2

    done = cli.json("source", "release", "events", "--reason", "mended", "--by", "anna")
    assert (done["released"]["column"], done["by"]) == ("id", "anna")
    assert cli.json("source", "show", "events")["tripped"] is None
    assert cli.json("ingest", "events", "--from", file)["verified"] == 1


def test_rejected_rows_are_counted_behind_the_limit_and_asked_for_by_a_known_token(
    cli: Cli,
) -> None:
    cli.create()
    good = (f'{{"id": {n}, "kind": "a", "payload": {{}}}}' for n in range(3))
    token = cli.ingest(0, *good, *('{"id": "x", "kind": "a", "payload": {}}',) * 3)["token"]

    found = cli.json("quarantine", "show", "events", "--limit", "1", "--token", token)
    assert (found["rows"], len(found["rejected"])) == (3, 1)
    for command in ("show", "retry"):
        code, _, err = cli.run("quarantine", command, "events", "--token", f"{token}x")
        assert (code, "no batch of the shard has this token" in err, "cure" in err) == (
            2,
            True,
            True,
        )


def test_the_time_of_a_retraction_is_shown_as_a_time(cli: Cli) -> None:
    cli.create()
    cli.ingest(0, '{"id": 1, "kind": "a", "payload": {}}')

    found = cli.run("revert", "events", "0", "1000", "--dry-run")
    assert "at\t1970-01-01T00:00:01Z\n" in found[1]


def test_times_in_errors_are_shown_as_times() -> None:
    error = InvalidRequest("no", shard_upper=1000, first_lower=0, sink_position=2000, position=7)
    text = shown_error(error)

    assert "shard_upper=1970-01-01T00:00:01Z first_lower=1970-01-01T00:00:00Z" in text
    assert "sink_position=1970-01-01T00:00:02Z position=7" in text
