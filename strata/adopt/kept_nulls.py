"""PyIceberg 0.12 with null lists and maps of structs, which it makes empty.

It puts such a list together anew, without saying which were null (apache/iceberg-python#3833).
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowProjectionVisitor

Made = Callable[..., pa.Array | None]
_MENDED: Final = ("list", "map")


def keep_nulls() -> None:
    """Have PyIceberg keep what is null, in this process and from now on."""
    for name in _MENDED:
        made = getattr(ArrowProjectionVisitor, name)
        if not hasattr(made, "keeps_nulls"):
            setattr(ArrowProjectionVisitor, name, _keeping(made))


def _keeping(made: Made) -> Made:
    def kept(visitor: Any, kind: Any, array: pa.Array | None, *inner: Any) -> pa.Array | None:
        found = made(visitor, kind, array, *inner)
        if array is None or found is None or found.null_count == array.null_count:
            return found
        rows = pa.array(np.arange(len(array)))
        return found.take(pc.if_else(array.is_valid(), rows, pa.scalar(None, rows.type)))

    kept.keeps_nulls = True  # type: ignore[attr-defined]
    return kept
