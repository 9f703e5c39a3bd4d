"""A shard as a dataset of PyArrow, which PyArrow's users, DuckDB and others take for a table.

A scan names columns and a filter. The filter chooses parts as far as
`strata.plain.of_arrow` understands it, and Arrow applies it to the rows that are read. So the rows
are those that a table with all rows would give, and their order is that of the parts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from strata.errors import InvalidRequest
from strata.plain.conditions import Condition
from strata.plain.of_arrow import arrow_condition, arrow_fields

Rows = Callable[[Condition | None, Sequence[str] | None], Iterator[pa.RecordBatch]]
"""Yield rows for which a condition may be true, with at least the named columns; None: all."""


class ShardDataset(ds.Dataset):
    """The rows of one state of a shard at one time: columns by name, then t and d.

    `scanner`, `to_table`, `to_batches`, `to_reader`, `head`, `take`, `count_rows` and `filter` work
    as in `pyarrow.dataset.Dataset`. There are no files: what asks for fragments is refused.
    """

    def __init__(self, schema: pa.Schema, rows: Rows, filter: pc.Expression | None = None) -> None:
        self._schema, self._rows, self._filter = schema, rows, filter

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a scan that names none."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """Return a scan that can be read once; parts are fetched as it is read, some ahead.

        `columns`: names, or expressions by the names of their results. `options`: of
        `pyarrow.dataset.Scanner.from_batches`; those about files have no effect.
        Errs: a cast that fails on a row raises where that row is read, so not in a part that is
        skipped for the rest of an AND.
        Raises: InvalidRequest at once, other errors of Strata as the scan is read;
        `pyarrow.ArrowInvalid` for what Arrow refuses.
        """
        wanted = _both(self._filter, filter)
        names = self._names(columns, wanted)
        schema = (
            self._schema if names is None else pa.schema([self._schema.field(n) for n in names])
        )
        condition = None if wanted is None else arrow_condition(wanted)
        batches = self._rows(condition, names)
        reader = pa.RecordBatchReader.from_batches(
            schema, (b.select(schema.names) for b in batches)
        )
        sized = {} if batch_size is None else {"batch_size": batch_size}
        threads = {
            name: options[name] for name in ("use_threads", "memory_pool") if name in options
        }
        return ds.Scanner.from_batches(reader, columns=columns, filter=wanted, **sized, **threads)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Return how many rows there are; only the columns of the filter are read."""
        found: int = self.scanner(columns=[], filter=filter, **options).count_rows()
        return found

    def to_reader(self, **options: Any) -> pa.RecordBatchReader:
        """Return a scan as an Arrow stream; `options` are those of `scanner`."""
        return self.scanner(**options).to_reader()

    def filter(self, expression: pc.Expression) -> "ShardDataset":
        """Return the dataset with a filter, to which others may be added."""
        return ShardDataset(self._schema, self._rows, _both(self._filter, expression))

    def _names(
        self, columns: Sequence[str] | dict[str, pc.Expression] | None, filter: pc.Expression | None
    ) -> list[str] | None:
        """Return the columns that a scan reads; None for all, also where that cannot be seen."""
        if columns is None:
            return None
        asked = (
            list(columns.values()) if isinstance(columns, dict) else [pc.field(c) for c in columns]
        )
        read: set[str] = set()
        for one in asked if filter is None else [*asked, filter]:
            fields = arrow_fields(one)
            if fields is None:
                return None
            read |= fields
        # An unknown name is left to Arrow, which says what there is.
        return [name for name in self._schema.names if name in read]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidRequest(
            "a shard's dataset has no files to do this with", cure="scan it: to_table(), scanner()"
        )

    # The base class would follow a pointer that only its own datasets have.
    get_fragments = _get_fragments = replace_schema = sort_by = join = join_asof = _refuse
    partition_expression = property(_refuse)
    __reduce__ = _refuse


def _both(left: pc.Expression | None, right: pc.Expression | None) -> pc.Expression | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right
