"""Who may only read reads: nothing is made or written by it, and nothing else is possible."""

import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from strata.cli.app import whole
from strata.config.environment import check_consensus, check_stores
from strata.decide.plan import plan_read
from strata.errors import Unavailable
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.history.metrics import Metrics
from strata.history.usage import record
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.settings import ReadSettings, StoreSettings, UsageSettings
from strata.model.spec import parse_spec
from strata.read.scan import scan
from strata.rollout.kill import throw
from strata.store.interface import Blob
from strata.store.local_file import user_name
from strata.store.open import Stores, open_stores
from tests.support import seaweed
from tests.support.postgres import MissingError, fresh_database
from tests.support.shards import NAME, Events, build

pytestmark = pytest.mark.slow

NOBODY = 65_534
WHERE = Filter(
    Call("greater_than", (Column(1, "id", "long"), Literal(10_000, "long")), "boolean"), "x", 0, 0
)
SCHEMA = {"name": "s", "columns": [{"name": "id", "type": "int64"}]}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that another user can reach."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def listed(root: Path) -> dict[str, tuple[int, int]]:
    """Return each file and folder, with its size and when it was changed."""
    return {
        str(p.relative_to(root)): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in (root, *root.rglob("*"))
    }


@contextmanager
def reader(root: Path) -> Iterator[None]:
    """Be somebody who may read a folder and all below it, and write nothing."""
    everything = [root, *root.rglob("*")]
    rights = {path: path.stat().st_mode for path in everything}
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for path, mode in rights.items():
            if path.exists():
                path.chmod(mode & 0o7777)


def all_rows(stores: Stores) -> int:
    """Read as a reader does: with a hold, a filter, and the log of filters."""
    state = held_state(stores, NAME, ReadSettings())
    asked = plan_read(stores, state, filter=WHERE)
    record(stores, state, asked, WHERE, UsageSettings(), Metrics())
    return sum(table.num_rows for table in scan(stores, state, plan_read(stores, state)))


