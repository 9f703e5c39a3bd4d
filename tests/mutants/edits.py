"""The small changes of a source that tests must notice, found in its syntax tree.

What is never read while the engine decides is left alone: annotations, decorators, imports,
patterns of `match`, texts, assertions, `strict=` of a `zip`, what a module does as a program, and
whatever only makes the message of an error or of a log.
"""

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

_SHOWN: Final = 90  # letters of a source that are told

_OFF_BY_ONE: Final[dict[type, type]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_TURNED: Final[dict[type, type]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SIGNS: Final[dict[type, type]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS: Final = (
    ("min", "max"), ("any", "all"), ("minimum", "maximum"), ("fmin", "fmax"), ("floor", "ceil"),
    ("less", "less_equal"), ("greater", "greater_equal"), ("and_", "or_"), ("low", "high"),
    ("and_kleene", "or_kleene"), ("is_null", "is_valid"), ("logical_and", "logical_or"),
    ("min_element_wise", "max_element_wise"), ("lower", "upper"), ("first", "last"),
    ("both", "either"), ("left", "right"), ("argmin", "argmax"), ("equal", "not_equal"),
)  # fmt: skip
_TWIN: Final = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_CHOICES: Final = ("where", "if_else")
_TOLD: Final = ("log", "logger", "logging", "warnings")


@dataclass(frozen=True)
class Mutant:
    """One change of one source, named by what it changes: other edits of the file keep it."""

    module: str
    function: str  # qualified; "" at the level of the module
    kind: str
    before: str
    after: str
    nth: int  # of those alike

    @property
    def key(self) -> tuple[str, ...]:
        """Return what names it."""
        return (self.module, self.function, self.kind, self.before, self.after, str(self.nth))

    @property
    def lot(self) -> str:
        """Return what it is drawn by, the same each time and everywhere."""
        return hashlib.sha256("\0".join(self.key).encode()).hexdigest()


@dataclass(frozen=True)
class Edit:
    """A mutant, and how to make it in the tree that it was found in."""

    mutant: Mutant
    line: int
    apply: Callable[[], None]


Change = tuple[str, ast.AST]  # the kind, and what stands there instead


def edits(module: str, tree: ast.Module, only: tuple[str, str] | None = None) -> list[Edit]:
    """Return every change of a tree, in the order of the source; each can be applied once.

    `only`: those of one function and one kind.
    """
    found: list[Edit] = []
    counted: dict[tuple[str, ...], int] = {}
    for function, parent, field, place, node in _walk(tree, ""):
        for kind, new in _changes(node, parent, function):
            if only is not None and only != (function, kind):
                continue  # to write a change down takes longer than to find it
            before, after = _text(node), _text(new)
            alike = (function, kind, before, after)
            counted[alike] = counted.get(alike, -1) + 1
            mutant = Mutant(module, function, kind, before, after, counted[alike])
            found.append(Edit(mutant, node.lineno, _setter(parent, field, place, new, node)))
    return found


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """Return the tree of a source with one mutant in it; LookupError: the source has none such."""
    tree = ast.parse(source)
    for edit in edits(mutant.module, tree, (mutant.function, mutant.kind)):
        if edit.mutant == mutant:
            edit.apply()
            return ast.fix_missing_locations(tree)
    raise LookupError(f"{mutant.module} has no place for {mutant}")


def _setter(
    parent: ast.AST, field: str, place: int | None, new: ast.AST, old: ast.AST
) -> Callable[[], None]:
    def apply() -> None:
        ast.copy_location(new, old)
        if place is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[place] = new

    return apply


def _text(node: ast.AST) -> str:
    """Return the source of a node on one line, shortened."""
    whole = " ".join(ast.unparse(node).split())
    return whole if len(whole) <= _SHOWN else f"{whole[: _SHOWN - 1]}…"


_Found = tuple[str, ast.AST, str, int | None, Any]


def _walk(node: ast.AST, function: str) -> Iterator[_Found]:
    """Yield what may be changed: its function, its parent, where it stands there, and itself."""
    for field, value in ast.iter_fields(node):
        if _left_alone(node, field):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for place, child in children:
            if not isinstance(child, ast.AST) or _told(child):
                continue
            if isinstance(child, ast.stmt | ast.expr):
                yield function, node, field, place, child
            yield from _walk(child, _inside(child, function))


def _inside(node: ast.AST, function: str) -> str:
    """Return the qualified name of what a node's children stand in."""
    if isinstance(node, ast.FunctionDef):
        return f"{function}.{node.name}" if function else node.name
    if isinstance(node, ast.ClassDef):
        return f"{function}.{node.name}" if function else node.name
    return function


def _left_alone(node: ast.AST, field: str) -> bool:
    if field in ("annotation", "returns", "decorator_list", "bases", "type_params", "pattern"):
        return True
    if isinstance(node, ast.Call) and field == "args":
        return isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "cast", "NewType")
    return isinstance(node, ast.Assert) and field == "msg"


def _told(node: ast.AST) -> bool:
    """Return whether a node is only for people, for types, or brings in others."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _TOLD
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.keyword(arg="strict"):
            return True
        case _:
            return False


def _changes(node: Any, parent: ast.AST, function: str) -> Iterator[Change]:
    match node:
        case ast.Compare():
            yield from _of_comparison(node)
        case ast.BoolOp():
            yield from _of_condition(node)
        case ast.BinOp() if function:  # at the level of a module `|` joins types
            yield from _of_arithmetic(node)
        case ast.UnaryOp() if not isinstance(node.operand, ast.Constant):
            yield "negation dropped", node.operand
        case ast.IfExp() | ast.Call():
            yield from _of_choice(node)
        case ast.Attribute(ctx=ast.Load()) | ast.Name(ctx=ast.Load()):
            yield from _of_name(node, parent)
        case ast.Constant():
            yield from _of_constant(node, parent)
        case ast.stmt() if function:
            yield from _of_statement(node)


def _of_comparison(node: ast.Compare) -> Iterator[Change]:
    if len(node.ops) != 1:
        for n, op in enumerate(node.ops):
            if type(op) in _OFF_BY_ONE:
                new = [*node.ops[:n], _OFF_BY_ONE[type(op)](), *node.ops[n + 1 :]]
                yield "comparison off by one", ast.Compare(node.left, new, node.comparators)
        return
    op = type(node.ops[0])
    if op in _OFF_BY_ONE:
        yield (
            "comparison off by one",
            ast.Compare(node.left, [_OFF_BY_ONE[op]()], node.comparators),
        )
    if op in _TURNED:
        yield "comparison turned", ast.Compare(node.left, [_TURNED[op]()], node.comparators)


def _of_condition(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and for or", ast.BoolOp(other, node.values)
    for n in range(len(node.values)):
        rest = [value for m, value in enumerate(node.values) if m != n]
        yield "condition dropped", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _of_arithmetic(node: ast.BinOp) -> Iterator[Change]:
    left, right = node.left, node.right
    match node.op:
        case ast.BitAnd() | ast.BitOr() if not _is_joined(left) and not _is_joined(right):
            other = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
            yield "and for or", ast.BinOp(left, other, right)
            yield "condition dropped", left
            yield "condition dropped", right
            yield "mask inverted", ast.BinOp(ast.UnaryOp(ast.Invert(), left), node.op, right)
        case ast.Add() | ast.Sub() if isinstance(right, ast.Constant) and right.value == 1:
            yield "one dropped", left
        case op if type(op) in _SIGNS and not _is_joined(left) and not _is_joined(right):
            yield "sign turned", ast.BinOp(left, _SIGNS[type(op)](), right)


def _is_joined(node: ast.AST) -> bool:
    """Return whether a node is a text or a collection: its `+` and `|` put two together."""
    match node:
        case ast.JoinedStr() | ast.List() | ast.Tuple() | ast.ListComp() | ast.Dict() | ast.Set():
            return True
        case ast.Call(func=ast.Name(id="chr" | "str" | "set" | "frozenset" | "dict" | "tuple")):
            return True
        case ast.Constant(value=value):
            return isinstance(value, str | bytes)
        case ast.BinOp(left=part) | ast.IfExp(body=part):
            return _is_joined(part)
        case _:
            return False


def _of_choice(node: ast.IfExp | ast.Call) -> Iterator[Change]:
    if isinstance(node, ast.IfExp):
        yield "arms swapped", ast.IfExp(node.test, node.orelse, node.body)
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in _CHOICES and len(node.args) == 3:
        test, yes, no = node.args
        yield "arms swapped", ast.Call(node.func, [test, no, yes], node.keywords)


def _of_name(node: ast.Attribute | ast.Name, parent: ast.AST) -> Iterator[Change]:
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    called = isinstance(parent, ast.Call) and parent.func is node
    if name not in _TWIN:
        return
    if isinstance(node, ast.Attribute):
        yield "twin taken", ast.Attribute(node.value, _TWIN[name], ast.Load())
    elif called or name in ("low", "high"):
        yield "twin taken", ast.Name(_TWIN[name], ast.Load())


def _of_constant(node: ast.Constant, parent: ast.AST) -> Iterator[Change]:
    kind = "default changed" if isinstance(parent, ast.arguments) else ""
    if isinstance(node.value, bool):
        yield kind or "truth turned", ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield kind or "constant moved", ast.Constant(node.value + 1)
    elif node.value in ("left", "right"):
        yield "twin taken", ast.Constant(_TWIN[str(node.value)])


def _of_statement(node: ast.stmt) -> Iterator[Change]:
    match node:
        case ast.If(body=[ast.Return() | ast.Raise() | ast.Continue() | ast.Break()], orelse=[]):
            yield "guard removed", ast.Pass()
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Delete():
            yield "statement dropped", ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield "statement dropped", ast.Pass()
        case ast.Assign(targets=[ast.Name(id=name)]) if name in _names(node.value):
            yield "statement dropped", ast.Pass()
        case ast.Continue():
            yield "loop left", ast.Break()


def _names(node: ast.AST) -> Sequence[str]:
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
