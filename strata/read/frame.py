"""A shard as a lazy frame of Polars.

Polars says which columns and rows a query needs. The predicate chooses parts as far as
`strata.plain.of_polars` understands it, and Polars applies it to the rows that are read.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.model.extras import needed
from strata.plain.of_polars import polars_condition
from strata.read.dataset import Rows

if TYPE_CHECKING:
    import polars as pl


def lazy_frame(schema: pa.Schema, rows: Rows) -> "pl.LazyFrame":
    """Return rows as a lazy frame; they are read when it is collected, each time anew.

    Raises: InvalidRequest where Polars is not installed, or cannot hold a type.
    """
    with needed("polars", "a lazy frame"):
        import polars as pl
        from polars.io.plugins import register_io_source

    def scan(
        names: list[str] | None, predicate: "pl.Expr | None", n_rows: int | None, _: int | None
    ) -> "Iterator[pl.DataFrame]":
        # The first rows are those of the shard, so nothing may be skipped before them.
        understood = predicate is not None and n_rows is None
        condition = polars_condition(predicate) if predicate is not None and understood else None
        wanted = schema.names if names is None else list(names)
        read = wanted if predicate is None else [*wanted, *predicate.meta.root_names()]
        left = n_rows
        for batch in rows(condition, list(dict.fromkeys(read))):
            if left is not None and left <= 0:
                return
            part = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - part.num_rows
            frame = pl.DataFrame(pa.Table.from_batches([part]))
            kept = frame if predicate is None else frame.filter(predicate)
            yield kept.select(wanted)

    try:
        shape = pl.DataFrame(schema.empty_table()).schema
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InvalidRequest("Polars cannot hold a column", reason=str(error)) from None
    return register_io_source(scan, schema=shape, is_pure=True)
