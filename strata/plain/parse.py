"""Parse a filter in Spark SQL without Spark, if it is plain.

SQLGlot parses the text in Spark's dialect. Each node of its tree is looked up in the table below,
and becomes the expression that Spark's own analysis would yield in a session of
`strata.session.session` (ANSI mode, zone UTC), casts included. A plain filter compares columns with
constants that their types hold exactly, or what a function of `strata.plain.functions` makes of a
column, so it can never fail. Everything else is refused with the construct that needs Spark: other
functions, arithmetic, escapes, casts of texts, constants that a column cannot hold.

Errs: towards refusing. Law: `tests/spark/test_plain.py` compares the trees with Spark's.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from strata.errors import InvalidRequest
from strata.expr.conditions import flat
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.model.near import one_of
from strata.model.schema import Column as SchemaColumn
from strata.model.schema import Relation
from strata.plain.clock import UNBRACKETED, clock_value
from strata.plain.constants import CASES, coerced
from strata.plain.functions import NAMES, VALUES, only, refused, unbracketed
from strata.plain.numbers import (
    CAST,
    Compared,
    Constant,
    Spelling,
    cast_to,
    compared_by,
    needs_spark,
)
from strata.plain.types import WHOLE, comparable_type

LONGEST: Final = 10_000  # characters of a text that is parsed
# What Spark takes for a function where no column has that name, in backticks, too.
_UNBRACKETED_FUNCTION: Final = re.compile(
    r"current_\w+|localtime|localtimestamp|(session_|system_)?user|grouping__id", re.IGNORECASE
)
ESCAPE: Final = (("escape", "\\"),)  # of LIKE, as Spark has it by default
# Outside quotes: words, numbers, comparisons, brackets. No comment, parameter, escape or operator.
_QUOTED: Final = re.compile(r"'[^'\\]*'|`[^`]*`")
_BARE: Final = re.compile(r"[A-Za-z0-9_ \t\r\n().,<>=!+%:-]*")
_TROUBLE: Final = re.compile(r"--|!(?!=)|==|(?<![0-9.][eE])\+|\bunknown\b", re.IGNORECASE)

_COMPARISONS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        exp.EQ: "equal_to",
        exp.NEQ: "equal_to",
        exp.GT: "greater_than",
        exp.GTE: "greater_than_or_equal",
        exp.LT: "less_than",
        exp.LTE: "less_than_or_equal",
        exp.NullSafeEQ: "equal_null_safe",
        exp.NullSafeNEQ: "equal_null_safe",
    }
)
_CALLED: Final = re.compile(r"([A-Za-z_]\w*)\s*\(", re.ASCII)
_KEYWORDS: Final = frozenset(
    {"and", "or", "not", "in", "between", "like", "is", "null", "true", "false", "where", "ilike"}
)
_NULL_TESTS: Final = MappingProxyType({"isnull": "is_null", "isnotnull": "is_not_null"})
_BETWEEN: Final = ("greater_than_or_equal", "less_than_or_equal")
_NEGATED: Final = (exp.NEQ, exp.NullSafeNEQ)


class UnknownColumn(InvalidRequest):
    """A filter names a column that the relation does not have; Spark would refuse it as well."""


def plain_filter(
    relation: Relation, where: str, now: int | None = None, *, clock: bool = False
) -> Filter:
    """Return the meaning of `where` for rows of `relation`, as Spark's analysis would.

    `clock`: whether it may depend on the time of `now`, as that of one read may.
    Units: `now` in microseconds since 1970; None takes the clock.
    Raises: InvalidRequest, naming the construct, for a filter that needs Spark or is wrong;
    UnknownColumn for a name that no column has.
    """
    if len(where) > LONGEST:
        raise needs_spark("a text of this length")
    bare = _QUOTED.sub(" ", where)
    if (trouble := _trouble(bare)) is not None:
        raise needs_spark(f"{trouble!r}: a character, comment or operator outside of what is plain")
    try:
        tree = _tree(where)
        _check_names(relation, tree)
        expr = _Parser(relation, clock=clock).whole(tree)
        _check_functions(bare)
    except (SqlglotError, RecursionError) as error:
        raise InvalidRequest(
            "the filter cannot be parsed", filter=where, reason=_first_line(error)
        ) from None
    moment = time.time_ns() // 1000 if now is None else now
    return Filter(expr, where, moment, moment)


def _tree(where: str) -> exp.Expr:
    """Return the tree of a filter. Raises: SqlglotError, also where the library has none."""
    try:
        return sqlglot.parse_one(where, dialect="spark")
    except (SqlglotError, RecursionError):
        raise
    except Exception as error:
        raise SqlglotError(str(error)) from error


def _trouble(bare: str) -> str | None:
    """Return the first character or operator of a text without quotes that is not plain."""
    plain = _BARE.match(bare)
    end = 0 if plain is None else plain.end()
    if end < len(bare):
        return bare[end]
    found = _TROUBLE.search(bare)
    return None if found is None else found[0]


def plain_or_none(relation: Relation, where: str, now: int | None = None) -> Filter | None:
    """Return the meaning of a plain filter of one read; None for one that needs Spark.

    Raises: UnknownColumn, with the nearest names: nobody waits for Spark to hear of a misspelt one.
    """
    try:
        return plain_filter(relation, where, now, clock=True)
    except UnknownColumn:
        raise
    except InvalidRequest:
        return None


class _Parser:
    """Translates SQLGlot's tree of one filter."""

    def __init__(self, relation: Relation, *, clock: bool) -> None:
        names = {column.name.upper() for column in relation.columns}
        # A column of that name hides what Spark calls without brackets.
        self._relation, self._clock = relation, clock and names.isdisjoint(UNBRACKETED)

    def whole(self, tree: exp.Expr) -> Expr:
        """Return the expression of a whole filter.

        What a BETWEEN compares is evaluated once. Where that comes before all else, Spark's
        analysis leaves a test of it, which is true of every value.
        """
        found, first = self.condition(tree), _first(tree)
        value = self.operand(unbracketed(first.this)) if isinstance(first, exp.Between) else None
        if value is None or isinstance(value, Column):
            return found
        return Call("and", (_either(value), *flat("and", found)), "boolean")

    def condition(self, node: exp.Expr) -> Expr:
        """Return a boolean expression."""
        for kind, rule in _RULES.items():
            if isinstance(node, kind):
                return rule(self, node)
        raise refused(node)

    def inner(self, node: exp.Expr) -> Expr:
        """Return what stands in brackets."""
        return self.condition(only(node, "this").this)

    def logic(self, node: exp.Expr, *, negated: bool = False) -> Expr:
        """Return AND or OR; nested ones of the same kind are one call, a NOT moves inwards."""
        function = "and" if isinstance(node, exp.And) is not negated else "or"
        both = only(node, "this", "expression")
        side = self.opposite if negated else self.condition
        sides = (side(both.this), side(both.expression))
        return Call(function, tuple(a for s in sides for a in flat(function, s)), "boolean")

    def negated(self, node: exp.Expr) -> Expr:
        """Return NOT."""
        return self.opposite(only(node, "this").this)

    def opposite(self, node: exp.Expr) -> Expr:
        """Return the negation of a condition, moved as `strata.spark.front.ordered` moves it."""
        inner = unbracketed(node)
        if isinstance(inner, exp.And | exp.Or):
            return self.logic(inner, negated=True)
        if isinstance(inner, exp.Not):
            return self.condition(only(inner, "this").this)
        return _not(self.condition(inner))

    def flag(self, node: exp.Expr) -> Expr:
        """Return a boolean column alone."""
        column = self.column(node)
        if column.type != "boolean":
            raise needs_spark(f"{column.name} as a condition")
        return column

    def comparison(self, node: exp.Expr) -> Expr:
        """Return a comparison of a column with a constant, on either side, or of two columns."""
        function = _COMPARISONS[type(node)]
        both = only(node, "this", "expression")
        left, right = unbracketed(both.this), unbracketed(both.expression)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            args: tuple[Expr, ...] = self.columns(left, right)
        elif _is_value(right):
            column, (constant,) = self.fitted(right, [left], compared_by(function, mirrored=True))
            args = (constant, column)
        else:
            column, (constant,) = self.fitted(left, [right], compared_by(function))
            args = (column, constant)
        found = Call(function, args, "boolean")
        return _not(found) if isinstance(node, _NEGATED) else found

    def is_(self, node: exp.Expr) -> Expr:
        """Return IS [NOT] NULL, IS [NOT] TRUE, IS [NOT] FALSE without the NOT."""
        both = only(node, "this", "expression")
        column = self.column(unbracketed(both.this))
        if isinstance(both.expression, exp.Null):
            return Call("is_null", (column,), "boolean")
        if not isinstance(both.expression, exp.Boolean) or column.type != "boolean":
            raise refused(node)
        value = Literal(bool(both.expression.this), "boolean")
        return Call("equal_null_safe", (column, value), "boolean")

    def null_test(self, node: exp.Expr) -> Expr:
        """Return isnull(column), isnotnull(column): as IS NULL without and with NOT."""
        function = _NULL_TESTS.get(node.this.lower() if isinstance(node.this, str) else "")
        args = only(node, "this", "expressions").expressions
        if function is None or len(args) != 1:
            raise refused(node)
        return Call(function, (self.column(unbracketed(args[0])),), "boolean")

    def between(self, node: exp.Expr) -> Expr:
        """Return BETWEEN as its two comparisons."""
        parts = only(node, "this", "low", "high")
        ends = (parts.args["low"], parts.args["high"])
        sides: list[Expr] = []
        for function, end in zip(_BETWEEN, ends, strict=True):
            column, (constant,) = self.fitted(parts.this, [end], compared_by(function))
            sides.append(Call(function, (column, constant), "boolean"))
        return Call("and", tuple(sides), "boolean")

    def in_(self, node: exp.Expr) -> Expr:
        """Return IN with a list of constants."""
        parts = only(node, "this", "expressions")
        column, constants = self.fitted(parts.this, parts.expressions, Compared.LISTED)
        return Call("in", (column, *constants), "boolean")

    def like(self, node: exp.Expr) -> Expr:
        """Return [NOT] LIKE with a constant pattern."""
        parts = only(node, "this", "expression", "negate")
        column, (pattern,) = self.fitted(parts.this, [parts.expression])
        if column.type != "string" or _counts_letters(column, pattern):
            raise refused(node)
        found = Call("like", (column, pattern), "boolean", ESCAPE)
        return _not(found) if parts.args.get("negate") else found

    def ilike(self, node: exp.Expr) -> Expr:
        """Return [NOT] ILIKE: LIKE of small letters, with a pattern in ASCII."""
        parts = only(node, "this", "expression", "negate")
        text = self.column(unbracketed(parts.this))
        small = Call("lower", (text,), "string")
        _, (pattern,) = coerced(small, [_constant(unbracketed(parts.expression))])
        if text.type != "string" or _counts_letters(small, pattern):
            raise refused(node)
        assert isinstance(pattern, Literal)
        lowered = Literal(str(pattern.value).lower(), "string")
        found = Call("like", (small, lowered), "boolean", ESCAPE)
        return _not(found) if parts.args.get("negate") else found

    def text_test(self, node: exp.Expr) -> Expr:
        """Return whether a text begins with, ends with or contains a constant."""
        parts = only(node, "this", "expression")
        column, (part,) = self.fitted(parts.this, [parts.expression])
        if column.type != "string":
            raise refused(node)
        return Call(_TEXT_TESTS[type(node)], (column, part), "boolean")

    def is_nan(self, node: exp.Expr) -> Expr:
        """Return whether a number is NaN."""
        column = self.column(unbracketed(only(node, "this").this))
        if column.type not in ("double", "float"):
            raise refused(node)
        return Call("is_nan", (column,), "boolean")

    def flag_or(self, node: exp.Expr) -> Expr:
        """Return a boolean column, or a constant where it is null."""
        found = self.operand(node)
        if found.type != "boolean":
            raise refused(node)
        return found

    def fitted(
        self,
        node: exp.Expr,
        constants: Sequence[exp.Expr],
        how: Compared = Compared.WITHIN,
    ) -> tuple[Expr, tuple[Expr, ...]]:
        """Return a value and the constants compared with it, cast as Spark casts them."""
        written = [self.constant(unbracketed(one)) for one in constants]
        return coerced(self.operand(unbracketed(node)), written, how)

    def operand(self, node: exp.Expr) -> Expr:
        """Return a column, or what a function makes of one."""
        if type(node) in VALUES:
            return VALUES[type(node)](node, self.column, _constant)
        return self.column(node)

    def constant(self, node: exp.Expr) -> Constant | Expr:
        """Return a constant as it is written, or a time that depends on the clock."""
        found = clock_value(node) if self._clock else None
        return found or _constant(node)

    def columns(self, left: exp.Expr, right: exp.Expr) -> tuple[Expr, ...]:
        """Return two columns of one type that has no special values, of whole numbers or times."""
        found = self.column(left), self.column(right)
        kinds = {column.type for column in found}
        if kinds == {"timestamp", "timestamp_ntz"}:
            return tuple(
                column if column.type == "timestamp" else Call("cast", (column,), "timestamp", CAST)
                for column in found
            )
        if kinds <= {*WHOLE}:
            widest = max(kinds, key=WHOLE.index)
            return tuple(cast_to(column, widest) for column in found)
        if len(kinds) > 1 or kinds & {"double", "float"}:
            raise needs_spark(f"a comparison of {found[0].name} with {found[1].name}")
        return found

    def column(self, node: exp.Expr) -> Column:
        """Return a column by its name, which ignores case as in Spark."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise refused(node)
        found = _found(self._relation, only(node, "this").name)
        if found is None:
            raise refused(node)
        kind = comparable_type(found.type)
        if kind is None:
            raise needs_spark(f"column {found.name} of type {found.type}")
        return Column(found.id, found.name, kind, found.nullable)


def _found(relation: Relation, name: str) -> SchemaColumn | None:
    """Return the column of this name, which ignores case as in Spark."""
    found = relation.by_name.get(name)
    if found is None and name.isascii():
        low = name.lower()
        found = next((c for c in relation.columns if c.name.lower() == low), None)
    return found


def _check_names(relation: Relation, tree: exp.Expr) -> None:
    """Refuse a name that no column can have, where the tree holds nothing but operands.

    Errs: towards Spark, which judges names inside of anything else, as a lambda's variables are.
    Raises: UnknownColumn.
    """
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, exp.Column):
            _check_name(relation, node)
        elif type(node) in _OPERATORS:
            left += [v for value in node.args.values() for v in _nodes(value)]


def _check_functions(bare: str) -> None:
    """Refuse a name before a bracket that SQLGlot may know, but Spark does not, or otherwise."""
    for name in _CALLED.findall(bare):
        if name.lower() not in NAMES and name.lower() not in _KEYWORDS:
            raise needs_spark(f"{name}()")


def _check_name(relation: Relation, node: exp.Column) -> None:
    name = node.name
    if node.table or not isinstance(node.this, exp.Identifier) or not name.isascii():
        return
    if _UNBRACKETED_FUNCTION.fullmatch(name):
        return
    # Java ignores case by capitals, too: a dotless i is an I.
    if name.upper() in {c.name.upper() for c in relation.columns} or _found(relation, name):
        return
    known = [c.name for c in relation.columns]
    raise UnknownColumn("no column of this name", column=name, cure=one_of(name, known))


def _nodes(value: object) -> list[exp.Expr]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, exp.Expr)]


def _constant(node: exp.Expr) -> Constant:
    """Return a constant as it is written."""
    if isinstance(node, exp.Neg) and (number := _number(only(node, "this").this)):
        return Constant(Spelling.NUMBER, f"-{number}")
    if number := _number(node):
        return Constant(Spelling.NUMBER, number)
    if isinstance(node, exp.Literal):
        return Constant(Spelling.TEXT, node.this)
    if isinstance(node, exp.Null):
        return Constant(Spelling.NULL, "null")
    if isinstance(node, exp.Boolean):
        return Constant(Spelling.BOOL, "true" if node.this else "false")
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        inner, target = node.this, node.to
        kind = _TYPED.get(target.this) if not target.expressions else None
        if kind is not None and isinstance(inner, exp.Literal) and inner.is_string:
            return Constant(kind, inner.this)
    raise refused(node)


def _number(node: exp.Expr) -> str | None:
    """Return a number as it is written; 0.5D and a cast of 0.5 to a double are 0.5e0."""
    if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DOUBLE:
        found = _number(node.this) if isinstance(node.this, exp.Literal) else None
        return found if found is None or "e" in found.lower() else f"{found}e0"
    return str(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def _first(node: exp.Expr) -> exp.Expr:
    """Return the condition that is evaluated first."""
    while isinstance(node, exp.Paren | exp.Not | exp.And | exp.Or):
        node = node.this
    return node


def _is_value(node: exp.Expr) -> bool:
    """Return whether a node is a column or a function of one, not a constant."""
    if isinstance(node, exp.Cast):
        return not isinstance(node.this, exp.Literal)
    return isinstance(node, exp.Column) or type(node) in VALUES


def _counts_letters(value: Expr, pattern: Expr) -> bool:
    """Return whether a pattern counts letters of a text in another case, which may be more."""
    assert isinstance(pattern, Literal)
    return isinstance(value, Call) and value.function in CASES and "_" in str(pattern.value)


def _either(value: Expr) -> Expr:
    """Return a test that is always true."""
    return Call("or", tuple(Call(f, (value,), "boolean") for f in _NULL_TESTS.values()), "boolean")


def _not(expr: Expr) -> Expr:
    """Return the negation of what is neither AND nor OR in the text."""
    match expr:
        case Call("not", (inner,)):
            return inner
        case Call("is_null", args):
            return Call("is_not_null", args, "boolean")
        case Call("is_not_null", args):
            return Call("is_null", args, "boolean")
    return Call("not", (expr,), "boolean")


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0][:200] or type(error).__name__


_TEXT_TESTS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {exp.StartsWith: "starts_with", exp.EndsWith: "ends_with", exp.Contains: "contains"}
)
# Nodes whose arguments are values of the row and constants, never names of another kind.
_OPERATORS: Final = frozenset(
    {
        *_COMPARISONS, exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.Between, exp.In, exp.Like,
        exp.ILike, exp.Neg, exp.Sub, exp.Lower, exp.Upper, exp.Length, exp.Abs, exp.Coalesce,
        exp.IsNan, *_TEXT_TESTS, *VALUES, exp.TsOrDsToDate,
    }
)  # fmt: skip
_TYPED: Final[Mapping[object, Spelling]] = MappingProxyType(
    {
        exp.DataType.Type.DATE: Spelling.DATE,
        exp.DataType.Type.TIMESTAMPTZ: Spelling.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPNTZ: Spelling.TIMESTAMP_NTZ,
    }
)
_Rule = Callable[[_Parser, exp.Expr], Expr]
_RULES: Final[Mapping[type[exp.Expr], _Rule]] = MappingProxyType(
    {
        exp.Paren: _Parser.inner,
        exp.And: _Parser.logic,
        exp.Or: _Parser.logic,
        exp.Not: _Parser.negated,
        exp.Column: _Parser.flag,
        exp.Is: _Parser.is_,
        exp.Between: _Parser.between,
        exp.In: _Parser.in_,
        exp.Like: _Parser.like,
        exp.ILike: _Parser.ilike,
        exp.IsNan: _Parser.is_nan,
        exp.Coalesce: _Parser.flag_or,
        **dict.fromkeys(_TEXT_TESTS, _Parser.text_test),
        exp.Anonymous: _Parser.null_test,
        **dict.fromkeys(_COMPARISONS, _Parser.comparison),
    }
)
