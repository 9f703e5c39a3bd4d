"""A fingerprint of the deciding code: evidence holds only for the code it was collected with.

It covers whole rooms: the front ends that read a filter, the row filters that run it, the records
about parts (statistics, key bounds, types as stored and as shown), the order and the kernels that
make them, and the decision. The shard's budget for statistics is covered too. Only the meaning of
the code counts: its syntax tree, without comments, docstrings and layout. A release that changes
nothing else keeps the evidence; with any other release, evidence starts again from zero.

To parse every file takes a second, and each reader of a shard that may skip asks. So the answer is
kept beside the digest of the bytes that it came from: in Python's own cache of this module, and in
a wheel (`python -m strata.rollout.basis`). Those who can write there can as well edit the code.

A process whose files were replaced since it began has no fingerprint: nobody knows what it runs.
"""

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from strata.errors import InvalidRequest
from strata.model.loaded import OURS, ROOMS
from strata.state.state import State
from strata.stats import STATS_VERSION

_ROOT: Final = Path(__file__).resolve().parents[1]
_BROUGHT: Final = Path(__file__).with_name("basis.txt")
_KEPT: Final = re.compile(r"([0-9a-f]{64}) ([0-9a-f]{12})\n")
REPLACED: Final = "replaced since this process began: start it again"
_PARSING: Final = Lock()  # two threads that parse at once end in a SystemError (CPython 3.11)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def basis_of(state: State) -> str:
    """Return the basis of a shard's evidence: code, statistics version, and budget.

    Returns `REPLACED`, the basis of no evidence, if the code was replaced beneath this process.
    """
    with _PARSING:
        code = REPLACED if OURS.replaced() else _code()
    if code == REPLACED:
        return REPLACED
    return f"{code}.{STATS_VERSION}.{state.spec.stats.budget_bytes}"


def recorded_basis(state: State) -> str:
    """Return the basis of a shard's evidence, to be stored.

    Raises: InvalidRequest if the code was replaced beneath this process.
    """
    basis = basis_of(state)
    if basis == REPLACED:
        raise InvalidRequest(
            "the code of Strata was replaced beneath this process, which decides with the old one",
            shard=state.name,
            cure="start the process again",
        )
    return basis


@cache
def _code() -> str:
    own = Path(importlib.util.cache_from_source(__file__)).with_suffix(".txt")
    code = kept_code(_ROOT, [own, _BROUGHT])
    return REPLACED if OURS.replaced(at_once=True) else code


def kept_code(root: Path, places: Sequence[Path]) -> str:
    """Return `code_of(root)`, from one of these files if it is of the same bytes.

    What had to be found out is written to the first place, unless that fails or Python is asked to
    leave no caches behind. Cost: reads all files, about 10 ms; parses them where nothing is kept.
    """
    seal = _seal(root)
    for place in places:
        with suppress(OSError, UnicodeDecodeError):
            found = _KEPT.fullmatch(place.read_text("ascii"))
            if found is not None and found[1] == seal:
                return found[2]
    code = code_of(root)
    if _seal(root) == seal and not sys.dont_write_bytecode:  # nobody edited it meanwhile
        _keep(places[0], f"{seal} {code}\n")
    return code


def _keep(place: Path, text: str) -> None:
    """Write a file whole or not at all; a folder that is not ours to write is passed by."""
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(exist_ok=True)
        draft.write_text(text, "ascii")
        draft.replace(place)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _seal(root: Path) -> str:
    """Return a digest of the deciding rooms' bytes, of this file's, and of Python's release."""
    digest = hashlib.blake2b(repr(sys.version_info[:2]).encode(), digest_size=32)
    for name, file in [("", Path(__file__)), *_files(root)]:
        data = file.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _files(root: Path) -> list[tuple[str, Path]]:
    """Return the deciding files with their names below the root, in order."""
    files = [file for name in ROOMS for file in sorted((root / name).rglob("*.py"))]
    return [(file.relative_to(root).as_posix(), file) for file in files]


def code_of(root: Path) -> str:
    """Return the fingerprint of the deciding rooms below a folder.

    Cost: parses a few hundred files.
    """
    digest = hashlib.blake2b(digest_size=6)
    for name, file in _files(root):
        digest.update(f"{name}\0".encode())
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


if __name__ == "__main__":
    _BROUGHT.write_text(f"{_seal(_ROOT)} {code_of(_ROOT)}\n", "ascii")
