"""Where values are single ones, and which; for `strata.expr.functions.points`."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.sparktype import spark_type
from strata.expr.spec import (
    NO,
    YES,
    Flags,
    Json,
    Numbers,
    TextBound,
    Texts,
    Values,
    both,
    either,
    negated,
    text_compare,
    uniform,
)

Places = np.ndarray[Any, np.dtype[np.int64]]


def are_single(values: Values, type_name: str) -> Flags | None:
    """Return where there is exactly one value; None for a kind of values that is not handled."""
    if isinstance(values, Json) and type_name == "string":
        return None if values.quoted else _only_strings(values)
    if isinstance(values, Texts) and type_name == "string":
        if values.low is None or values.high is None:
            return None
        alike = YES if values.low is values.high else NO
        if alike is NO:
            return both(
                text_compare("equal", values.low, values.high, unknown=False),
                negated(values.empty),
            )
        if isinstance(values.low, pa.Array) and not values.low.null_count:
            return negated(values.empty)
        known = pc.is_valid(values.low)
        valid = np.array([known.as_py()]) if isinstance(known, pa.Scalar) else np.asarray(known)
        return both(uniform(valid), negated(values.empty))
    if isinstance(values, Numbers) and spark_type(type_name).family == "int":
        if {values.low.dtype.kind, values.high.dtype.kind} != {"i"}:
            return None  # a whole number that is held as a fraction is written otherwise
        return both(uniform(values.low == values.high), negated(either(values.empty, values.nan)))
    return None


def _only_strings(values: Json) -> Flags | None:
    """Return where JSON is one text."""
    others = (values.true, values.false, values.lists, values.maps, negated(values.numbers.empty))
    found = are_single(values.strings, "string")
    if found is None:
        return None
    for kind in (*others, values.numbers.nan):
        found = both(found, negated(kind))
    return found


def count_of(values: Values) -> int:
    """Return the number of parts that values are of; 1 may stand for all."""
    if isinstance(values, Json):
        values = values.strings
    if isinstance(values, Numbers):
        return max(values.low.size, values.high.size)
    ends = (values.low, values.high) if isinstance(values, Texts) else ()
    return max(
        (1 if end is None or isinstance(end, pa.Scalar) else len(end) for end in ends), default=1
    )


def coded(
    values: Values, rows: np.ndarray[Any, np.dtype[np.intp]]
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the different values of some parts, and the number of each part's value among them."""
    if isinstance(values, Numbers):
        low = np.broadcast_to(values.low, max(values.low.size, values.high.size))
        some = low[rows] if low.size > 1 else np.repeat(low, len(rows))
        different, codes = np.unique(some, return_inverse=True)
        return different.tolist(), codes
    bound = texts_at(values)
    if isinstance(bound, pa.Scalar) or len(bound) == 1:
        one = bound if isinstance(bound, pa.Scalar) else bound[0]
        return [_decoded(one.as_py())], np.zeros(len(rows), np.int64)
    array = bound.take(pa.array(rows))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    encoded = array.dictionary_encode()
    texts = [_decoded(data) for data in encoded.dictionary.to_pylist()]
    return texts, np.asarray(encoded.indices, np.int64)


def texts_at(values: Values) -> TextBound:
    """Return the low bounds of texts, or of texts in JSON: the texts where they are single."""
    texts = values.strings if isinstance(values, Json) else values
    assert isinstance(texts, Texts)
    return texts.low


def _decoded(data: bytes) -> str | None:
    """Return a text; None for bytes that are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
