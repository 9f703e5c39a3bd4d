"""What people see: rows that are read, tables in pipes and on terminals, names that are near."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.main import get_command

from strata.cli.app import main, whole
from strata.cli.entries import ENTRIES, PANELS
from strata.cli.explained import explain_tables
from strata.cli.tables import Table, pairs, rows, write_tables
from strata.cli.visible import visible
from tests.unit.cli.test_commands import Cli

EVIL = "\x1b[31mred\x1b]0;title\x07\r\t\x9b2J\u202eend\n[bold]markup[/]"


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    cli.create()
    return cli


def fill(cli: Cli, rows: int = 30, kind: str = "a") -> None:
    cli.ingest(0, *(json.dumps({"id": n, "kind": kind, "payload": {"n": n}}) for n in range(rows)))


def harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def on_terminal(*words: str, columns: int = 100) -> str:
    """Run a command on a terminal of its own and return what it would show."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "strata.cli.app", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the terminal is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


# ---------------------------------------------------------------------------- rows of a read


def test_read_shows_the_first_rows_and_says_that_there_are_more(cli: Cli) -> None:
    fill(cli)
    code, out, err = cli.run("read", "events")
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert lines[0] == ["id", "kind", "payload", "t", "d"]
    assert lines[1] == ["0", "a", '{"n":0}', "1970-01-01T00:00:00.999Z", "1"]
    assert len(lines) == 21
    assert "the first 20 rows, --limit 0 shows all" in err
    assert "1 of 1 part," in err


@pytest.mark.parametrize(
    ("words", "count"), [((), 20), (("--limit", "3"), 3), (("--limit", "0"), 30)]
)
def test_a_limit_is_kept_and_none_shows_all(cli: Cli, words: tuple[str, ...], count: int) -> None:
    fill(cli)
    _, out, err = cli.run("read", "events", *words)
    assert len(out.splitlines()) == count + 1
    assert ("shows all" in err) == (count < 30)


def test_exactly_as_many_rows_as_the_limit_are_all_rows(cli: Cli) -> None:
    fill(cli, 20)
    _, out, err = cli.run("read", "events")
    assert len(out.splitlines()) == 21
    assert "shows all" not in err
    assert "20 rows;" in err


def test_rows_come_as_csv_and_json(cli: Cli) -> None:
    fill(cli, 3, kind='say "hi",\nthere')
    _, out, _ = cli.run("read", "events", "--format", "csv", "--columns", "id,kind")
    assert list(csv.reader(io.StringIO(out)))[:2] == [
        ["id", "kind", "t", "d"],
        ["0", 'say "hi",\nthere', "1970-01-01T00:00:00.999Z", "1"],
    ]
    _, out, _ = cli.run("read", "events", "--format", "json", "--limit", "2")
    assert [json.loads(line)["id"] for line in out.splitlines()] == [0, 1]


def test_null_and_the_empty_text_are_two_values_of_csv(cli: Cli) -> None:
    """A source of CSV takes an empty field, and NA, for null where they are not quoted."""
    kinds: list[str | None] = ["", None, "NA", 'NA,"', "\r"]
    cli.ingest(0, *(json.dumps({"id": n, "kind": kind}) for n, kind in enumerate(kinds)))
    _, out, _ = cli.run("read", "events", "--format", "csv", "--columns", "id,kind")
    fields = [line.split(",", 1)[1].rsplit(",", 2)[0] for line in out.split("\n")[1:-1]]
    assert fields == ['""', "", '"NA"', '"NA,"""', '"\r"']
    found = [row[1] for row in csv.reader(io.StringIO(out, newline=""))][1:]
    assert found == [kind or "" for kind in kinds]


def test_rows_come_as_parquet_and_arrow_through_a_pipe(cli: Cli) -> None:
    fill(cli, 3)
    found = {}
    for kind in ("parquet", "arrow"):
        words = ("read", "events", "--format", kind, "--config", str(cli.config))
        command = [sys.executable, "-m", "strata.cli.app", *words]
        found[kind] = subprocess.run(command, capture_output=True, check=True).stdout
    parquet = pq.read_table(io.BytesIO(found["parquet"]))
    assert parquet.column_names == ["id", "kind", "payload", "t", "d"]
    assert pa.ipc.open_stream(found["arrow"]).read_all().equals(parquet)


