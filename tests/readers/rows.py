"""Read a published table by an engine of `.venv-readers`, and write its rows as Arrow.

    rows.py ENGINE ADDRESS OUT      ENGINE: daft, duckdb or pyiceberg

It imports nothing of Strata: that environment does not have it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa


def by_daft(address: str) -> Any:
    import daft
    from pyiceberg.table import StaticTable

    return daft.read_iceberg(StaticTable.from_metadata(address)).to_arrow()


def by_duckdb(address: str) -> Any:
    import duckdb

    opened = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    opened.execute("set timezone = 'UTC'")
    for name in ("avro", "iceberg"):
        package = __import__(f"duckdb_extension_{name}")
        [file] = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        opened.execute(f"install '{file}'")
        opened.execute(f"load {name}")
    return opened.sql(f"select * from iceberg_scan('{address}')").to_arrow_table()


def by_pyiceberg(address: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(address).scan().to_arrow()


ENGINES: dict[str, Callable[[str], Any]] = {
    "daft": by_daft,
    "duckdb": by_duckdb,
    "pyiceberg": by_pyiceberg,
}

if __name__ == "__main__":
    engine, address, out = sys.argv[1:]
    table = ENGINES[engine](address)
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
