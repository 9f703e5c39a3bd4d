"""The streaming side of the data source: `spark.readStream.format("strata")`.

    spark.readStream.format("strata").option("shard", "flights").load().writeStream...

Each update comes once, as it was written: columns, then `t` and `d`. An offset is a time before
which everything has been read, so a query resumes from its checkpoint without losing or doubling an
update, even if the shard was compacted meanwhile. Options: `shard`; `config`; `start`, the first
time to read, milliseconds or ISO 8601, by default the beginning. After a snapshot at `as_of`, the
stream begins at as_of + 1.

A query fails with an explanation if compaction has moved times that it has not read yet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from strata.format.columns import D, T
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.settings import Settings
from strata.model.time import MIN_TIME
from strata.read.changes import Stretch, plan_changes
from strata.spark.rows import PartReader, group_parts, wanted_columns, worthwhile_tasks
from strata.store.open import open_stores

UPPER = "upper"  # of an offset: all updates before this time were read


@dataclass
class ChangesOf(InputPartition):
    """The input of one task."""

    reader: PartReader
    stretch: Stretch  # with only the parts of this task


class StrataStreamReader(DataSourceStreamReader):
    """Plans stretches of time on the newest state, reads their parts in tasks."""

    def __init__(
        self, shard: str, settings: Settings, start: int | None, tasks: int, schema: StructType
    ) -> None:
        """Keep the request; each stretch is cut into `tasks` tasks."""
        self.shard, self.settings, self.start = shard, settings, start
        self.tasks, self.schema = tasks, schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the first offset of a query without a checkpoint."""
        return {UPPER: MIN_TIME if self.start is None else self.start}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """Return the shard's upper: everything before it is complete."""
        upper = Machine(open_stores(self.settings.store)).load(self.shard).upper
        return {UPPER: max(upper, start[UPPER])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition for each task.

        Raises: InvalidRequest when compaction has overtaken the query, or a column is gone.
        """
        stores = open_stores(self.settings.store)
        state = held_state(stores, self.shard, self.settings.read)
        names = [name for name in self.schema.fieldNames() if name not in (T, D)]
        reader = PartReader(
            stores.settings,
            state.relations,
            wanted_columns(state.relation, names),
            read_format=state.spec.read_format,
            settings=self.settings.read,
        )
        stretch = plan_changes(stores, state, start[UPPER], end[UPPER])
        # An empty list would become one partition of None.
        tasks = worthwhile_tasks(stretch.parts, self.tasks)
        groups = group_parts(list(stretch.parts), tasks) or ((),)
        return [ChangesOf(reader, Stretch(stretch.lower, stretch.upper, g)) for g in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's rows in exactly the schema that Spark expects."""
        assert isinstance(partition, ChangesOf)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        for batch in partition.reader.read(partition.stretch.parts):
            rows = partition.stretch.within(batch)
            arrays = [rows.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
