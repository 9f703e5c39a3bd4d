"""Deletes rows of a Delta table by marks, as Spark does; deltalake only reads such marks.

A mark is a bitmap of row numbers of a data file, here inside the log.
"""

import json
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

from deltalake import DeltaTable

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
MAGIC, PLAIN = 1681511377, 12346  # of bitmaps with 64 bits, of one with 32


def z85(data: bytes) -> str:
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(DIGITS[word // 85**k % 85] for word in words for k in (4, 3, 2, 1, 0))


def bitmap(rows: list[int]) -> bytes:
    head = struct.pack("<IQI", MAGIC, 1, 0) + struct.pack("<II", PLAIN, 1)
    body = struct.pack("<HHI", 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    return head + body


def put_beside(file: Path, rows: list[int]) -> dict[str, Any]:
    """Write deleted rows to a file of their own, and return what a log says of it."""
    data = bitmap(rows)
    file.write_bytes(b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", crc32(data)))
    at = {"storageType": "p", "pathOrInlineDv": f"file://{file}", "offset": 1}
    return {**at, "sizeInBytes": len(data), "cardinality": len(rows)}


def mark(rows: list[int]) -> dict[str, Any]:
    """Return what a log says of the deleted rows of a file."""
    data = bitmap(rows)
    text = z85(data + bytes(-len(data) % 4))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def hide_rows(at: str, which: int, rows: list[int]) -> None:
    """Delete rows of a file, by their numbers, in addition to those that are deleted."""
    log = Path(at) / "_delta_log"
    adds: dict[str, dict[str, Any]] = {}
    for file in sorted(log.glob("*.json")):
        for entry in map(json.loads, file.read_text().splitlines()):
            if "remove" in entry:
                adds.pop(entry["remove"]["path"], None)
            if "add" in entry:
                adds[entry["add"]["path"]] = entry["add"]
    if not adds:
        return
    add = adds[sorted(adds)[which % len(adds)]]
    stats = json.loads(add["stats"])
    gone = set(json.loads((add.get("tags") or {}).get("gone", "[]")))
    gone |= {row for row in rows if row < stats["numRecords"]}
    if not gone:
        return
    removed = {
        "path": add["path"],
        "deletionTimestamp": 1,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": add["partitionValues"],
        "size": add["size"],
    }
    removed |= {"deletionVector": add["deletionVector"]} if add.get("deletionVector") else {}
    added = {
        **add,
        "deletionVector": mark(sorted(gone)),
        "tags": {"gone": json.dumps(sorted(gone))},
        "stats": json.dumps({**stats, "tightBounds": False}),
    }
    told = {"timestamp": 1, "operation": "DELETE"}
    entries = ({"commitInfo": told}, {"remove": removed}, {"add": added})
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (log / f"{DeltaTable(at).version() + 1:020}.json").write_text(text)
