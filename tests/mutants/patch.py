"""Put a mutant into an engine that is imported already: each function's code is exchanged.

Fast, and not enough for what is made while a module is imported (constants, tables, defaults,
functions that were called then): a mutant that survives so is laid over its module and judged
again (`tests.mutants.judge`).
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutants.choose import source

Place = tuple[str, int, int]  # qualified name, first line, which of those alike


def patch(module: str, changed: CodeType) -> bool:
    """Exchange the code of all functions of a module; return whether that could be done."""
    file = str(source(module))
    new = dict(_placed(changed))
    old = compile(source(module).read_text("utf-8"), file, "exec", dont_inherit=True)
    moved = {code: new.get(place) for place, code in _placed(old)}
    for function in [one for one in gc.get_objects() if type(one) is FunctionType]:
        code = function.__code__
        if code.co_filename != file or code not in moved:
            continue
        found = moved[code]
        if found is None or len(found.co_freevars) != len(code.co_freevars):
            return False
        if found != code:
            function.__code__ = found
    return True


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
