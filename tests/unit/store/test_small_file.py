"""A file that a person names is read within a bound, whatever stands in its place."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from strata.config.folder import yaml_mapping
from strata.config.settings import load_settings
from strata.errors import InvalidRequest
from strata.store.small_file import limited_bytes

READERS: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: load_settings(str(path), env={}),
    "declaration": yaml_mapping,
}
read = partial(limited_bytes, most=10, what="the list", cure="a shorter one", wait_s=0.02)


@pytest.mark.parametrize("what", READERS)
def test_a_device_without_end_is_too_large(what: str) -> None:
    with pytest.raises(InvalidRequest, match="is too large") as refused:
        READERS[what](Path("/dev/zero"))
    assert refused.value.details["file"] == "/dev/zero"
    assert refused.value.cure


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    for reader in (*READERS.values(), read):
        with pytest.raises(InvalidRequest, match="is too large"):
            reader(tmp_path / "large")


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidRequest, match="nothing is written to this pipe") as refused:
        read(tmp_path / "pipe")
    assert str(tmp_path / "pipe") in str(refused.value)


def test_a_pipe_that_stops_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    both = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(both, b"half")
    try:
        with pytest.raises(InvalidRequest, match="does not come"):
            read(tmp_path / "pipe")
    finally:
        os.close(both)


def test_a_pipe_brings_what_a_program_writes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"0123456789",))
    writer.start()
    assert limited_bytes(tmp_path / "pipe", 10, "the list", "a shorter one", 5) == b"0123456789"
    writer.join()


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_file_of_the_greatest_size_is_read(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    assert read(tmp_path / "file") == b"x" * size


def test_settings_that_are_nested_deeply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        load_settings(str(tmp_path / "deep.toml"), env={})
