"""A file that cannot be read now says nothing of its content: another try may succeed."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata.audit.receipts import read_receipt
from strata.config.folder import yaml_files, yaml_mapping
from strata.config.settings import load_settings
from strata.errors import InvalidRequest, Unavailable
from strata.ingest.land.folder import Folder


@contextmanager
def no_more_files() -> Iterator[None]:
    """Leave this process no number for another file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = os.open("/", os.O_RDONLY)
    os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


READERS: dict[str, Callable[[Path], object]] = {
    "settings": lambda folder: load_settings(str(folder / "strata.toml"), env={}),
    "declarations": yaml_files,
    "declaration": lambda folder: yaml_mapping(folder / "a.yaml"),
    "receipt": lambda folder: read_receipt(folder / "r.json"),
    "landing": lambda folder: [*(Folder(folder).below(".") or ())],
}


@pytest.mark.parametrize("what", READERS)
def test_a_process_without_a_file_left_is_unavailable(tmp_path: Path, what: str) -> None:
    for name in ("strata.toml", "a.yaml", "r.json"):
        (tmp_path / name).write_text("")
    with no_more_files(), pytest.raises(Unavailable, match="Too many open files") as caught:
        READERS[what](tmp_path)
    assert caught.value.certain
    assert caught.value.cure == "raise the limit of open files"
    assert str(tmp_path) in str(caught.value) or what == "landing"


@pytest.mark.parametrize("what", [one for one in READERS if one not in {"declarations", "landing"}])
def test_a_folder_in_place_of_a_file_is_a_wrong_request(tmp_path: Path, what: str) -> None:
    for name in ("strata.toml", "a.yaml", "r.json"):
        (tmp_path / name).mkdir()
    with pytest.raises(InvalidRequest, match="cannot be read"):
        READERS[what](tmp_path)


def test_a_folder_of_declarations_that_may_not_be_listed_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(InvalidRequest, match="cannot be read") as caught:
        yaml_files(tmp_path)
    assert caught.value.details["folder"] == str(tmp_path)
    monkeypatch.undo()
    assert yaml_files(tmp_path / "none") == []
