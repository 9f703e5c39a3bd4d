"""A fingerprint of the deciding code: evidence holds only for the code it was collected with.

It covers whole rooms: the front ends that read a filter, the row filters that run it, the records
about parts (statistics, key bounds, types as stored and as shown), and the decision. The shard's
budget for statistics is covered too. Only the meaning of the code counts: its syntax tree, without
comments, docstrings and layout. A release that changes nothing else keeps the evidence; with any
other release, evidence starts again from zero.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from strata.state.state import State
from strata.stats import STATS_VERSION

_ROOT: Final = Path(__file__).resolve().parents[1]
ROOMS: Final = (
    "expr",
    "plain",
    "decide",
    "stats",
    "spark",
    "format",
    "model",
    "parts",
)
_PARSING: Final = Lock()  # two threads that parse at once end in a SystemError (CPython 3.11)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def basis_of(state: State) -> str:
    """Return the basis of a shard's evidence: code, statistics version, and budget."""
    with _PARSING:
        code = _code()
    return f"{code}.{STATS_VERSION}.{state.spec.stats.budget_bytes}"


@cache
def _code() -> str:
    return code_of(_ROOT)


def code_of(root: Path) -> str:
    """Return the fingerprint of the deciding rooms below a folder.

    Cost: parses a few hundred files, once per process.
    """
    digest = hashlib.blake2b(digest_size=6)
    for name in ROOMS:
        for file in sorted((root / name).rglob("*.py")):
            digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
            words: list[str] = []
            _say(ast.parse(file.read_bytes()), words)
            digest.update("\0".join(words).encode())
    return digest.hexdigest()


def _say(node: ast.AST, words: list[str]) -> None:
    """Add the words of a syntax tree, without empty fields, which a Python release may add."""
    words.append(type(node).__name__)
    if isinstance(node, ast.Constant):
        words.append(f"{type(node.value).__name__} {node.value!r}")
        return
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == []:
            continue
        held = value if isinstance(value, list) else [value]
        if name == "body" and isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            held = held[1:]
        words.append(f"({name}")
        for one in held:
            if isinstance(one, ast.AST):
                _say(one, words)
            else:
                words.append(repr(one))
        words.append(")")
