"""How kernels are compiled: once for each machine, kept beside the source, without the GIL."""

import functools
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types

from strata.kernels import ready

F = TypeVar("F", bound=Callable[..., object])


@functools.cache
def _sources(module: str) -> frozenset[Path]:
    """Return the files of a kernel module and of all kernel modules that it is built from."""
    source = Path(__file__).with_name(module + ".py")
    inner = re.findall(r"^from strata\.kernels\.(\w+) import", source.read_text(), re.MULTILINE)
    return frozenset({source}).union(*map(_sources, inner))


@functools.cache
def stamp(module: str) -> str:
    """Return a digest of the sources of a module's kernels; "" if there are no files."""
    try:
        sources = sorted(_sources(module))
        return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    except OSError:
        return ""


def compiled(function: F) -> F:
    """Return `function`, compiled at its first call and then taken from the cache.

    If no folder for the cache is writable, each process compiles for itself.
    """
    return _cached(functools.partial(numba.njit, nogil=True), function)


def lean(function: F) -> F:
    """Return `function` compiled like `compiled`, for kernels that make no arrays.

    It has no reference counts: a kernel that is called for each token would spend nearly all its
    time on the counts of its arguments.
    """
    return _lean(function, inline=False)


def inlined(function: F) -> F:
    """Return a `lean` kernel that is built into each of its callers."""
    return _lean(function, inline=True)


def _lean(function: F, *, inline: bool) -> F:
    jit = functools.partial(numba.njit, nogil=True, forceinline=inline, _nrt=False)
    return _cached(jit, function)


def _cached(jit: Callable[..., Any], function: F) -> F:
    """Return a kernel whose cache is valid until one of its sources changes.

    By default, numba checks only the file of each function, and would run old code that was built
    into it from another file.
    """
    kernel: Any = jit()(function)
    if hasattr(kernel, "_cache"):  # NUMBA_DISABLE_JIT leaves the function as it is
        kernel.get_call_template = functools.partial(_template, kernel.get_call_template)
        with suppress(RuntimeError):  # numba found no place for its cache
            kernel._cache = ready.KernelCache(
                function, stamp(function.__module__.rpartition(".")[2])
            )
    return cast("F", kernel)


def _template(found: Callable[..., Any], args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
    """Return what `found`, numba's own choice, gives for a call with the types of constants.

    Numba compiles a function anew for each constant that another kernel hands to it, and all that
    it calls as well: half of the time that the kernels of JSON took.
    """
    plain: Callable[[Any], Any] = types.unliteral
    return found(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})
