"""A link laid beside an output, under the name that it is drafted by, is not written through."""

from pathlib import Path

import pyarrow as pa

from strata.audit.receipts import write_receipt
from strata.cli.output import Output


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
