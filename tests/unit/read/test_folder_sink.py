"""A folder that fails is not one with damaged files."""

import errno
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.read.folder_sink import ParquetFolder

NAME = "changes.0.5.parquet"


def test_a_file_that_is_none_of_a_delivery_is_damaged(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"PAR1 no file PAR1")
    with pytest.raises(Corrupt, match="not one of a delivery") as caught:
        ParquetFolder(tmp_path).bookmark()

    assert caught.value.details["file"] == str(tmp_path / NAME)


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.EIO, Unavailable), (errno.EACCES, InvalidRequest), (errno.ESTALE, Unavailable)],
)
def test_a_disk_that_fails_is_no_damage(
    number: int, error: type[StrataError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise OSError(number, "it fails", str(path))

    (tmp_path / NAME).write_bytes(b"")
    monkeypatch.setattr(pq, "read_schema", fails)
    with pytest.raises(error) as caught:
        ParquetFolder(tmp_path).bookmark()

    assert caught.value.details["folder"] == str(tmp_path)