def test_a_spreadsheet_gets_no_formulas_and_csv_has_each_text_as_it_is(cli: Cli) -> None:
    texts = [
        "=cmd|'/c calc'!A0",
        "+1",
        "@SUM(A1)",
        " =1",
        "\t=1",
        "-2+3",
        "\uff1d1",
        "-",
        "a=b",
        "-5",
    ]
    lines = [json.dumps({"id": n, "kind": text, "payload": {}}) for n, text in enumerate(texts)]
    cli.ingest(0, *lines)
    found = {}
    for form in ("csv", "spreadsheet"):
        _, out, _ = cli.run("read", "events", "--format", form, "--columns", "id,kind")
        found[form] = {int(row[0]): row[1] for row in list(csv.reader(io.StringIO(out)))[1:]}
    assert list(found["csv"].values()) == [texts[n] for n in found["csv"]]
    kept = {"+1", "a=b", "-5"}
    assert found["spreadsheet"] == {
        n: text if text in kept else f"'{text}" for n, text in enumerate(texts)
    }


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.arrow", "rows.parquet", "rows"])
def test_a_file_has_the_form_of_its_name(cli: Cli, name: str) -> None:
    fill(cli, 3)
    out = cli.root / name
    assert cli.json("read", "events", "--out", str(out))["rows"] == 3
    if name.endswith("csv"):
        assert out.read_text().startswith("id,kind,payload,t,d\n")
    elif name.endswith("jsonl"):
        assert json.loads(out.read_text().splitlines()[2])["payload"] == '{"n":2}'
    elif name.endswith("arrow"):
        assert pa.ipc.open_stream(out.read_bytes()).read_all().num_rows == 3
    else:
        assert pq.read_table(out).num_rows == 3
    assert [file.name for file in cli.root.glob(".*.part")] == []


