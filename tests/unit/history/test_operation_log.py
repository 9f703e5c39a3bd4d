"""The log of operations says what the journal says, and reads each part of it once."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.history import operations
from strata.history.journal import append_rows
from strata.history.operation_log import BILL, OperationLog, as_table
from strata.history.operations import SHARD, Operation
from strata.machine.machine import Machine
from strata.model.journals import EVERY_SHARD
from strata.model.runner import serial
from strata.store.open import Stores
from tests.support.stored import memory_stores, settings

SHARDS = ("planes", "flights", EVERY_SHARD)
WHAT = ("ingest", "validate", "compact")
SPENT = dict(zip(BILL, (1, 20, 300, 4000), strict=True))


@dataclass(frozen=True)
class Watched:
    """A blob store that notes which parts are read."""

    blob: Any
    seen: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.blob, name)

    def get(self, key: str, *given: Any, **named: Any) -> Any:
        if key.endswith(".parquet"):
            self.seen.append(key)
        return self.blob.get(key, *given, **named)


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def stores(seen: list[str]) -> Stores:
    found = memory_stores()
    return replace(found, blob=Watched(found.blob, seen))


def made(number: int) -> Operation:
    details: dict[str, Any] = {"checked_parts": number, "error": f'a "{BILL[0]}":7 in a text'}
    details |= SPENT if number % 2 else {BILL[0]: 9}
    return Operation(
        SHARDS[number % 7 % 3],
        WHAT[number % 3],
        number,
        number / 4,
        f"somebody {number}",
        "failed" if number % 5 == 0 else "done",
        10 * number,
        100 * number,
        orjson.dumps(details).decode(),
    )


def add(stores: Stores, numbers: range) -> None:
    rows = [asdict(made(number)) for number in numbers]
    append_rows(stores, operations.spec(), rows, f"{numbers}")


def check(stores: Stores, log: OperationLog) -> None:
    """Compare what is said with what the whole journal says, read anew."""
    whole, found = operations.journal(stores), log.read(stores)
    for shard in SHARDS:
        mine = [one for one in whole if one.shard == shard]
        validations = [one for one in mine if one.what == "validate"]
        assert found.validations(shard) == validations
        assert found.last_validations.get(shard) == next(iter(validations), None)
        shown = found.latest(shard, 5)
        wanted = [one for one in whole if one.shard in (shard, EVERY_SHARD)][:5]
        assert [replace(one, details="") for one in shown] == [
            replace(one, details="") for one in wanted
        ]
        assert found.on(shard).equals(as_table(mine))


def parts(seen: list[str]) -> Iterator[str]:
    yield from seen
    seen.clear()


def test_it_says_what_the_journal_says_and_reads_each_part_once(
    stores: Stores, seen: list[str]
) -> None:
    log = OperationLog()
    assert log.read(stores).latest("planes", 5) == []
    add(stores, range(40))
    check(stores, log)
    seen.clear()
    log.read(stores)
    assert seen == []
    add(stores, range(40, 41))
    log.read(stores)
    assert len(list(parts(seen))) == 1, "what was appended, and no more"
    check(stores, log)
    compact_shard(stores, SHARD, settings(), serial, full=True)
    seen.clear()
    log.read(stores)
    assert len(list(parts(seen))) == 1, "what was merged, once"
    log.read(stores)
    assert seen == []
    check(stores, log)


def test_requests_that_were_not_counted_are_not_zero() -> None:
    rows = as_table([made(1), made(2), replace(made(3), details="{}")])
    assert rows.select(BILL).to_pylist()[0] == SPENT
    assert rows["s3_puts"].to_pylist() == [1, None, None], "a part of a bill is none"
    nothing = orjson.dumps(dict.fromkeys(BILL, 0)).decode()
    assert as_table([replace(made(1), details=nothing)])["s3_puts"].to_pylist() == [0]


def test_details_are_kept_of_validations_alone() -> None:
    rows = as_table([made(1), made(2)])
    assert rows["details"].to_pylist() == [made(1).details, "{}"]


def test_other_stores_have_another_journal(stores: Stores) -> None:
    log, others = OperationLog(), memory_stores()
    add(stores, range(9))
    add(others, range(3))
    for one in (stores, others, stores):
        check(one, log)


def test_stores_whose_journal_is_empty_do_not_show_another_one(stores: Stores) -> None:
    log, others = OperationLog(), memory_stores()
    add(stores, range(9))
    check(stores, log)
    Machine(others).create(operations.spec(), journal=True)
    check(others, log)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5), st.integers(0, 12))
def test_the_last_operations_are_those_of_the_whole_journal(
    batches: list[list[int]], limit: int
) -> None:
    """The slow twin sorts all of the journal and cuts it; equal times come up often."""
    stores = memory_stores()
    for number, times in enumerate(batches):
        rows = [asdict(replace(made(n), at_ms=at)) for n, at in enumerate(times)]
        rows += [asdict(replace(made(9), at_ms=at, shard=EVERY_SHARD)) for at in times[:1]]
        append_rows(stores, operations.spec(), rows, f"{number}")
    whole = operations.journal(stores)
    for shard in SHARDS:
        mine = [one for one in whole if one.shard in (shard, EVERY_SHARD)]
        assert operations.recent(stores, shard, limit) == mine[:limit]
