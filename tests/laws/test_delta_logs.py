"""Law: a shard equals a Delta table whose log was written by hand, at each version of the log.

The library that reads such logs writes others: without whole paths, texts of partitions that need
care, empty words for null, or commits that say nothing of themselves.
"""

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from strata.adopt.delta import DeltaPeer
from tests.support.adopted import Mirror
from tests.support.marked import mark

# Of each type of a partition: the shard's, and texts of the log with the values that they mean.
PARTED: dict[str, tuple[str, dict[str | None, Any]]] = {
    "string": ("string", {t: t for t in ("a b", "c/d", "50%", "%2F", "ä=ö", "null", "\U0001f600")}),
    "long": ("int64", {"0": 0, "-9223372036854775808": -(2**63)}),
    "boolean": ("bool", {"true": True, "false": False}),
    "date": ("date", {"0001-01-01": date.min, "9999-12-31": date.max}),
    "decimal(9,2)": ("numeric(9,2)", {"1.05": Decimal("1.05"), "-3.00": Decimal(-3)}),
    "timestamp": (
        "timestamptz",
        {
            "2024-01-01 00:00:00": datetime(2024, 1, 1, tzinfo=UTC),
            "1969-12-31T23:59:59.000001Z": datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        },
    ),
}
NONE: dict[str | None, Any] = {None: None, "": None}
FOLDERS = ("", "a b/", "ä=%20/", "p=c%2Fd/")
# What a commit adds (partition, folder, rows, whole path), and which files lose a row, or all.
ADDED = st.tuples(st.integers(0, 8), st.sampled_from(FOLDERS), st.integers(1, 3), st.booleans())
TOUCHED = st.dictionaries(st.integers(0, 5), st.booleans(), max_size=3)
COMMITS = st.lists(st.tuples(st.lists(ADDED, max_size=2), TOUCHED), min_size=1, max_size=4)


class WrittenTable:
    """A table whose files and log this test writes."""

    def __init__(self, at: Path, kind: str) -> None:
        self.at, self.log, self.version = at, at / "_delta_log", -1
        self.texts = list((PARTED[kind][1] | NONE).items())
        self.files: dict[str, tuple[dict[str, Any], list[int], Any]] = {}  # action, rows, value
        self.rows = 0
        self.log.mkdir()
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        names = {"id": "long", "p": kind}
        fields = [
            {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in names.items()
        ]
        table = {
            "id": "0b5a7f1e-4a0f-4c1e-9d0e-3f1d8a2b7c66",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": ["p"],
            "configuration": {},
        }
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        self.commit([{"protocol": protocol}, {"metaData": table}])

    def commit(self, actions: list[dict[str, Any]]) -> None:
        self.version += 1
        lines = [json.dumps(action, ensure_ascii=False) for action in actions]
        (self.log / f"{self.version:020}.json").write_text("\n".join(lines))

    def added(self, which: int, folder: str, count: int, *, whole: bool) -> dict[str, Any]:
        text, value = self.texts[which % len(self.texts)]
        file = self.at / folder / f"{self.rows}.parquet"
        file.parent.mkdir(exist_ok=True)
        ids = [*range(self.rows, self.rows + count)]
        self.rows += count
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), file)
        action = {
            "path": f"file://{quote(str(file))}"
            if whole
            else quote(str(file.relative_to(self.at))),
            "partitionValues": {"p": text},
            "size": file.stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": count}),
        }
        self.files[action["path"]] = action, ids, value
        return {"add": action}

    def touched(self, path: str, *, whole: bool) -> list[dict[str, Any]]:
        """Delete the first row of a file, or the whole file."""
        action, ids, value = self.files.pop(path)
        names = ("path", "partitionValues", "size", "deletionVector")
        gone = {name: action[name] for name in names if name in action}
        removed = {**gone, "dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": True}
        if whole or len(ids) < 2:
            return [{"remove": removed}]
        deleted = json.loads(action["stats"])["numRecords"] - len(ids) + 1
        marked = {**action, "deletionVector": mark([*range(deleted)])}
        self.files[path] = marked, ids[1:], value
        return [{"remove": removed}, {"add": marked}]

    def read(self) -> Counter[Any]:
        return Counter(
            (("id", id), ("p", value)) for _, ids, value in self.files.values() for id in ids
        )


@given(st.sampled_from(list(PARTED)), COMMITS, st.booleans())
def test_a_shard_equals_what_was_written(kind: str, commits: list[Any], checkpoints: bool) -> None:
    mirror = Mirror()
    mirror.create(["id int64", f"p {PARTED[kind][0]}"])
    with TemporaryDirectory() as folder:
        table = WrittenTable(Path(folder), kind)
        for added, touched in commits:
            there = list(table.files)
            actions: list[dict[str, Any]] = []
            for n, whole in touched.items():
                actions += table.touched(there[n], whole=whole) if n < len(there) else []
            actions += [table.added(*how, whole=named) for *how, named in added]
            table.commit(actions)
            if checkpoints:
                DeltaTable(folder).create_checkpoint()
            mirror.adopt(DeltaPeer.open(folder))
            assert mirror.read() == table.read()
