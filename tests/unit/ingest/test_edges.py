"""Rules of files that are found, and of rows that are put aside, each by itself."""

from pathlib import Path
from typing import Any

import pytest

from strata.ingest import quarantine
from strata.ingest.land import folder
from strata.ingest.land.source_file import SourceFile
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.support.stored import create, memory_stores
from tests.support.updates import table


@pytest.mark.parametrize(("there", "said"), [(False, "gone"), (True, "swapped")])
def test_a_file_that_lies_elsewhere_by_now_is_gone_unless_another_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, said: str
) -> None:
    file = tmp_path / "f.csv"
    file.touch()
    for name, answer in {"_lies_at": False, "is_there": there}.items():
        monkeypatch.setattr(folder, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(folder, "file_gone", lambda _: LookupError("gone"))
    monkeypatch.setattr(folder, "_swapped", lambda _: LookupError("swapped"))

    with pytest.raises(LookupError, match=said):
        folder._opened(SourceFile(str(file), "f.csv", 0))


@pytest.mark.parametrize(("how", "upper"), [({}, 1_000_001), ({"at_ms": 5}, 6)])
def test_rejected_rows_get_the_time_of_their_batch_and_else_that_of_today(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, int], upper: int
) -> None:
    relation = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())
    stores = memory_stores()
    create(stores, relation)
    monkeypatch.setattr(
        quarantine, "_table", lambda _, some, lower, diff: table(relation, [(*some, lower, diff)])
    )

    def rows() -> Any:
        return iter([[1], [2]])

    assert quarantine._append(stores, "shard", "token", rows, 1, **how) == 2

    assert Machine(stores).load("shard").upper == upper
