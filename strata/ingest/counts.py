"""What an ingest counts, from one file up to a whole job.

A new counter is one line here. It then passes through tasks and commits, and appears in the JSON of
the command line, the result and the summary of the job, and the history.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


def _counter(remark: str = "", *, shown: bool = True) -> Any:
    """Return a field that counts from zero; see `Counts`."""
    return field(default=0, metadata={"remark": remark, "shown": shown})


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of rows, messages, files and statistics; they add up.

    An operator reads each `remark` after its number, unless the number is zero. A count that is not
    `shown` stays out of documents.
    """

    rows: int = _counter(shown=False)  # source rows seen, rejected ones included
    rejected: int = _counter("rows rejected")
    files: int = _counter()
    in_place: int = _counter("files stay where they are")  # parts refer to them
    late: int = _counter("rows late")  # their time was advanced to the interval's lower
    early: int = _counter("rows early")  # their time was moved back to the interval's last
    late_files: int = _counter("files late")  # files of earlier intervals that this batch takes in
    taken_before: int = _counter()  # files skipped because the shard has them
    contradictions: int = _counter("contradictions")  # changes that were applied nevertheless
    passed: int = _counter()  # messages of a change stream that are not changes
    repeated: int = _counter()  # changes that were delivered again and left out
    # Source rows left out because the shard's erasures say so
    suppressed: int = _counter("rows of erased persons left out")
    verified: int = _counter()  # source rows that were read twice and agreed
    undeclared: frozenset[str] = field(  # columns in changes that the shard does not declare
        default=frozenset(), metadata={"remark": "undeclared columns", "shown": True}
    )
    tables: frozenset[str] = field(  # whose changes a stream brought: see `stream_tables`
        default=frozenset(), metadata={"remark": "", "shown": False}
    )
    defaulted: Mapping[str, int] = field(  # column and values; see `debezium.defaulted`
        default_factory=dict,
        metadata={
            "remark": "values that are their column's DEFAULT and may have been null: set "
            "value.converter.replace.null.with.default=false",
            "shown": True,
        },
    )
    stats_bytes: int = _counter()  # of statistics in the new parts
    stats_ms: float = _counter()  # of processor time, to collect them

    def __add__(self, other: "Counts") -> "Counts":
        """Return the counts of both together."""
        added = {one.name: getattr(other, one.name) for one in fields(other)}
        return replace(
            self, **{name: _plus(getattr(self, name), n) for name, n in added.items() if n}
        )

    def to_json(self) -> dict[str, Any]:
        """Return the counts that are shown, by name."""
        return {
            one.name: _plain(getattr(self, one.name))
            for one in fields(self)
            if one.metadata["shown"]
        }

    def remarks(self) -> list[str]:
        """Return what an operator should know, in words."""
        found = [(_size(getattr(self, one.name)), one.metadata["remark"]) for one in fields(self)]
        return [f"{count:,} {remark}" for count, remark in found if count and remark]


def total(some: Iterable[Counts] = ()) -> Counts:
    """Return the sum of some counts; zero for none."""
    return sum(some, Counts())


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, frozenset):
        return a | b
    return dict(Counter(a) + Counter(b)) if isinstance(a, Mapping) else a + b


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(sorted(value.items())) if isinstance(value, Mapping) else round(value)


def _size(value: Any) -> int:
    if isinstance(value, frozenset):
        return len(value)
    return sum(value.values()) if isinstance(value, Mapping) else round(value)
