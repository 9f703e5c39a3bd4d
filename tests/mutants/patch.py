"""Put a mutant into an engine that is imported already: each function's code is exchanged.

Fast, and not enough for what is made while a module is imported (constants, tables, defaults,
functions that were called then): a mutant that survives so is laid over its module and judged
again (`tests.mutants.judge`).
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutants.choose import PROJECT, source

Place = tuple[str, int, int]  # qualified name, first line, which of those alike
_ENGINE = str(PROJECT / "strata")
_known: list[FunctionType] = []  # of the engine, as far as `remember` has found them


def remember() -> None:
    """Find the functions of the engine once, for all processes that are forked from this one.

    What there is now is not collected any more: a fork that only looks at it copies none of it.
    """
    gc.unfreeze()  # what was frozen when tests were collected is not among the collector's objects
    gc.collect()
    _known[:] = [one for one in _functions() if one.__code__.co_filename.startswith(_ENGINE)]
    gc.freeze()


def is_in_functions(module: str, changed: CodeType) -> bool:
    """Return whether the code of some function of a module is changed: else there is no patch."""
    return dict(_placed(changed)) != dict(_placed(_original(module)))


def patch(module: str, changed: CodeType) -> bool:
    """Exchange the code of all functions of a module; return whether that could be done."""
    file = str(source(module))
    new = dict(_placed(changed))
    moved = {code: new.get(place) for place, code in _placed(_original(module))}
    for function in [*_known, *_functions()]:
        code = function.__code__
        if code.co_filename != file or code not in moved:
            continue
        found = moved[code]
        if found is None or len(found.co_freevars) != len(code.co_freevars):
            return False
        if found != code:
            function.__code__ = found
    return True


def _original(module: str) -> CodeType:
    file = source(module)
    return compile(file.read_text("utf-8"), str(file), "exec", dont_inherit=True)


def _functions() -> list[FunctionType]:
    """Return all functions that are not frozen."""
    return [one for one in gc.get_objects() if type(one) is FunctionType]


def _placed(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    """Yield the codes of a module's functions by where they stand."""
    alike: dict[tuple[str, int], int] = {}
    waiting = [code]
    while waiting:
        for inner in waiting.pop(0).co_consts:
            if isinstance(inner, CodeType):
                name = (inner.co_qualname, inner.co_firstlineno)
                alike[name] = alike.get(name, -1) + 1
                yield (*name, alike[name]), inner
                waiting.append(inner)