@pytest.mark.parametrize("words", [["shards"], ["inspect", "s"], ["history", "s"], ["merges", "s"]])
def test_reading_a_store_that_is_not_there_makes_none(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever folder one stands: `.strata/consensus.db` was made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRATA_CONFIG", raising=False)
    done = CliRunner().invoke(whole(), [*words, "--json"])
    assert "no such shard" in str(done.exception) if len(words) > 1 else done.exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_reader_without_rights_reads_and_leaves_nothing(folder: Path) -> None:
    """While a writer has the database open."""
    events = build(folder)
    wanted = all_rows(events.stores)
    assert (folder / "consensus.db-wal").stat().st_size
    before = listed(folder)
    with reader(folder):
        stores = open_stores(events.settings.store)
        found = all_rows(stores)
        stores.consensus.close()  # type: ignore[attr-defined]
    assert (found, listed(folder)) == (wanted, before)


def at_rest(events: Events, folder: Path) -> Stores:
    """Copy a store whose database nobody has open: the file, without a log beside it."""
    with sqlite3.connect(events.settings.store.consensus.removeprefix("sqlite:///")) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    base.close()
    beside = shutil.ignore_patterns("*-wal", "*-shm", "*-sync", "*-turn")
    blob = Path(events.settings.store.blob.removeprefix("file://"))
    shutil.copytree(blob.parent, folder, ignore=beside, dirs_exist_ok=True)
    folder.chmod(0o755)
    return open_stores(StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db"))


def test_a_reader_without_rights_reads_a_database_that_nobody_has_open(
    folder: Path, tmp_path: Path
) -> None:
    events = build(tmp_path)
    wanted = all_rows(events.stores)
    stores = at_rest(events, folder)
    before = listed(folder)
    with reader(folder):
        assert all_rows(stores) == wanted
    assert listed(folder) == before
    # What is committed later is seen: such a reader asks the file anew each time.
    seqno = Machine(stores).load(NAME).seqno
    with sqlite3.connect(folder / "consensus.db", isolation_level=None) as base:
        base.execute("PRAGMA journal_mode = DELETE")
        base.execute("INSERT INTO strata_consensus VALUES ('later', 1, x'00')")
    base.close()
    with reader(folder):
        assert stores.consensus.head("later") is not None
        assert Machine(stores).load(NAME).seqno == seqno
    stores.consensus.close()  # type: ignore[attr-defined]


def test_a_reader_without_rights_changes_nothing(folder: Path, tmp_path: Path) -> None:
    stores = at_rest(build(tmp_path), folder)
    before = listed(folder)
    with reader(folder):
        for change in changes(stores):
            with pytest.raises(Unavailable) as told:
                change()
            assert told.value.certain
            assert "give this user the right" in str(told.value)
    assert listed(folder) == before


def test_the_doctor_of_a_reader_says_what_is_not_seen(folder: Path, tmp_path: Path) -> None:
    """A file that is read as immutable shows no journal: it was called a fault."""
    stores = at_rest(build(tmp_path), folder)
    before = listed(folder)
    with reader(folder):
        seen, base = check_stores(stores.settings), check_consensus(stores.settings)
    assert listed(folder) == before
    assert (seen.ok, base.ok) == (True, True), (seen, base)
    assert "this user only reads: whether blobs are written once is not seen" in seen.found
    assert re.search(r"read only: user \S+ may not write it", base.found)
    file = folder / "consensus.db"
    with sqlite3.connect(file, isolation_level=None) as opened:
        opened.execute("PRAGMA journal_mode = DELETE")
    opened.close()
    with reader(folder):
        base = check_consensus(stores.settings)
    assert not base.ok
    assert "its journal is delete, not wal" in base.found


@pytest.mark.parametrize(
    ("place", "mode", "what"),
    [("consensus.db", 0o000, "read"), ("", 0o000, "enter"), ("", 0o555, "write")],
)
def test_who_may_not_open_the_database_learns_whose_it_is(
    folder: Path, place: str, mode: int, what: str
) -> None:
    file = folder / "consensus.db"
    if what != "write":
        file.touch()
    path = folder / place
    with reader(folder):
        if os.getuid() == 0:
            os.seteuid(0)
        path.chmod(mode)
        if os.getuid() == 0:
            os.seteuid(NOBODY)
        stores = open_stores(StoreSettings(f"file://{folder}/blob", f"sqlite:///{file}"))
        with pytest.raises(Unavailable) as caught:
            stores.consensus.compare_and_set("a", None, _value())
        with nullcontext() if what == "write" else pytest.raises(Unavailable):
            assert not stores.consensus.list()
        if os.getuid() == 0:
            os.seteuid(0)
        path.chmod(0o755)
    owner = user_name(os.getuid())
    assert caught.value.certain
    assert f"may not {what} {path.as_posix().rstrip('/')}, which is {owner}'s: " in str(
        caught.value
    )
    assert f"run as {owner}, or let {owner} give the right to this user" in str(caught.value)


def test_a_folder_that_this_user_may_not_make_is_named(folder: Path) -> None:
    stores = open_stores(StoreSettings(f"file://{folder}/b", f"sqlite:///{folder}/gone/c.db"))
    with reader(folder), pytest.raises(Unavailable) as caught:
        stores.consensus.compare_and_set("a", None, _value())
    owner = user_name(os.getuid())
    assert f"the folder {folder}/gone is missing, and user " in str(caught.value)
    assert f"may not write {folder}, which is {owner}'s: dr-xr-xr-x" in str(caught.value)


def test_a_log_that_only_a_writer_can_take_in_is_named(folder: Path, tmp_path: Path) -> None:
    stores = at_rest(build(tmp_path), folder)
    (folder / "consensus.db-wal").touch()
    with reader(folder), pytest.raises(Unavailable, match="run `strata shards` once as") as caught:
        stores.consensus.list()
    assert "consensus.db-wal lies beside it" in str(caught.value)


def changes(stores: Stores) -> list[Callable[[], object]]:
    machine = Machine(stores, sleep=lambda _: None)
    return [
        partial(machine.append, NAME, token="t", lower=10**6, upper=10**6 + 1),
        partial(machine.drop, NAME, by="eve", reason="x", force=True),
        partial(throw, stores, thrown=False, who="eve", reason="x"),
        partial(stores.blob.set, "shards/events/a", b"1"),
        partial(stores.blob.delete, machine.load(NAME).batches[0].manifest or ""),
    ]


# ------------------------------------------------------------ PostgreSQL


READER = """
CREATE ROLE {role} LOGIN;
GRANT USAGE ON SCHEMA public TO {role};
GRANT SELECT ON strata_consensus, strata_schema TO {role};
"""
JOB = """
CREATE ROLE {role} LOGIN;
GRANT USAGE ON SCHEMA public TO {role};
GRANT SELECT, INSERT, DELETE ON strata_consensus TO {role};
GRANT SELECT ON strata_schema TO {role};
ALTER TABLE strata_consensus ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_read ON strata_consensus FOR SELECT USING (true);
CREATE POLICY {role}_adds ON strata_consensus FOR INSERT TO {role} WITH CHECK (key IN ({keys}));
CREATE POLICY {role}_drops ON strata_consensus FOR DELETE TO {role} USING (key IN ({keys}));
"""
OWN = ("shards/one", "shards/one.rejected", "shards/strata_operations", "shards/strata_verdicts")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Stores]:
    try:
        address = fresh_database()
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    stores = open_stores(StoreSettings(f"file://{tmp_path}/blob", address))
    machine = Machine(stores)
    for name in ("one", "two"):
        machine.create(parse_spec({**SCHEMA, "name": name}))
    yield stores
    stores.consensus.close()  # type: ignore[attr-defined]


def as_role(owner: Stores, role: str, statements: str) -> Stores:
    """Make a role as docs/reference/stores.md says, and return the stores as it has them."""
    address = owner.settings.consensus
    role = f"{role}_{address.rpartition('/')[2]}"
    keys = ", ".join(f"'{key}'" for key in OWN)
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for one in statements.format(role=role, keys=keys).split(";\n"):
            if one.strip():
                connection.execute(sa.text(one))
    engine.dispose()
    mine = address.replace("strata@", f"{role}@")
    return open_stores(StoreSettings(owner.settings.blob, mine))


def test_a_role_that_may_read_reads_and_cannot_write(owner: Stores) -> None:
    stores = as_role(owner, "reader", READER)
    machine = Machine(stores, sleep=lambda _: None)
    assert machine.names() == ["one", "two"]
    assert plan_read(stores, machine.load("one")).parts_fetched == 0
    for change in (
        partial(machine.append, "one", token="t", lower=0, upper=1),
        partial(machine.create, parse_spec({**SCHEMA, "name": "three"})),
        partial(throw, stores, thrown=False, who="eve", reason="x"),
        partial(stores.consensus.truncate, "shards/one", 1),
    ):
        with pytest.raises(Unavailable, match="permission denied") as told:
            change()
        assert told.value.certain
    assert Machine(owner).load("one").seqno == 1
    stores.consensus.close()  # type: ignore[attr-defined]


def test_a_job_of_one_shard_cannot_write_another_nor_the_gates(owner: Stores) -> None:
    stores = as_role(owner, "job", JOB)
    machine = Machine(stores, sleep=lambda _: None)
    machine.append("one", token="t", lower=0, upper=1)
    for change in (
        partial(machine.append, "two", token="t", lower=0, upper=1),
        partial(throw, stores, thrown=False, who="eve", reason="x"),
        partial(stores.consensus.compare_and_set, "gates", None, _value()),
    ):
        with pytest.raises(Unavailable, match="row-level security") as told:
            change()
        assert told.value.certain
    machine.append("one", token="u", lower=1, upper=2)
    assert stores.consensus.truncate("shards/one", 3) == 2
    Machine(owner).append("two", token="t", lower=0, upper=1)
    assert stores.consensus.truncate("shards/two", 2) == 0, "the rows are not its own"
    stores.consensus.close()  # type: ignore[attr-defined]


def _value() -> Any:
    from strata.store.interface import Versioned

    return Versioned(1, b"{}")


# ------------------------------------------------------------ object stores


DOCUMENT = (Path(__file__).parents[2] / "docs" / "reference" / "stores.md").read_text("utf-8")


def policies() -> list[dict[str, Any]]:
    """Return the IAM policies of docs/reference/stores.md: a reader's, then a job's."""
    found = [part.partition("```")[0] for part in DOCUMENT.split("```json\n")[1:]]
    return [json.loads(text) for text in found]


def allows(policy: dict[str, Any], action: str, resource: str) -> bool:
    """Return whether IAM would allow an action: nothing is denied, so that a match is enough."""
    from fnmatch import fnmatchcase

    return any(
        fnmatchcase(action, a) and fnmatchcase(resource, r)
        for statement in policy["Statement"]
        for a in _many(statement["Action"])
        for r in _many(statement["Resource"])
    )


def _many(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_the_policies_of_the_document_let_each_do_its_work_and_no_more(tmp_path: Path) -> None:
    """On the keys that a shard really has: events is the shard of the document."""
    read, job = policies()
    events: Events = build(tmp_path)
    keys = [info.key for info in events.stores.blob.list("")]
    assert len({key.split("/")[2] for key in keys}) >= 2
    root = "arn:aws:s3:::bucket/prefix/"
    for key in keys:
        for place in (f"{root}{key}", f"{root}.deleted/{key}"):
            assert allows(job, "s3:PutObject", place)
            assert allows(job, "s3:DeleteObject", place)
            assert allows(job, "s3:GetObject", place)
            assert not allows(read, "s3:PutObject", place)
            assert not allows(read, "s3:DeleteObject", place)
        assert allows(read, "s3:GetObject", f"{root}{key}")
    for other in ("other", "events2", "event", "strata"):
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
            assert not allows(job, action, f"{root}shards/{other}/parts/x")
            assert not allows(job, action, f"{root}.deleted/shards/{other}/parts/x")
        assert not allows(job, "s3:GetObject", f"{root}shards/{other}/parts/x")
    for shard in ("events.rejected", "strata_operations", "strata_verdicts"):
        assert allows(job, "s3:PutObject", f"{root}shards/{shard}/parts/x")
    for policy in (read, job):
        assert allows(policy, "s3:ListBucket", "arn:aws:s3:::bucket")
        assert not allows(policy, "s3:DeleteBucket", "arn:aws:s3:::bucket")


ACTIONS = {  # what SeaweedFS calls them; it has one right for all that changes an object
    "s3:GetObject": "Read",
    "s3:PutObject": "Write",
    "s3:DeleteObject": "Write",
    "s3:AbortMultipartUpload": "Write",
    "s3:ListBucket": "List",
    "s3:ListBucketMultipartUploads": "List",
}


def rights(policy: dict[str, Any]) -> list[str]:
    """Return a policy of the document as rights in the tests' bucket, which is all of the store."""
    found = set()
    for statement in policy["Statement"]:
        for resource in _many(statement["Resource"]):
            place = resource.removeprefix("arn:aws:s3:::").replace("bucket/prefix/", "bucket/")
            place = place.replace("bucket", seaweed.BUCKET, 1)
            found |= {f"{ACTIONS[action]}:{place}" for action in _many(statement["Action"])}
    return sorted(found)


@pytest.fixture(scope="module")
def guarded() -> Iterator[seaweed.Server]:
    """Return an object store that knows a reader and the jobs of `events`, as the document says."""
    read, job = policies()
    try:
        server = seaweed.Server({"reader": rights(read), "job": rights(job)})
    except seaweed.MissingError as error:
        pytest.skip(f"no SeaweedFS: {error}")
    yield server
    server.close()


def test_an_object_store_with_the_policies_of_the_document_obeys_them(
    guarded: seaweed.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job writes, deletes and brings back what is its own; another shard it cannot even read."""
    address = f"s3://{seaweed.BUCKET}?endpoint={guarded.endpoint}&region=us-east-1"
    settings = StoreSettings(address, f"sqlite:///{tmp_path}/consensus.db")

    def as_user(name: str, secret: str) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", name)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)

    other = "shards/other/parts/x"
    as_user(*seaweed.IDENTITY.values())
    open_stores(settings).blob.set(other, b"another's")

    as_user("job", "job")
    events = build(tmp_path, address)
    wanted = all_rows(events.stores)
    parts = [info.key for info in events.stores.blob.list("shards/events/parts/")]
    assert events.stores.blob.delete(parts[0])
    events.stores.blob.restore(parts[0])
    assert all_rows(events.stores) == wanted
    refused(events.stores.blob, other, "shards/other/parts/y", "shards/events2/parts/y")

    as_user("reader", "reader")
    stores = open_stores(settings)
    before = [(info.key, info.size_bytes) for info in stores.blob.list("")]
    assert all_rows(stores) == wanted
    refused(stores.blob, parts[0], other, "shards/events/parts/y", read=False)
    assert [(info.key, info.size_bytes) for info in stores.blob.list("")] == before


def refused(blob: Blob, there: str, *new: str, read: bool = True) -> None:
    """Assert that a key that is there cannot be read or deleted, nor written, nor new ones."""
    tried: list[Callable[[], object]] = [partial(blob.delete, there), partial(blob.set, there, b"")]
    tried += [partial(blob.set, key, b"forged") for key in new]
    for call in [partial(blob.get, there), *tried] if read else tried:
        with pytest.raises(Unavailable, match="s3:GetObject, PutObject") as caught:
            call()
        assert caught.value.certain
