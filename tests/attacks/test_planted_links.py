"""A link laid beside an output, under the name that it is drafted by, is not written through."""

from pathlib import Path

import pyarrow as pa
import pytest

from strata.audit.receipts import write_receipt
from strata.cli.output import Output
from strata.errors import Unavailable
from strata.read.folder_sink import ParquetFolder


def test_an_output_is_not_drafted_through_a_planted_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    for name in ("out.csv", "receipt.json"):
        precious.write_text("kept")
        (tmp_path / f".{name}.part").symlink_to(precious)
        out = tmp_path / name
        if name == "out.csv":
            rows = pa.record_batch({"id": [1]})
            assert Output(out=out).write(iter([rows]), rows.schema) == 1
        else:
            write_receipt(out, {"rows": 1})
        assert (precious.read_text(), out.is_symlink()) == ("kept", False)
        assert out.stat().st_size > 0


def test_a_lock_is_not_opened_through_a_planted_link(tmp_path: Path) -> None:
    """Opening it to write would empty what the link leads to."""
    precious, folder = tmp_path / "precious", tmp_path / "changes"
    precious.write_text("kept")
    folder.mkdir()
    (folder / ".lock").symlink_to(precious)

    with pytest.raises(Unavailable, match="this folder fails"), ParquetFolder(folder)._alone():
        pass

    assert precious.read_text() == "kept"
