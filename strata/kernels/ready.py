"""Kernels that a wheel brings compiled, so that a new installation does not wait for minutes.

`python -m strata.kernels --ready` writes them to the folder `ready` beside this file before a wheel
is built. They are built for the processor `BASELINE` instead of this one, and hold for one release
of Python and of numba, one kind of system and unchanged sources. Numba's cache comes first: after
`python -m strata.kernels`, this machine uses kernels that are made for its processor.
"""

import functools
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys

FOLDER: Final = Path(__file__).with_name("ready")
BASELINE: Final = "x86-64-v2"  # servers since 2009
NEEDED: Final = ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")  # what it has, by LLVM
_use: list[bool] = [True]


def compile_again() -> None:
    """Leave the ready kernels alone in this process, so that each kernel is made for it."""
    _use[0] = False


@functools.cache
def runs_here() -> bool:
    """Return whether this processor has everything that code for `BASELINE` may use."""
    features = llvm.get_host_cpu_features()
    return all(features.get(name) for name in NEEDED)


class _WithoutNotes(CompileResultCacheImpl):
    """What is kept of a kernel: no annotated source, half of all bytes and full of paths."""

    def reduce(self, cres: Any) -> Any:
        return tuple("" if isinstance(item, str) else item for item in super().reduce(cres))


class KernelCache(FunctionCache):
    """Numba's cache of a function, then the ready kernel; valid while `stamp` is the same."""

    _impl_class = _WithoutNotes

    def __init__(self, function: Any, stamp: str) -> None:
        """Find the place of the cache. Raises: RuntimeError if no folder is writable."""
        super().__init__(function)
        if stamp:
            self._cache_file._source_stamp = stamp
        self._ready = IndexDataCacheFile(str(FOLDER), self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for these types; None: it has to be compiled.

        Numba would first load all that it knows about Python and numpy, half a second in each
        process. Only its compiler needs that, and loads it then; a kernel that is there needs what
        hands out memory.
        """
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        if found is not None or not (self._enabled and _use[0] and runs_here()):
            return found
        _, (system, _, _), code = self._index_key(sig, target_context.codegen())
        data = self._ready.load((sig, (system, BASELINE, ""), code))
        return None if data is None else self._impl.rebuild(target_context, data)
