"""A file for people is the old one or the new one, whole, and nothing is left beside it."""

from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.store.whole_file import written_whole


def test_a_file_takes_the_place_of_the_old_one_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "made" / "report.json"
    for text in (b"first", b"second"):
        with written_whole(out, "the report") as file:
            file.write(text)
        assert out.read_bytes() == text

    def killed() -> None:
        with written_whole(out, "the report") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert out.read_bytes() == b"second"
    assert [*out.parent.iterdir()] == [out]


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidRequest, match="the report cannot be written here: this is a folder"),
        written_whole(tmp_path, "the report"),
    ):
        pass
