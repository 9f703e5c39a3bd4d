"""A draft of huge pieces lies in a temporary file where the store has none of its own."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from strata.errors import InvalidRequest, Unavailable
from strata.store.draft import draft_of
from strata.store.memory import MemoryBlob

WORDS = r"a temporary file cannot be written .* folder='.*TMPDIR to a folder with room"


def test_a_draft_without_room_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(name="/dev/full", close=lambda: None)
    monkeypatch.setattr("tempfile.NamedTemporaryFile", lambda **_: full)
    draft = draft_of(MemoryBlob(), huge=True)
    with pytest.raises(Unavailable, match=WORDS), draft.guarded():
        draft.file.write(b"piece")
    draft.drop()


def test_a_draft_that_nothing_can_be_written_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(InvalidRequest, match=WORDS):
        draft_of(MemoryBlob(), huge=True)
