"""Certificates tie the proof of a function's rule to the code of that rule.

A certificate (`docs/reference/certificates/NAME.json`) records that a property test against Spark
found no row outside the interpreter's range. It is valid for the code that it was made with: the
fingerprint covers the module of the transfer function and all modules of this package that it
imports. Comments and docstrings do not count. Pruning never reads certificates; a test refuses an
entry without a valid one.
"""

import ast
import hashlib
import importlib.util
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from strata.expr.entry import Entry

_PACKAGE: Final = "strata.expr"


def fingerprint(entry: Entry) -> str:
    """Return the hash of the code that an entry's rule depends on."""
    return fingerprint_of((entry.transfer.__module__,))


def fingerprint_of(modules: Iterable[str]) -> str:
    """Return the hash of the code of modules, and of all of this package that they import."""
    digest = hashlib.sha256()
    for name in sorted({name for module in modules for name in _closure(module)}):
        digest.update(f"{name}\n{_code(name)}\n".encode())
    return digest.hexdigest()[:16]


@cache
def _closure(module: str) -> frozenset[str]:
    """Return a module and all modules of the package that it imports, directly or indirectly."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imports(name)
    return frozenset(found)


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                if name and _is_module(name):
                    yield name


def _is_module(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a name inside a module
        return False
    return spec is not None and not (spec.origin or "").endswith("__init__.py")


@cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


@cache
def _code(module: str) -> str:
    """Return the code of a module without docstrings, comments and layout."""
    tree = ast.parse(ast.unparse(_tree(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _documented(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> bool:
    return inspect.cleandoc(ast.get_docstring(node) or "") != ""
