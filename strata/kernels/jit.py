"""How kernels are compiled: once for each machine, kept beside the source, without the GIL."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

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


def lean(function: F) -> F:
    """Return `function` compiled as `compiled` does it, for kernels that make no arrays.

    Without reference counts: a kernel that is called for each token would spend nearly all of its
    time on those of its arguments.
    """
    return _lean(function, inline=False)


def inlined(function: F) -> F:
    """Return a `lean` kernel that is built into each of its callers."""
    return _lean(function, inline=True)


def _lean(function: F, *, inline: bool) -> F:
    jit: Callable[..., Any] = functools.partial(
        numba.njit, nogil=True, forceinline=inline, _nrt=False
    )
    try:
        return cast("F", jit(cache=True)(function))
    except RuntimeError:
        return cast("F", jit()(function))
