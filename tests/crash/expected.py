"""The expected-state file: what was asked of a shard, written down before and after it was done.

One JSON line as an operation begins, with all that it takes to repeat it, and one when it was
acknowledged. After a kill the file says what must be in the shard, and the one operation that may
be. Only what changes the contents is in it: appends and changes of columns.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
KEY = ("id", "text")


@dataclass
class Expected:
    """The naive twin: every update ever written, and the columns as they are named now."""

    updates: list[tuple[dict[str, Any], int, int]] = field(default_factory=list)  # values, t, d
    columns: dict[str, int] = field(default_factory=dict)  # added ones -> default
    upper: int = 0
    operations: int = 0

    def apply(self, operation: dict[str, Any]) -> None:
        self.operations = operation["n"] + 1
        match operation["op"]:
            case "append" | "ingest":
                self.updates += [tuple(u) for u in operation["updates"]]  # type: ignore[misc]
                self.upper = operation["upper"]
            case "add":
                self.columns[operation["column"]] = operation["default"]
            case "drop":
                del self.columns[operation["column"]]

    def row(self, values: dict[str, Any]) -> Row:
        """Return what a reader sees of these values."""
        added = (values.get(name, default) for name, default in sorted(self.columns.items()))
        return (*(values[name] for name in KEY), *added)

    def names(self) -> list[str]:
        return [*KEY, *sorted(self.columns)]

    def contents(self, as_of: int) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for values, t, d in self.updates:
            if t <= as_of:
                found[self.row(values)] += d
        return Counter({row: d for row, d in found.items() if d})


class Log:
    """The file itself. A line is one write: SIGKILL comes before it or after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[Expected, dict[str, Any] | None]:
        """Return what was acknowledged, and the operation that had only begun."""
        expected, pending = Expected(), None
        text = self.path.read_text() if self.path.exists() else ""
        for line in text.splitlines():
            entry = json.loads(line)
            if entry.get("done"):
                assert pending is not None
                assert pending["n"] == entry["n"]
                expected.apply(pending)
                pending = None
            else:
                assert pending is None
                pending = entry
        return expected, pending

    def lines(self) -> int:
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0

    def begin(self, operation: dict[str, Any]) -> None:
        self._write(operation)

    def done(self, operation: dict[str, Any]) -> None:
        self._write({"n": operation["n"], "done": True})

    def _write(self, entry: dict[str, Any]) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, json.dumps(entry).encode() + b"\n")
        finally:
            os.close(descriptor)
