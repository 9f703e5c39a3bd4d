"""PostgreSQL keeps the contract of the seam, also when connections die under it."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from strata.config.environment import check_consensus
from strata.errors import InvalidRequest, Unavailable
from strata.model.settings import StoreSettings
from strata.store import postgres
from strata.store.interface import Versioned
from strata.store.sql import SqlConsensus
from tests.conformance.consensus import ConsensusSuite
from tests.support.postgres import MissingError, fresh_database
from tests.unit.store.test_sql import COUNTER


class RawPostgres:
    def __init__(self, address: str) -> None:
        self.engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))

    def run(self, query: str, **values: object) -> list[tuple[object, ...]]:
        with self.engine.begin() as connection:
            done = connection.execute(sa.text(query), values)
            return [tuple(row) for row in done] if done.returns_rows else []

    def values(self, key: str) -> list[tuple[int, bytes]]:
        query = "SELECT seqno, data FROM strata_consensus WHERE key = :key ORDER BY seqno"
        return [(int(str(n)), bytes(d)) for n, d in self.run(query, key=key)]  # type: ignore[call-overload]

    def write(self, key: str, seqno: int, data: bytes) -> None:
        query = "INSERT INTO strata_consensus VALUES (:key, :seqno, :data)"
        self.run(query, key=key, seqno=seqno, data=data)


@pytest.fixture(scope="module")
def address() -> str:
    try:
        return fresh_database()
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")


@pytest.fixture
def raw(address: str) -> Iterator[RawPostgres]:
    raw = RawPostgres(address)
    yield raw
    raw.run("DROP TABLE IF EXISTS strata_consensus, strata_schema")
    raw.engine.dispose()


@pytest.fixture
def consensus(address: str, raw: RawPostgres) -> Iterator[SqlConsensus]:
    store = SqlConsensus(address)
    store.head("a")  # makes the table
    yield store
    store.close()


class TestPostgres(ConsensusSuite):
    @pytest.fixture
    def consensus(self, address: str, raw: RawPostgres) -> Iterator[SqlConsensus]:
        store = SqlConsensus(address)
        store.head("a")
        yield store
        store.close()

    @pytest.fixture
    def raw(self, address: str) -> Iterator[RawPostgres]:
        raw = RawPostgres(address)
        yield raw
        raw.run("DROP TABLE IF EXISTS strata_consensus, strata_schema")
        raw.engine.dispose()


def test_of_many_processes_none_loses_an_increment(address: str, raw: RawPostgres) -> None:
    """All start at once, on a database without the table."""
    command = [sys.executable, "-c", COUNTER, address]
    workers = [subprocess.Popen([*command, str(1 + i)]) for i in range(3)]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0, 0]
    assert [int(data) for _, data in raw.values("a")] == list(range(121))


def test_a_connection_that_was_cut_is_replaced(consensus: SqlConsensus, raw: RawPostgres) -> None:
    """As a server that was restarted, or a firewall that forgets, leaves them."""
    assert consensus.compare_and_set("a", None, Versioned(1, b"one"))
    raw.run(
        # Waits up to ten seconds for each of them to be gone.
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    assert consensus.compare_and_set("a", 1, Versioned(2, b"two"))
    assert consensus.head("a") == Versioned(2, b"two")


def test_a_server_that_is_not_there_is_certain_to_have_done_nothing() -> None:
    store = SqlConsensus("postgresql://strata:secret@127.0.0.1:1/strata")
    with pytest.raises(Unavailable) as caught:
        store.compare_and_set("a", None, Versioned(1, b"one"))
    assert caught.value.certain
    assert "secret" not in str(caught.value)


def test_options_in_the_address_are_the_drivers(address: str) -> None:
    store = SqlConsensus(f"{address}?application_name=strata&connect_timeout=3")
    assert store.list() == []
    store.close()
    with pytest.raises(InvalidRequest, match="cannot hold consensus"):
        SqlConsensus("mysql://root@127.0.0.1/strata")


def role(raw: RawPostgres, name: str, *grants: str) -> None:
    if not raw.run("SELECT 1 FROM pg_roles WHERE rolname = :name", name=name):
        raw.run(f"CREATE ROLE {name} LOGIN")
    for grant in grants:
        raw.run(f"GRANT {grant} TO {name}")


def as_role(address: str, name: str) -> str:
    return address.replace("strata@", f"{name}@")


def test_a_role_with_the_least_rights_commits_and_reads(
    consensus: SqlConsensus, raw: RawPostgres, address: str
) -> None:
    table = "ON strata_consensus"
    role(raw, "least", f"SELECT, INSERT, DELETE {table}", "SELECT ON strata_schema")
    store = SqlConsensus(as_role(address, "least"))
    assert store.compare_and_set("a", None, Versioned(1, b"1"))
    assert store.compare_and_set("a", 1, Versioned(2, b"2"))
    assert store.truncate("a", 2) == 1
    assert store.head("a") == Versioned(2, b"2")
    with store.turn("a"):
        pass
    store.close()


@pytest.mark.timeout(60)
def test_writers_that_queue_leave_connections_to_commit_with(consensus: SqlConsensus) -> None:
    """Each held one while it waited for another, and there are 15: all of them hung."""
    together = Barrier(16)

    def commit(key: str) -> bool:
        with consensus.turn(key):
            together.wait(20)
            return consensus.compare_and_set(key, None, Versioned(1, b"1"))

    assert consensus.head("a") is None
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(commit, [f"key {n}" for n in range(16)]))


def test_the_doctor_tells_a_role_that_reads_from_one_that_lacks_a_right(
    consensus: SqlConsensus, raw: RawPostgres, address: str
) -> None:
    role(raw, "reads", "SELECT ON strata_consensus", "SELECT ON strata_schema")
    store = SqlConsensus(as_role(address, "reads"))
    assert store.head("a") is None
    with pytest.raises(Unavailable, match="permission denied") as caught:
        store.compare_and_set("a", None, Versioned(1, b"1"))
    assert caught.value.certain
    said = store._run(postgres.rights_of)
    assert said == ("read only: role reads may not write it", "")
    store.close()
    role(raw, "half", "SELECT, INSERT ON strata_consensus", "SELECT ON strata_schema")
    store = SqlConsensus(as_role(address, "half"))
    assert store._run(postgres.rights_of) == ("", "this role lacks DELETE on strata_consensus")
    store.close()


def test_tables_come_to_the_newest_version_by_who_may(raw: RawPostgres, address: str) -> None:
    """From what was made before tables had a version, with what is in it."""
    raw.run("DROP TABLE IF EXISTS strata_consensus, strata_schema")
    raw.run("DROP FUNCTION IF EXISTS strata_compare_and_set")
    raw.run(postgres.MIGRATIONS[0])
    raw.write("a", 3, b"three")
    role(raw, "late", "SELECT, INSERT, DELETE ON strata_consensus")
    late = SqlConsensus(as_role(address, "late"))
    with pytest.raises(InvalidRequest, match="strata doctor"):
        late.head("a")
    late.close()
    store = SqlConsensus(address)
    assert store.head("a") == Versioned(3, b"three")
    assert store.compare_and_set("a", 3, Versioned(4, b"four"))
    assert raw.run("SELECT max(version) FROM strata_schema") == [(len(postgres.MIGRATIONS),)]
    store.close()
    raw.run("INSERT INTO strata_schema VALUES (99)")
    store = SqlConsensus(address)
    with pytest.raises(InvalidRequest, match="newer version"):
        store.head("a")
    store.close()


def test_a_scrub_beside_an_open_transaction_keeps_nobody_waiting(
    consensus: SqlConsensus, raw: RawPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "TURN_MS", 300)
    assert consensus.compare_and_set("a", None, Versioned(1, b"1"))
    with raw.engine.begin() as dump:
        dump.execute(sa.text("SELECT count(*) FROM strata_consensus"))
        said = consensus.scrub()
        assert consensus.head("a") == Versioned(1, b"1")
    assert "run VACUUM FULL strata_consensus, which was in use" in said
    assert consensus._run(lambda cursor: cursor.execute("SHOW lock_timeout").fetchone()) == ("0",)
    assert "VACUUM" not in consensus.scrub()


def test_another_default_isolation_does_no_harm(raw: RawPostgres, address: str) -> None:
    name = address.rpartition("/")[2]
    raw.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    store = SqlConsensus(address)
    assert store.compare_and_set("a", None, Versioned(1, b"1"))
    assert not store.compare_and_set("a", None, Versioned(2, b"2"))
    store.close()
    raw.run(f"ALTER DATABASE {name} RESET default_transaction_isolation")


def test_the_doctor_tells_the_server_and_what_ails_it(address: str) -> None:
    here = check_consensus(StoreSettings("memory://doctor", address))
    assert not here.ok  # the tests' server is quick, not safe
    assert here.found.startswith("PostgreSQL ")
    assert "fsync is off" in here.found
    bad = check_consensus(StoreSettings("memory://doctor", "postgresql://x:secret@127.0.0.1:1/y"))
    assert not bad.ok
    assert "secret" not in bad.found
