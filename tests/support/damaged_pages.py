"""A file of Parquet with a value that changed on its way, behind the checksum of its page."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_damaged(path: Path, table: pa.Table, column: str, row: int) -> None:
    """Write a table with another integer than it has in one place.

    The number there is in no statistics: it is neither the least nor the greatest of its column.
    """
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    value: int = table[column][row].as_py()
    data[data.index(value.to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
