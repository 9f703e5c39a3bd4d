"""strata adopt: what people type, and what they are told."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.adopted import DeltaWorld, IcebergWorld
from tests.unit.cli.test_commands import Cli

SPEC = "name: mirror\ncolumns: [{name: id, type: int64}, {name: s, type: string}]\nkey: [id]\n"


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    made = Cli(tmp_path, capsys)
    (tmp_path / "mirror.yaml").write_text(SPEC)
    return made


def create(cli: Cli) -> None:
    cli.json("create", "mirror", "--spec", str(cli.root / "mirror.yaml"))


def test_a_shard_is_declared_first_and_the_error_says_how(cli: Cli, tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, feed=True, parted=False)
    code, _, said = cli.run("adopt", "mirror", "--from", world.at)

    assert code == 2
    assert "strata create mirror --spec FILE" in said
    assert "columns: [{name: id, type: int64}, {name: s, type: string}]" in said


def test_the_declaration_that_the_error_names_makes_the_shard(cli: Cli, tmp_path: Path) -> None:
    """Unquoted, YAML ends `numeric(9,2)` at its comma, and reads `on` as true."""
    kinds = {"on": pa.decimal128(9, 2), "x: y": pa.map_(pa.string(), pa.int64())}
    write_deltalake(str(tmp_path / "table"), pa.schema(kinds).empty_table())
    _, _, said = cli.run("adopt", "mirror", "--from", str(tmp_path / "table"))
    file = tmp_path / "proposed.yaml"
    file.write_text(said.partition("which says: ")[2].rstrip()[:-1])

    cli.json("create", "mirror", "--spec", str(file))
    code, _, said = cli.run("adopt", "mirror", "--from", str(tmp_path / "table"))
    assert (code, said) == (0, "")


def test_first_the_table_then_what_changed(cli: Cli, tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, feed=True, parted=False)
    create(cli)
    words = ("adopt", "mirror", "--from", world.at)
    told = cli.json(*words, "--dry-run")
    first, again = cli.json(*words), cli.json(*words)
    world.update([], 1)
    second = cli.json(*words, "--version", "1", "--reason", "every hour")

    assert (told["how"], told["dry_run"], "updates" in told) == ("whole", True, False)
    assert (first["how"], first["updates"], first["rejected"]) == ("whole", 2, 0)
    assert (again["how"], again["already_adopted"]) == ("nothing", True)
    assert (second["how"], second["before"], second["version"]) == ("feed", "0", "1")
    assert second["updates"] == 2
    done = cli.json("history", "mirror")["operations"]
    assert [one["what"] for one in done if one["what"] == "adopt"] == ["adopt"] * 3


def test_iceberg_is_seen_by_its_metadata(cli: Cli, tmp_path: Path) -> None:
    world = IcebergWorld(tmp_path)
    create(cli)
    snapshot = world.table.current_snapshot()
    assert snapshot is not None
    done = cli.json(
        "adopt",
        "mirror",
        "--from",
        world.table.metadata_location,
        "--snapshot",
        str(snapshot.snapshot_id),
    )

    assert (done["format"], done["version"]) == ("iceberg", str(snapshot.snapshot_id))
    assert done["updates"] == 2


def test_rejected_rows_are_said(cli: Cli, tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, feed=True, parted=False)
    (tmp_path / "mirror.yaml").write_text(
        SPEC.replace("type: string", "type: int32") + "source: {max_rejected: 0.5}\n"
    )
    create(cli)
    code, _, said = cli.run("adopt", "mirror", "--from", world.at)

    assert code == 0, said
    assert "1 row could not be stored exactly" in said
    assert "strata quarantine show mirror" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--format", "hudi"), "no such format"),
        (("--format", "iceberg", "--version", "1"), "--version"),
        (("--format", "delta", "--snapshot", "1"), "--snapshot"),
        (("--format", "delta", "--catalog", "lake"), "--catalog"),
        ((), "strata ingest SHARD --from FOLDER"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], reason: str, cli: Cli) -> None:
    code, _, said = cli.run("adopt", "mirror", "--from", str(cli.root), *words)

    assert code == 2
    assert reason in said


@pytest.mark.parametrize(("library", "extra"), [("deltalake", "delta"), ("pyiceberg", "iceberg")])
def test_without_its_library_the_cure_is_named(library: str, extra: str, cli: Cli) -> None:
    text = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {library!r}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from strata.cli.app import main\n"
        f"main(['adopt', 's', '--from', 'x', '--format', {extra!r},"
        f" '--config', {str(cli.config)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert f"pip install 'strata-shards[{extra}]'" in done.stderr
