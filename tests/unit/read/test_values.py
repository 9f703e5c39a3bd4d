"""Values of a column: what is read for them, what is logged, and what is refused."""

import json
from pathlib import Path

import pytest

from strata.audit.used import used_filters
from strata.cli.app import main
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import UsageSettings
from strata.model.spec import StatsSpec
from strata.model.sums import LEAST, MOST
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.read.values import extreme_value
from strata.shard import Shard
from tests.support.shards import let_skip
from tests.support.stored import append, create, killed, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "n", parse_type("int64")),
        Column(2, "s", parse_type("string"), nullable=True),
        Column(3, "l", parse_type("list<int32>"), nullable=True),
    ),
    (1,),
    (1,),
)
BATCHES = 8


@pytest.fixture
def shard() -> Shard:
    """Eight batches: n from 10 to 17, from 20 to 27 and so on; s is a or b."""
    stores = memory_stores()
    create(stores, RELATION)
    for batch in range(BATCHES):
        rows = [(10 * (batch + 1) + i, "ab"[batch % 2], None, batch, 1) for i in range(8)]
        append(stores, "shard", batch, batch + 1, [table(RELATION, rows)])
    let_skip(stores, "shard")
    return Shard(stores, "shard")


def keep_only(shard: Shard, batches: set[int]) -> Shard:
    """Delete the parts of all other batches: who reads one of them fails."""
    for number, ref in enumerate(plan_read(shard.stores, shard.state(), mode="off").fetched):
        if number not in batches:
            shard.stores.blob.delete(ref.key)
    return shard


def test_an_extreme_reads_the_part_that_holds_it(shard: Shard) -> None:
    keep_only(shard, {0, BATCHES - 1})

    assert shard.min("n") == 10
    assert shard.max("n") == 87
    assert shard.min("n", where="n > 12") == 13
    assert shard.max("n", where="s = 'b'") == 87
    assert shard.max("n", as_of=0) == 17
    with pytest.raises(Corrupt, match="a part is missing"):
        shard.max("n", where="s = 'a'")  # up to 77, in the part before the last


def test_values_that_are_known_are_not_looked_for_again(shard: Shard) -> None:
    keep_only(shard, {0, 1, 3, 5, 7})  # then those of b alone

    found = shard.distinct("s")

    assert found.values.to_pylist() == ["a", "b"]
    assert found.complete
    assert found.parts_read == 5  # one, then four
    assert not shard.distinct("s", limit=1).complete


def test_a_row_is_found_without_reading_the_rest(shard: Shard) -> None:
    keep_only(shard, {0})

    assert shard.exists()
    assert shard.exists(where="n > 12")
    assert shard.exists(where="n >= 20")  # proven for whole parts
    assert not shard.exists(where="n > 87")
    with pytest.raises(Corrupt, match="a part is missing"):
        shard.exists(where="n = 25")


def test_what_was_taken_back_is_no_value(shard: Shard) -> None:
    back = [(10, "a", None, 8, -1), (11, "a", None, 8, -2), (95, "c", None, 8, -1)]
    append(shard.stores, "shard", 8, 9, [table(RELATION, back)])
    let_skip(shard.stores, "shard")

    assert shard.min("n") == 12
    assert shard.max("n") == 87
    assert shard.min("n", as_of=7) == 10
    assert shard.distinct("s").values.to_pylist() == ["a", "b"]
    assert not shard.exists(where="n <= 11")
    assert not shard.exists(where="s = 'c'")


@pytest.mark.parametrize("mode", ["off", "on"])
def test_a_count_beyond_int64_keeps_its_sign(mode: str) -> None:
    """7 is there more often than int64 says, and 8 was taken back more often; both wrapped."""
    stores = memory_stores()
    create(stores, RELATION)
    rows = [(7, "a", MOST), (7, "b", 2), (8, "a", LEAST), (8, "b", -1)]
    for at, (n, s, d) in enumerate(rows):
        append(stores, "shard", at, at + 1, [table(RELATION, [(n, s, None, at, d)])])
    if mode == "on":
        let_skip(stores, "shard")
    shard = Shard(stores, "shard")

    assert (shard.min("n"), shard.max("n")) == (7, 7)
    assert shard.distinct("n").values.to_pylist() == [7]


