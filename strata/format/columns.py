"""Names and shapes of the columns in parts and of updates in memory.

In memory, updates are an Arrow table whose columns are the relation's columns, named by id as
decimal text ("1", "2", ...), in declared order, then `t` and `d`. In a part the same columns
are children of `k_s` and `v_s`. A name clash is impossible: ids are numbers, `t` and `d` are not.
"""

from typing import Final

import pyarrow as pa

from strata.format.encodings import arrow_type
from strata.model.schema import Column, Relation

K: Final = "k"  # row codec bytes of the key
V: Final = "v"  # row codec bytes of the value
T: Final = "t"  # time of the update, int64 milliseconds
D: Final = "d"  # diff, int64
K_S: Final = "k_s"  # key columns, struct of children named by id
V_S: Final = "v_s"  # value columns, struct of children named by id

# Of hundreds of columns a schema takes a millisecond to make, and each slice of rows asks for it.
_SCHEMAS: Final[dict[int, tuple[tuple[Column, ...], pa.Schema]]] = {}
_SCHEMAS_MAX: Final = 64


def child(column_id: int) -> str:
    """Return the name of a column inside parts, updates and statistics."""
    return str(column_id)


def updates_schema(relation: Relation) -> pa.Schema:
    """Return the schema of updates in memory.

    Shape: one nullable field per column, named by id, in declared order; then t, d (not null).
    """
    known = _SCHEMAS.get(id(relation.columns))
    if known is not None and known[0] is relation.columns:
        return known[1]
    columns = [pa.field(child(c.id), arrow_type(c.type)) for c in relation.columns]
    schema = pa.schema(
        [*columns, pa.field(T, pa.int64(), nullable=False), pa.field(D, pa.int64(), nullable=False)]
    )
    if len(_SCHEMAS) >= _SCHEMAS_MAX:
        _SCHEMAS.clear()
    _SCHEMAS[id(relation.columns)] = relation.columns, schema  # held, so that its id stays its own
    return schema