def test_count_prints_one_number_and_json_keeps_its_shape(cli: Cli) -> None:
    fill(cli)
    assert cli.run("read", "events", "--count")[1] == "30\n"
    found = cli.json("read", "events")
    assert found["rows"] == 30
    assert set(found) == {
        "rows",
        "parts_fetched",
        "parts_skipped",
        "bytes_fetched",
        "bytes_skipped",
        "as_of",
        "mode",
        "monotonic",
        "out",
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "cvs"), "did you mean 'csv'"),
        (("--format", "csv", "--json"), "drop --json"),
        (("--count", "--format", "csv"), "drop --format"),
        (("--format", "table", "--out", "x"), "csv, spreadsheet, json, parquet or arrow"),
    ],
)
def test_what_does_not_go_together_is_refused(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, out, err = cli.run("read", "events", *words)
    assert (code, out) == (2, "")
    assert said in err


# ---------------------------------------------------------------------------- hostile values


def test_values_cannot_steer_a_terminal_nor_break_a_table(cli: Cli) -> None:
    fill(cli, 2, kind=EVIL)
    _, out, err = cli.run("read", "events", "--columns", "kind")
    assert harmless(out + err)
    assert [len(line.split("\t")) for line in out.splitlines()] == [3, 3, 3]
    for words in ((), ("--format", "csv"), ("--format", "json")):
        shown = on_terminal("read", "events", *words, "--config", str(cli.config))
        assert harmless(shown), words
        assert "red" in shown
    folded = on_terminal("read", "events", "--config", str(cli.config))
    assert "[bold]markup[/]" in re.sub(r" *\r?\n +", "", folded)


def test_json_that_is_made_harmless_is_the_same_json(cli: Cli) -> None:
    fill(cli, 1, kind=EVIL + "\U000e0001é")
    shown = on_terminal("read", "events", "--format", "json", "--config", str(cli.config))
    assert harmless(shown)
    assert json.loads(shown)["kind"] == EVIL + "\U000e0001é"


def test_an_error_cannot_steer_a_terminal_either(cli: Cli) -> None:
    code, _, err = cli.run("read", f"ev{EVIL}ents")
    assert code == 2
    assert harmless(err)


def test_only_what_is_printable_stays() -> None:
    assert visible("naïve – 日本 ✓") == "naïve – 日本 ✓"
    assert visible("a\x00\x7f\x85\ud800\u200b") == r"a\u0000\u007f\u0085\ud800\u200b"


# ---------------------------------------------------------------------------- tables


def test_a_pipe_gets_whole_names_and_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a_shard_whose_name_is_longer_than_any_column_would_be_" * 3
    items = [{"shard": name, "bytes": 1234567, "upper": 0, "ok": True, "none": None}]
    write_tables([rows("shards", items, ("shard", "bytes", "upper", "ok", "none"))])
    head, line = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["shard", "bytes", "upper", "ok", "none"]
    assert line.split("\t") == [name, "1234567", "1970-01-01T00:00:00Z", "yes", ""]


def test_empty_tables_are_left_out_of_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    empty = rows("nothing", [], ("a", "b"))
    write_tables([empty, pairs("some", {"x": 1, "list": [1]}), rows("more", [{"a": 2}], ("a",))])
    assert capsys.readouterr().out == "# some\nx\t1\n\n# more\na\n2\n"
    write_tables([empty])
    assert capsys.readouterr().out == "a\tb\n"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_terminal_of_any_width_shows_whole_names(cli: Cli, columns: int) -> None:
    fill(cli)
    shown = on_terminal("shards", "--config", str(cli.config), columns=columns)
    for word in ("events", "beginning", "1970-01-01T00:00:01Z", "parts", "off"):
        assert word in shown
    assert "…" not in shown


def test_values_of_rows_are_not_taken_for_times_or_sizes() -> None:
    table = Table("", ("upper", "bytes"), ((1234, 4096),), data=True)
    assert list(table.cells(drawn=True)) == [["1234", "4096"]]
    named = Table("", ("upper", "bytes"), ((1234, 4096),))
    assert list(named.cells(drawn=True)) == [["1970-01-01T00:00:01.234Z", "4.0 KiB"]]


# ---------------------------------------------------------------------------- names that are near


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("inspect", "evnets"), "did you mean 'events'?"),
        (("read", "events", "--columns", "kidn"), "did you mean 'kind'"),
        (("gc", "plan", "event"), "did you mean 'events'?"),
        (("schema", "add", "events", "x", "itn32"), "did you mean 'int32'"),
        (("validate", "events", "--part", "ffff"), "no such part"),
    ],
)
def test_a_misspelt_name_is_cured_by_the_nearest(
    cli: Cli, words: tuple[str, ...], near: str
) -> None:
    fill(cli)
    code, _, err = cli.run(*words)
    assert code == 2
    assert near in err


