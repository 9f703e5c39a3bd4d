"""What a merge says of its result, by itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from strata.compact import run
from strata.model.settings import CompactSettings
from strata.model.sums import MODULUS
from strata.state.state import Batch


@pytest.mark.parametrize(("crossed", "known"), [(7, 5), (0, 5), (7, 0), (-7, 5), (MODULUS - 1, 2)])
def test_the_digest_shifts_by_what_parts_and_tasks_say_together(
    monkeypatch: pytest.MonkeyPatch, crossed: int, known: int
) -> None:
    shifts: list[int] = []

    def apply(_: object, __: object, result: Any, *___: object) -> Any:
        shifts.append(result.digest_shift)
        return SimpleNamespace(reason="gone")

    writer = SimpleNamespace(finish=lambda *_: Batch(0, 9, 0))
    output: Any = run._Output(writer, lambda _: (), shift=known)  # type: ignore[arg-type]
    monkeypatch.setattr(run, "_collect", lambda *_: output)
    monkeypatch.setattr(run, "expected_shift", lambda *_: crossed)
    monkeypatch.setattr(run, "_apply", apply)
    request = SimpleNamespace(
        lower=0, upper=9, since=0, id_lower=0, id_upper=1, reason="due", batches=(), manifests=()
    )
    state: Any = SimpleNamespace(name="s", relations=())
    prepared = run._Prepared(state, request, (), None)  # type: ignore[arg-type]
    none: Any = None

    report = run._finish(none, prepared, iter(()), CompactSettings(), 0.0)

    assert shifts == [(crossed + known) % MODULUS]
    assert report.outcome == "gone"