def test_without_trust_everything_is_read(shard: Shard) -> None:
    keep_only(shard, {0})

    with pytest.raises(Corrupt, match="a part is missing"):
        Shard(killed(shard.stores), "shard").min("n")


def test_the_filter_that_an_answer_rests_on_is_logged(shard: Shard) -> None:
    shard.min("n", where="s = 'b'")

    used = used_filters(shard.stores, "shard", UsageSettings(), [], 99)

    assert [one.filter.sql for one in used] == ["(s = 'b') AND (`n` <= 20)"]


def test_what_has_no_order_is_refused(shard: Shard) -> None:
    with pytest.raises(InvalidRequest, match="have no order"):
        shard.min("l")
    with pytest.raises(InvalidRequest, match="no such column"):
        shard.min("x")
    with pytest.raises(InvalidRequest, match="needs Spark"):
        shard.min("n", where="trim(s) = 'A'")
    with pytest.raises(InvalidRequest, match="no value is asked for"):
        shard.distinct("n", limit=0)


def test_an_empty_shard_has_no_value() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    empty = Shard(stores, "shard")

    assert empty.min("n") is None
    assert empty.distinct("s").values.to_pylist() == []
    assert not empty.exists()


def test_the_commands_print_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "strata.toml"
    config.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
        f'landing = "{tmp_path}"\n'
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text(
        '{"id": 3, "at": "2013-01-02", "note": "b"}\n{"id": 1, "note": "a\\u001b"}\n'
    )
    (tmp_path / "s.yaml").write_text(
        "columns: [{name: id, type: int64}, {name: note, type: string},"
        " {name: at, type: date, nullable: true}]\n"
        "key: [id]\nsource: {paths: [in], format: jsonl}\n"
    )

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main([*words, "--config", str(config)])
        assert not end.value.code
        return capsys.readouterr().out

    said("create", "s", "--spec", str(tmp_path / "s.yaml"))
    said("ingest", "s", "--lower", "1000", "--upper", "2000", "--from", "in")
    assert said("min", "s", "id") == "1\n"
    assert said("max", "s", "at") == "2013-01-02\n"
    assert said("max", "s", "at", "--where", "id = 1") == "null\n"
    assert said("exists", "s", "--where", "id = 2") == "false\n"
    assert said("exists", "s", "--where", "id = 3") == "true\n"
    assert json.loads(said("distinct", "s", "note", "--json"))["values"] == ["a\x1b", "b"]
    assert said("distinct", "s", "id").split() == ["id", "1", "3"]
    assert json.loads(said("min", "s", "note", "--json"))["value"] == "a\x1b"
    assert json.loads(said("exists", "s", "--json"))["exists"] is True


def test_the_bounds_of_batches_say_where_to_look_first() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    for batch, first in enumerate((20, 40, 10, 30)):  # of two parts: one has no union of its own
        runs = [table(RELATION, [(first + i, "a", None, batch, 1)]) for i in range(2)]
        append(stores, "shard", batch, batch + 1, runs)
    let_skip(stores, "shard")
    state = Machine(stores).load("shard")

    for greatest, value in ((False, 10), (True, 41)):
        found = extreme_value(stores, state, "n", greatest=greatest)
        assert (found.value, found.complete, found.parts_read) == (value, True, 1)
        assert found.to_json()["parts_total"] == 8
    none = extreme_value(stores, state, "n", greatest=True, filter=plain_filter(RELATION, "n > 50"))
    assert (none.value, none.complete) == (None, True)


@pytest.mark.parametrize("budget", [25, 1024])
def test_columns_without_bounds_are_read_everywhere(budget: int) -> None:
    stores = memory_stores()
    create(stores, RELATION, stats=StatsSpec(budget_bytes=budget, keep=()))
    for batch, first in enumerate((20, 40, 10)):
        runs = [table(RELATION, [(first + i, "ab"[i], None, batch, 1)]) for i in range(2)]
        append(stores, "shard", batch, batch + 1, runs)
    let_skip(stores, "shard")
    state = Machine(stores).load("shard")

    assert extreme_value(stores, state, "n", greatest=False).value == 10
    assert extreme_value(stores, state, "n", greatest=True).value == 41
    assert extreme_value(stores, state, "s", greatest=True).value == "b"
