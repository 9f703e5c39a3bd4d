"""The test that a row's answer lies in the interpreter's range; Spark is not needed for it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Expr
from strata.expr.sparktype import spark_type
from strata.expr.spec import Bools, Flags, Json, Numbers, Spec, Texts, as_texts, occupied
from tests.spark.ranges import ROWS_A_PART, Parts, unscaled

NOW_US = 1_710_054_000_123_456
NOW = (NOW_US - 10**15, NOW_US + 10**15)  # Spark's clock is the real one


@dataclass(frozen=True)
class Answers:
    """What an expression gave on every row."""

    values: pa.Array
    failed: Flags


def abstract(expr: Expr, parts: Parts) -> Spec:
    """Return what the interpreter says about each part."""
    view = PartSpecs(parts.stats, parts.relation, ()).at(slice(0, parts.stats.num_rows))
    return Interpreter(Context(*NOW), lenient=False).evaluate(expr, view)


def escapes(spec: Spec, type_name: str, answers: Answers, rows_a_part: int = ROWS_A_PART) -> Flags:
    """Return the rows whose result the Spec does not contain."""
    count = len(answers.failed)
    part = np.arange(count) // rows_a_part
    null = pc.is_null(answers.values).to_numpy(zero_copy_only=False) & ~answers.failed
    there = ~null & ~answers.failed

    def spread(flags: Flags) -> Flags:
        return np.broadcast_to(flags, part.max() + 1)[part]

    wrong = (answers.failed & ~spread(spec.fail)) | (null & ~spread(spec.null))
    wrong |= there & ~spread(occupied(spec.values))
    index = np.flatnonzero(there & ~wrong)
    if len(index):
        inside = _inside(spec, type_name, answers.values.take(pa.array(index)), part[index])
        wrong[index[~inside]] = True
    return wrong


def _inside(spec: Spec, type_name: str, values: pa.Array, part: np.ndarray) -> Flags:
    def of(array: np.ndarray) -> np.ndarray:
        return array[part] if array.size > 1 else np.repeat(array, len(part))

    match spec.values:
        case Bools() as known:
            answer = values.to_numpy(zero_copy_only=False).astype(bool)
            return np.where(answer, of(known.true), of(known.false))
        case Numbers() as known:
            number = physical(values, type_name)
            isnan = np.isnan(number) if number.dtype == np.float64 else np.zeros(len(part), bool)
            with np.errstate(invalid="ignore"):
                within = (number >= of(known.low)) & (number <= of(known.high)) & ~of(known.empty)
            return np.where(isnan, of(known.nan), within.astype(bool))
        case (Texts() | Json()) as known:
            return _inside_texts(as_texts(known), values, part, of)
        case _:
            return np.ones(len(part), bool)


def _inside_texts(known: Texts, values: pa.Array, part: np.ndarray, of: object) -> Flags:
    def bound(side: object) -> list[bytes | None]:
        if side is None or isinstance(side, pa.Scalar):
            return [None if side is None else side.as_py()] * len(part)
        return (
            side.take(pa.array(part)).to_pylist() if len(side) > 1 else side.to_pylist() * len(part)
        )  # type: ignore[attr-defined]

    low, high, empty = bound(known.low), bound(known.high), of(known.empty)  # type: ignore[operator]
    data = [v.encode() if isinstance(v, str) else v for v in values.to_pylist()]
    inside = [
        (a is None or a <= v) and (b is None or v <= b)
        for a, v, b in zip(low, data, high, strict=True)
    ]
    return np.array(inside) & ~empty


def physical(values: pa.Array, type_name: str) -> np.ndarray:
    """Return values as the interpreter counts them: days, microseconds, units of a decimal."""
    kind = spark_type(type_name)
    if kind.family == "float":
        return values.to_numpy(zero_copy_only=False).astype(np.float64)
    if kind.family == "decimal":
        whole = [unscaled(v, kind.scale) for v in values.to_pylist()]
        return np.array(whole, dtype=object)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif not pa.types.is_integer(values.type):
        values = values.cast(pa.int64())
    return values.to_numpy(zero_copy_only=False).astype(np.int64)
