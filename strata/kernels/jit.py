"""How kernels are compiled: once for each machine, kept beside the source, without the GIL."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Return `function` compiled at its first call, and from then on found in the cache.

    Where no folder can be written for the cache, each process compiles for itself.
    """
    try:
        return cast("F", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no place for its cache
        return cast("F", numba.njit(nogil=True)(function))
