"""Find the rows that a filter accepts, by part and number, for an erasure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest, StrataError
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.kernels.arrays import Ints
from strata.model.settings import StoreSettings
from strata.spark.failures import task_error
from strata.spark.front.catalyst import referenced
from strata.spark.front.rowfilter import row_filter
from strata.spark.rows import part_rows
from strata.state.state import State

PART = "__part"  # no column of a shard can have these names: declarations check names
ROW = "__row"


@dataclass(frozen=True)
class SparkFinder:
    """Runs a filter on the rows of parts, its clock stopped at the beginning of its span."""

    spark: SparkSession
    store: StoreSettings
    filter: Filter

    def __call__(self, state: State, refs: Sequence[PartRef], /) -> dict[str, Ints]:
        """Return the numbers of the accepted rows by part, ascending.

        Raises: InvalidRequest when the filter fails on a row; Corrupt; Unavailable.
        """
        if not refs:
            return {}
        relation = state.relation
        names = [relation.by_id[i].name for i in referenced(self.spark, relation, self.filter.sql)]
        rows = part_rows(
            self.spark,
            self.store,
            state.relations,
            refs,
            names,
            part_column=PART,
            row_column=ROW,
            read_format=state.spec.read_format,
        )
        accepted = row_filter(self.spark, rows, self.filter.sql, self.filter.now_low)
        try:
            table = accepted.select(PART, ROW).toArrow()
        except StrataError:
            raise
        except Exception as error:  # Spark's own errors quote values of rows
            found = task_error(error)
            if found is not None:
                raise found from None
            raise InvalidRequest(
                "the filter fails on a row, so nobody knows which rows it means",
                shard=state.name,
                cure="write it so that it fails on none: try_cast, try_divide",
            ) from None
        keys = pc.unique(table[PART]).to_pylist()
        return {
            key: np.sort(table.filter(pc.equal(table[PART], key))[ROW].to_numpy()) for key in keys
        }
