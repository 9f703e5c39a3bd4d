"""`strata schema` changes columns, says what it would do, and refuses with the reason."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.test_commands import SPEC, Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    made = Cli(tmp_path, capsys)
    made.create()
    return made


def register_filter(cli: Cli, where: str) -> None:
    (cli.root / "filters").mkdir(exist_ok=True)
    (cli.root / "filters" / "one.yaml").write_text(f"shard: events\nname: one\nwhere: {where!r}\n")


def names(document: dict[str, Any]) -> list[str]:
    return [column["name"] for column in document["columns"]]


def test_each_change_makes_a_version(cli: Cli) -> None:
    cli.json("schema", "add", "events", "size", "int16", "--default", "3")
    cli.json("schema", "rename", "events", "size", "length")
    cli.json("schema", "widen", "events", "length", "int64")
    done = cli.json("schema", "drop", "events", "kind")

    assert (done["version_before"], done["version"], done["dry_run"]) == (3, 4, False)
    shown = cli.json("schema", "show", "events")
    assert names(shown) == ["id", "payload", "length"]
    assert shown["columns"][2] == {
        "id": 4,
        "name": "length",
        "type": "int64",
        "nullable": True,
        "default": 3,
        "role": "value",
    }
    assert [(c["id"], c["name"]) for c in shown["dropped"]] == [(2, "kind")]
    assert [v["changes"] for v in shown["versions"]] == [
        ["declared"],
        ["added size int16 (id 4, default 3)"],
        ["renamed size to length"],
        ["widened length from int16 to int64"],
        ["dropped kind (id 2)"],
    ]


def test_rows_that_are_there_have_the_default(cli: Cli) -> None:
    cli.ingest(1000, '{"id": 1, "kind": "a"}')
    cli.json("schema", "drop", "events", "kind")
    done = cli.json("schema", "add", "events", "kind", "string", "--default", "none")
    assert done["parts_older"] == 1

    out = cli.root / "out.parquet"
    cli.json("read", "events", "--out", str(out))

    assert pq.read_table(out).select(["id", "kind"]).to_pylist() == [{"id": 1, "kind": "none"}]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("interval", '{"days": 1, "micros": -1}', {"months": 0, "days": 1, "micros": -1}),
        ("interval day to second", "90000000", timedelta(seconds=90)),
        ("aclitem", '{"grantee": 1, "grantor": 2}', {"grantee": 1, "grantor": 2, "mode": 0}),
        ("list<numeric(38,20)>", '["0.12345678901234567891"]', [Decimal("0.12345678901234567891")]),
        (
            "timestamp",
            "2024-01-01T00:00:00.1234560",
            datetime.fromisoformat("2024-01-01T00:00:00.123456"),
        ),
        ("float32", "0.1", 0.10000000149011612),
    ],
)
def test_a_default_of_every_kind_may_be_typed(
    cli: Cli, kind: str, default: str, value: Any
) -> None:
    """Intervals and access rights were taken for texts, and refused."""
    cli.ingest(1000, '{"id": 1, "kind": "a"}')
    cli.json("schema", "add", "events", "x", kind, "--default", default)
    cli.json("read", "events", "--out", str(cli.root / "out.parquet"))
    assert pq.read_table(cli.root / "out.parquet")["x"].to_pylist() == [value]


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    done = cli.json("schema", "drop", "events", "kind", "--dry-run")

    assert (names(done), done["version"], done["dry_run"]) == (["id", "payload"], 1, True)
    assert cli.json("schema", "show", "events")["version"] == 0


def test_a_lost_race_exits_4_and_a_repetition_succeeds(cli: Cli) -> None:
    cli.json("schema", "drop", "events", "kind", "--expect", "0")

    assert cli.json("schema", "drop", "events", "kind", "--expect", "0")["already"]
    code, _, err = cli.run("schema", "drop", "events", "payload", "--expect", "0")
    assert code == 4
    assert "expected=0" in err
    assert "strata schema show events" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "events", "x", "int32", "--key"), "orders every run"),
        (("add", "events", "x", "int32", "--not-null"), "default"),
        (("add", "events", "x", "int32", "--default", "five"), "JSON"),
        (("add", "events", "x", "int16", "--default", "70000"), "does not fit"),
        (("add", "events", "x", "jsonb", "--default", "1.00000000000000000001"), "64 bits"),
        (
            ("add", "events", "x", "list<numeric(38,20)>", "--default", "[0.12345678901234567891]"),
            "64 bits",
        ),
        (("add", "events", "x", "float64", "--default", "1e-400"), "64 bits"),
        (("add", "events", "x", "map<int32>", "--default", '{"a": 1, "a": 2}'), "twice"),
        (("add", "events", "x", "timestamp", "--default", "2024-01-01T00:00:00+05:00"), "offset"),
        (
            ("add", "events", "x", "list<timestamp>", "--default", '["2024-01-01 00:00:00Z"]'),
            "offset",
        ),
        (("add", "events", "x", "timestamptz", "--default", "2024-01-01T00:00:00.1234567Z"), "six"),
        (("add", "events", "KIND", "int32"), "name"),
        (("add", "events", "t", "int32"), "taken by every update"),
        (("drop", "events", "id"), "key"),
        (("drop", "events", "nope"), "one of: id, kind, payload"),
        (("rename", "events", "kind", "Id"), "name"),
        (("widen", "events", "id", "int16"), "no wider type"),
        (("widen", "events", "kind"), "change nothing"),
    ],
)
def test_what_cannot_be_done_exits_2_with_the_reason(
    cli: Cli, words: tuple[str, ...], said: str
) -> None:
    code, _, err = cli.run("schema", *words)

    assert (code, said in err) == (2, True), err
    assert cli.json("schema", "show", "events")["version"] == 0


def test_a_column_that_a_registered_filter_uses_stays_unless_forced(cli: Cli) -> None:
    register_filter(cli, "kind = 'payload'")

    assert cli.json("schema", "drop", "events", "kind", "--dry-run")["filters"] == ["one"]
    for words in (("drop", "events", "kind"), ("rename", "events", "kind", "sort")):
        code, _, err = cli.run("schema", *words)
        assert (code, "filters=['one']" in err) == (2, True), err
    cli.json("schema", "drop", "events", "payload")  # a text is no name
    assert cli.json("schema", "drop", "events", "kind", "--force")["filters"] == ["one"]


def test_an_evolved_shard_meets_its_declaration_again(cli: Cli) -> None:
    spec = cli.root / "events.yaml"
    spec.write_text(SPEC.replace("key:", "  - {name: size, type: int16, default: 3}\nkey:"))
    code, _, err = cli.run("create", "events", "--spec", str(spec))
    assert code == 2
    assert "`strata schema add events size int16 --default 3`" in err

    cli.json("schema", "add", "events", "size", "int16", "--default", "3")
    cli.create()

    spec.write_text(SPEC)
    code, _, err = cli.run("create", "events", "--spec", str(spec))
    assert (code, "`strata schema drop events size`" in err) == (2, True), err
