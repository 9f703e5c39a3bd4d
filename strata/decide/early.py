"""A look at the first conjunct that costs less than the interpreter's, for tables of many parts.

It finds parts on which the conjunct is neither true nor fails. There are two looks. Neighbouring
parts are judged together, by ranges that enclose theirs, as pages of a manifest are. Of texts that
have to be a constant, or to begin with it, words of some bytes are compared with those of the
constant.
Law (tests/laws/test_early.py): a decision is the same without it.
Errs: may miss parts, never names one on which the conjunct may be true or fail.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from strata.expr.entry import bools
from strata.expr.interpret import Environment, Interpreter, Unknown
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.sparktype import spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Bounds,
    Flags,
    Numbers,
    Spec,
    Texts,
    both,
    either,
    negated,
    occupied,
    uniform,
)
from strata.kernels.arrays import Bytes, Int32s, Ints
from strata.plain.rows import filter_columns

EARLY_PARTS: Final = 32_768  # of fewer parts the look costs more than it spares
BLOCK_PARTS: Final = 256  # neighbours that are judged together
_WORDS: Final = ((8, "<u8"), (4, "<u4"), (2, "<u2"), (1, "u1"))
_EQUALITIES: Final = frozenset({"equal_to", "equal_null_safe"})
_PREFIX: Final = "starts_with"


class EarlyLook:
    """Finds parts that the first conjunct of a filter rules out."""

    def __init__(
        self,
        conjunct: Expr,
        interpreter: Interpreter,
        every: Environment,
        parts: int,
        *,
        null_matters: bool,
    ) -> None:
        """Take the conjunct; one that reads numbers only is evaluated on blocks of neighbours.

        `every` is the environment of all `parts` parts. `null_matters`: what follows a null may
        fail, so that parts with one are not ruled out.
        """
        self._null_matters = null_matters
        self._text = _wanted_text(conjunct, interpreter.quarantine)
        self._out, self.conjunct = NO, conjunct  # the conjunct with constants for settled calls
        kinds = [spark_type(column.type).family for column in filter_columns(conjunct)]
        if kinds and all(kind in ("int", "float", "decimal") for kind in kinds):
            self._judge_blocks(interpreter, every, parts)

    def _judge_blocks(self, interpreter: Interpreter, every: Environment, parts: int) -> None:
        blocks = PartBlocks(every, np.arange(0, parts, BLOCK_PARTS))
        found: dict[int, Spec] = {}
        spec = interpreter.evaluate(self.conjunct, blocks, found)
        out = self._certain(YES, spec, bools(spec).true)
        self._out = out if out.size == 1 else np.repeat(out, BLOCK_PARTS)[:parts]
        if out is not YES and not blocks.lacks_values:
            self.conjunct = with_constants(self.conjunct, found)

    def ruled_out(self, view: Environment, rows: slice) -> Flags:
        """Return the parts of a chunk that need not be judged further.

        Shape: an element a part, or one for all. `view` is the environment of these rows.
        """
        if self._text is None:
            return self._out if self._out.size == 1 else self._out[rows]
        column, value, whole = self._text
        spec = view.column(column)
        values = spec.values
        if not isinstance(values, Texts):
            return NO
        if values.low is not values.high:
            out = either(beyond(values.low, value, above=True), beyond(values.high, value))
        else:
            out = unlike(values.low, value) if whole else begins_otherwise(values.low, value)
        return self._certain(out, spec, NO)

    def _certain(self, out: Flags, spec: Spec, true: Flags) -> Flags:
        """Return where something is ruled out that is neither true nor fails, nor leads to more."""
        open_ = either(either(true, spec.fail), spec.null if self._null_matters else NO)
        return uniform(both(out, negated(open_)))


def _wanted_text(expr: Expr, quarantine: frozenset[str]) -> tuple[Column, bytes, bool] | None:
    """Return the column and the text of a conjunct, and whether it wants the whole text.

    None: it is neither an equality of a column and a constant text nor a constant start of one.
    """
    if not isinstance(expr, Call) or len(expr.args) != 2:
        return None
    if expr.function in _EQUALITIES and not _EQUALITIES & quarantine:
        pairs = [expr.args, expr.args[::-1]]
    elif expr.function == _PREFIX and _PREFIX not in quarantine:
        pairs = [expr.args]
    else:
        return None
    for one, other in pairs:
        if isinstance(one, Column) and isinstance(other, Literal) and one.type == other.type:
            value = other.value.encode() if isinstance(other.value, str) else other.value
            if spark_type(one.type).family == "text" and isinstance(value, bytes):
                return one, value, expr.function != _PREFIX
    return None


def unlike(texts: pa.Array, value: bytes) -> Flags:
    """Return texts (binary) that certainly differ from a value; those that are null never do.

    Shape: an element a text, or one for all.
    Errs: leaves texts of the same length that begin and end alike, or end alike where lengths vary.
    """
    found = _bytes_of(texts)
    if found is None:
        return NO
    ends, data = found
    other: Flags = ends[1:] - ends[:-1] != len(value)
    if other.all():
        return YES
    if not value:
        return other
    if other.any():
        last = np.maximum(ends[1:] - 1, 0)  # an empty text is of another length
        return either(other, data.take(last) != value[-1])
    return _differ(ends, data, value, len(value))


def begins_otherwise(texts: pa.Array, prefix: bytes) -> Flags:
    """Return texts (binary) that certainly do not begin with a prefix, as `unlike` does.

    Errs: leaves texts that are alike in the first and last bytes of the prefix, or in its last byte
    where lengths vary.
    """
    found = _bytes_of(texts)
    if found is None or not prefix:
        return NO
    ends, data = found
    sizes = ends[1:] - ends[:-1]
    shorter: Flags = sizes < len(prefix)
    if shorter.all():
        return YES
    size = int(sizes[0])
    if (sizes == size).all():
        return _differ(ends, data, prefix, size)
    last = np.minimum(ends[:-1] + len(prefix) - 1, len(data) - 1)  # a shorter text has no such byte
    return either(shorter, data.take(last) != prefix[-1])


def beyond(texts: pa.Array, value: bytes, *, above: bool = False) -> Flags:
    """Return texts (binary) that sort before a value, or `above` it, by their first bytes alone.

    So no text beyond them on that side begins with the value. Shape: an element a text, or one for
    all. Errs: leaves texts whose first bytes are the value's, and all where lengths vary.
    """
    found = _bytes_of(texts)
    if found is None or not value or not len(texts):
        return NO
    ends, data = found
    size = int(ends[1] - ends[0])
    if not size or (ends[1:] - ends[:-1] != size).any():
        return NO
    kind = next(k for w, k in _WORDS if w <= min(size, len(value)))
    ordered = np.dtype(kind).newbyteorder(">")
    words = np.ndarray(len(texts), ordered, data, offset=int(ends[0]), strides=(size,))
    other = np.frombuffer(value, ordered, 1)[0]
    flags: Flags = words > other if above else words < other
    return flags


def _bytes_of(texts: pa.Array) -> tuple[Int32s, Bytes] | None:
    """Return where each text begins and ends, and their bytes; None if some may be null."""
    if texts is None or not pa.types.is_binary(texts.type) or texts.null_count:
        return None
    _, places, held = texts.buffers()
    if places is None or held is None:
        return None
    ends = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return ends, np.frombuffer(held, np.uint8)


def _differ(ends: Int32s, data: Bytes, value: bytes, size: int) -> Flags:
    """Return which texts, all of one size, differ from a value in its first or its last word.

    Shape: an element a text; `size` is at least that of the value, which is not empty.
    """
    width, kind = next((w, k) for w, k in _WORDS if w <= len(value))
    differs = NO
    for start in {0, len(value) - width}:
        words = np.ndarray(len(ends) - 1, kind, data, offset=int(ends[0]) + start, strides=(size,))
        differs = either(differs, words != np.frombuffer(value, kind, 1, start)[0])
    return differs


def with_constants(expr: Expr, specs: Mapping[int, Spec]) -> Expr:
    """Return an expression with a constant for each call that is the same on all rows of all parts.

    `specs` has what each node may yield in each block. A call is settled only where no part can be
    without a value: what is made of its result then needs nothing else. What a lambda of
    `aggregate` yields is known of its last step alone, so its calls stay.
    """
    if not isinstance(expr, Call) or not any(filter_columns(expr)):
        return expr
    spec = specs.get(id(expr))
    if spec is not None and isinstance(spec.values, Bools) and not (spec.null | spec.fail).any():
        for value, never, always in (
            (False, spec.values.true, spec.values.false),
            (True, spec.values.false, spec.values.true),
        ):
            if always.all() and not never.any():
                return Literal(value, "boolean")
    if expr.function == "aggregate":
        return expr
    args = tuple(with_constants(arg, specs) for arg in expr.args)
    if all(one is other for one, other in zip(args, expr.args, strict=True)):
        return expr
    return Call(expr.function, args, expr.type, expr.options)


class PartBlocks:
    """The environment of blocks of neighbours: what a column may hold in any part of a block."""

    def __init__(self, parts: Environment, starts: Ints) -> None:
        """Take the environment of all parts, and the first part of each block."""
        self._parts, self._starts = parts, starts
        self._specs: dict[int, Spec] = {}
        self.lacks_values = False  # some part may have nothing but nulls in a column

    def column(self, column: Column) -> Spec:
        """Return what a column of numbers may hold; one of others may hold anything."""
        if column.id not in self._specs:
            self._specs[column.id] = self._together(column)
        return self._specs[column.id]

    def _together(self, column: Column) -> Spec:
        spec = self._parts.column(column)
        values = spec.values
        if not isinstance(values, Numbers) or values.low.dtype == object:
            self.lacks_values |= bool(occupied(values).size > 1 or not occupied(values).all())
            return Unknown().column(column)
        low, high = values.low, values.high
        self.lacks_values |= bool(values.empty.any())
        if values.empty.any():  # bounds of no number mean nothing
            least, most = _ends(low)
            low, high = np.where(values.empty, most, low), np.where(values.empty, least, high)
        some = self._reduced(np.logical_or, negated(values.empty))
        joined = Numbers(
            self._reduced(np.minimum, low),
            self._reduced(np.maximum, high),
            negated(some),
            self._reduced(np.logical_or, values.nan),
        )
        null, fail = (self._reduced(np.logical_or, flags) for flags in (spec.null, spec.fail))
        return Spec(joined, null, fail)

    def _reduced(self, by: np.ufunc, values: Bounds) -> Bounds:
        found: Bounds = values if values.size == 1 else by.reduceat(values, self._starts)
        return found


def _ends(bounds: Bounds) -> tuple[float | int, float | int]:
    if bounds.dtype == np.float64:
        return -np.inf, np.inf
    limits = np.iinfo(np.int64)
    return limits.min, limits.max
