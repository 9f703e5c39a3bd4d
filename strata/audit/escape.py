"""Find the wrong rule: the first one whose range misses a value that the engine computed.

For a part that was skipped wrongly, the engine returns the values of every sub-expression of the
filter on its rows, innermost first. A rule is at fault if its arguments lie in their ranges but its
result lies outside its own. If no result escapes, no rule is at fault: the engine evaluated the
filter in another order, or evaluated another filter than the planned one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.differences import PairInterpreter
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr
from strata.expr.sparktype import spark_type
from strata.expr.spec import Bools, Json, Numbers, Spec, Texts, as_texts, occupied
from strata.format.manifest import PartRef
from strata.model.schema import Relation


@dataclass(frozen=True)
class SeenValues:
    """The values of a sub-expression on each row of a part."""

    expr: Expr
    values: pa.Array  # also null where it failed
    failed: pa.Array  # of booleans


class Witness(Protocol):
    """Computes the values of a filter's sub-expressions on a part's rows, innermost first."""

    def __call__(self, filter: Filter, ref: PartRef, /) -> Iterable[SeenValues]:
        """Return the values; sub-expressions that the engine cannot compute are left out."""
        ...


# Values of these types are compared with bounds as whole numbers of days or microseconds.
_PHYSICAL: Final = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


def escaping(
    seen: Iterable[SeenValues],
    filter: Filter,
    stats: pa.RecordBatch,
    relation: Relation,
    quarantine: Collection[str] = (),
) -> Call | None:
    """Return the first call with a result outside of the range that statistics give it.

    Shape: `stats` has one row, that of the part with these values.
    """
    interpreter = PairInterpreter(Context(filter.now_low, filter.now_high), quarantine)
    part = PartSpecs(stats, relation, quarantine).at(slice(0, 1))
    for one in seen:
        if isinstance(one.expr, Call) and _escapes(interpreter.evaluate(one.expr, part), one):
            return one.expr
    return None


def _escapes(spec: Spec, seen: SeenValues) -> bool:
    failed = pc.fill_null(seen.failed, False)
    null = pc.and_(pc.is_null(seen.values), pc.invert(failed))
    if (pc.any(failed).as_py() and not spec.fail.any()) or (
        pc.any(null).as_py() and not spec.null.any()
    ):
        return True
    there = seen.values.drop_null()
    if not len(there):
        return False
    if not occupied(spec.values).any():
        return True
    match spec.values:
        case Bools() as known:
            found = set(there.to_pylist())
            return (True in found and not known.true.any()) or (
                False in found and not known.false.any()
            )
        case Numbers() as known:
            return _outside(known, there, seen.expr.type)
        case (Texts() | Json()) as known:
            return _outside_texts(as_texts(known), there)
        case _:
            return False


def _outside(known: Numbers, values: pa.Array, kind: str) -> bool:
    if pa.types.is_decimal(values.type):
        scale = spark_type(kind).scale
        numbers = np.array([int(v.scaleb(scale)) for v in values.to_pylist()], object)
    elif kind in _PHYSICAL:
        numbers = values.cast(_PHYSICAL[kind]).to_numpy(zero_copy_only=False)
    else:
        numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        nan = np.isnan(numbers)
        if nan.any() and not known.nan.any():
            return True
        numbers = numbers[~nan]
    inside = (numbers >= known.low[0]) & (numbers <= known.high[0]) & ~known.empty[0]
    return not bool(inside.all())


def _outside_texts(known: Texts, values: pa.Array) -> bool:
    low, high = (_bound(side) for side in (known.low, known.high))
    for value in values.cast(pa.binary()).to_pylist():
        if (low is not None and value < low) or (high is not None and value > high):
            return True
    return False


def _bound(side: object) -> bytes | None:
    if isinstance(side, pa.Scalar):
        return side.as_py()  # type: ignore[no-any-return]
    return side[0].as_py() if isinstance(side, pa.Array | pa.ChunkedArray) else None