def test_a_misspelt_variable_is_cured_by_its_section(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA__STORE__BLBO", "x")
    _, _, err = cli.run("shards")
    assert "did you mean 'STRATA__STORE__BLOB'" in err
    assert "STRATA__SPARK" not in err


@pytest.mark.parametrize(
    ("words", "near"), [(["reed"], "'read'"), (["read", "events", "--wehre", "x"], "--where")]
)
def test_a_misspelt_command_or_option_is_cured(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert near in capsys.readouterr().err


# ---------------------------------------------------------------------------- the command itself


def test_the_help_needs_no_engine() -> None:
    code = (
        "import sys; from strata.cli.app import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pyarrow', 'sqlalchemy', 'pyspark', 'numba'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    for words in (["--help"], ["--version"], ["reed"], []):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == "" or "Usage" in done.stdout


def test_the_help_is_that_of_the_commands() -> None:
    for name, command in get_command(whole()).commands.items():
        assert ENTRIES[name].help == (command.help or "").partition("\n\n")[0], name
    assert list(ENTRIES) == [name for names in PANELS.values() for name in names]
    assert set(get_command(whole()).commands) == set(ENTRIES)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("strata 0.")


def completed(cli: Cli, typed: str) -> list[str]:
    """Return what bash proposes for a half-typed line."""
    words = typed.split(" ")
    env = {
        **os.environ,
        "_STRATA_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
        "STRATA_CONFIG": str(cli.config),
    }
    code = "from strata.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv=['strata']; {code}"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_shell_completes_commands_shards_and_columns(cli: Cli) -> None:
    assert completed(cli, "strata ins") == ["inspect"]
    assert completed(cli, "strata inspect ev") == ["events"]
    assert completed(cli, "strata gc plan ev") == ["events"]
    assert completed(cli, "strata read events --columns id,k") == ["id,kind"]
    assert completed(cli, "strata read events --columns id,") == ["id,kind", "id,payload"]
    assert completed(cli, "strata schema drop events pay") == ["payload"]
    assert completed(cli, "strata inspect nothing") == []


def test_a_part_may_be_named_by_its_first_digits(cli: Cli) -> None:
    fill(cli)
    key = cli.json("stats", "show", "events")["statistics"][0]["part"]
    _, out, _ = cli.run("stats", "show", "events")
    short = out.split("by part\n")[1].splitlines()[1].split("\t")[0]
    assert len(short) == 8
    assert f"/{short}" in key
    shown = cli.json("stats", "show", "events", "--part", short)["statistics"]
    assert {one["part"] for one in shown} == {key}


def test_reading_without_a_store_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRATA_CONFIG", raising=False)
    for words in ("shards", "read x", "inspect x", "rollout show x", "history x", "gc plan"):
        with pytest.raises(SystemExit):
            main(words.split())
    assert list(tmp_path.iterdir()) == []
    assert "no settings file" in capsys.readouterr().err


def test_a_time_in_an_error_is_iso(cli: Cli) -> None:
    fill(cli)
    code, _, err = cli.run("read", "events", "--as-of", "1357344000000")
    assert code == 2
    assert "as_of=2013-01-05T00:00:00Z" in err


def test_missing_java_is_named_with_its_cure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything of Spark starts, in every command that needs it."""
    fill(cli)
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    for words in (
        ("read", "events", "--where", "id * 2 = 2"),
        ("explain", "events", "--where", "id * 2 = 2"),
        ("validate", "events", "--filter", "id > 1"),
    ):
        code, out, err = cli.run(*words)
        assert (code, out) == (2, "")
        assert "a filter needs Spark, and Spark needs Java" in err
        assert "install Java 17" in err
        assert len(err.splitlines()) == 1


def test_equal_reasons_of_parts_are_shown_once() -> None:
    def part(number: int, reason: str, **more: object) -> dict[str, object]:
        return {
            "key": f"shards/s/parts/{number:040x}.parquet",
            "verdict": "skip",
            "level": "part",
            "cause": "proven",
            "expression": "id > 9",
            "help": "",
            "rows": 1,
            "bytes": 10,
            "row_groups": None,
            "reason": reason,
            **more,
        }

    text = "skipped: id > 9 is never true"
    parts = [part(n, f"{text} (id in [0, {n}])") for n in range(3)]
    parts.append(part(3, "kept: id > 9 may be true", verdict="keep", cause="overlap"))
    document = {
        "filter": "id > 9",
        "as_of": 0,
        "parts_total": 4,
        "parts_kept": 1,
        "bytes_total": 40,
        "bytes_kept": 10,
        "levels": [],
        "row_groups": [],
        "kept_because": [],
        "skipped_because": [],
        "static": {"could_skip": True},
        "parts": parts,
    }
    why, listed = (t for t in explain_tables(document)[-2:] if isinstance(t, Table))
    assert [(line[0], line[2], line[4]) for line in why.lines] == [
        (1, 3, text),
        (2, 1, "kept: id > 9 may be true"),
    ]
    at = listed.columns.index("ranges")
    assert [line[at] for line in listed.lines] == [
        "(id in [0, 0])",
        "(id in [0, 1])",
        "(id in [0, 2])",
        "",
    ]
    assert len({line[0] for line in listed.lines}) == 4  # names are long enough to differ


def test_a_rollout_is_shown_for_people(cli: Cli) -> None:
    cli.json("rollout", "request", "events", "--reason", "why not", "--by", "ann", "--to", "soft")
    _, out, _ = cli.run("rollout", "show", "events")
    asked = cli.json("rollout", "show", "events")["request"]
    assert "ladder\t[off] → soft → audit → on" in out
    assert f"approve\tstrata rollout approve events --request {asked['id']} --reason WHY" in out
    assert "expires\t20" in out
    assert "{" not in out


def test_a_pipe_that_closes_early_ends_the_command_in_silence(cli: Cli) -> None:
    fill(cli, 5000)
    words = f"{sys.executable} -m strata.cli.app read events --limit 0 --config {cli.config}"
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -1"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "id\tkind\tpayload\tt\td\n"
    assert "Error" not in done.stderr


def test_a_report_is_one_file_that_needs_no_spark(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cli)
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    out = cli.root / "deep/events.html"
    assert cli.json("report", "events", "--out", str(out))["bytes"] == out.stat().st_size
    page = out.read_text()
    assert page.startswith("<!doctype html>")
    assert "http://" not in page
    assert "https://" not in page
    assert [file.name for file in out.parent.iterdir()] == ["events.html"]
    code, _, err = cli.run("report", "events", "--out", str(out), "--where", "id * 2 = 2")
    assert (code, "Spark needs Java" in err) == (2, True)


def test_the_console_is_served_to_whoever_has_its_address(cli: Cli) -> None:
    fill(cli)
    command = [sys.executable, "-m", "strata.cli.app", "ui", "--config", str(cli.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[1]
        assert address.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = opener.open(address, timeout=30).read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address.partition("?")[0], timeout=30)
        process.terminate()
    assert "/shards/events" in page


def drawn(monkeypatch: pytest.MonkeyPatch, *tables: Table, columns: int = 80) -> str:
    """Return what a terminal shows of tables."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", shown)
    write_tables(tables)
    return shown.getvalue()


def test_wide_characters_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "東京都千代田区霞が関一丁目",
        "大阪府大阪市北区中之島終",
        "日本語の長い文字列完",
        "👩🎉" * 6,
    )
    shown = drawn(monkeypatch, Table("", ("one", "two", "three", "four"), (words,), data=True))
    for word in words:
        assert word in shown


def test_a_long_name_leaves_room_for_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a_column_name_" * 9 + "end"
    block = Table("", ("id", name, "c"), (("first", "second", "x" * 60),), data=True)
    shown = drawn(monkeypatch, block, Table("", ("name", "value"), ((name, "third"),), head=False))
    for value in ("first", "second", "third"):
        assert value in shown
    assert "…" not in shown


def test_a_title_is_not_folded_to_the_width_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = drawn(monkeypatch, Table("evidence of all filters", ("a",), (("1",),)))
    assert shown.splitlines()[0].rstrip() == "evidence of all filters"


def test_bounds_are_values_and_no_counts(cli: Cli) -> None:
    row = json.dumps({"id": 73_967_600_000, "kind": "a", "payload": {"n": 1}})
    cli.ingest(0, row)
    shown = on_terminal("stats", "show", "events", "--config", str(cli.config), columns=200)
    assert "73967600000" in shown
    assert "73,967,600,000" not in shown


def test_what_there_is_none_of_is_named(cli: Cli) -> None:
    for words, said in (
        (("consumers", "events"), "consumers: none"),
        (("erasures", "events"), "certificates of events: none"),
    ):
        assert said in on_terminal(*words, "--config", str(cli.config))


def test_settings_are_shown_as_their_file_has_them(cli: Cli) -> None:
    _, out, _ = cli.run("settings")
    given = dict(line.split("\t")[:2] for line in out.splitlines())
    assert given["rollout.kill"] == "false"
    assert given["usage.log"] == "true"
    assert given["rollout.audit_parts"] == ""
