"""Admit a filter of another author only if it is an expression, never a program.

Soft evaluation runs filters with the operator's rights: those that others registered, that readers
used, and those in receipts. A text is checked twice: after parsing, before Spark resolves any name
in it (resolving a relation may read files, resolving an identifier may evaluate functions), and
after analysis. Spark's own functions pass; a text that queries another relation, calls Java or
Python, or gives another answer each time is refused. A filter from a log must also mean exactly the
logged tree, all of its functions must be certified, and it must not need much memory.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Opaque
from strata.expr.registry import REGISTRY
from strata.history.usage import filter_identity
from strata.model.schema import Relation
from strata.spark.front.catalyst import Now, analyse
from strata.spark.front.growth import check_growth
from strata.spark.front.tree import analysed_filter, empty_frame, filtered

CURE: Final = "give one condition on the shard's columns, in functions of Spark"
CHARS_MAX: Final = 2**18  # of a filter; each node is walked, and named to Spark
DEPTH_MAX: Final = 400  # of a parsed filter; walking a deeper one would overflow the stack
_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
# The unresolved nodes that name columns, functions of Spark and their arguments.
_UNRESOLVED: Final = frozenset(
    {
        "UnresolvedAttribute",
        "UnresolvedFunction",
        "UnresolvedExtractValue",
        "UnresolvedNamedLambdaVariable",
    }
)
# Functions whose further arguments name files: a schema, a descriptor, options with an address.
_READING: Final = {
    "from_avro": 0,
    "to_avro": 0,
    "schema_of_avro": 0,
    "from_protobuf": 0,
    "to_protobuf": 0,
    "from_xml": 2,
    "schema_of_xml": 1,
}
# Another person, or another session, gets another answer from these.
_OF_SESSIONS: Final = frozenset({"CurrentUser", "CurrentDatabase", "CurrentCatalog", "CurrentPath"})
_FAILING: Final = frozenset({"raise_error", "assert_true"})
_BUILTIN: Final[tuple[list[str], ...]] = (
    [],
    ["builtin"],
    ["system", "builtin"],
)  # allowed qualifiers of a name


def admitted(
    spark: SparkSession, relation: Relation, where: str, *, now: Now = None, ordered: bool = True
) -> Filter:
    """Return the filter of a text if it is an expression.

    Units: as `strata.spark.front.catalyst.analyse`. No part of the text is executed before a
    refusal.
    Raises: InvalidRequest for a text that Spark refuses, or that is more than an expression.
    """
    check_parsed(spark, where)
    check_analysed(spark, relation, where)
    return analyse(spark, relation, where, now=now, ordered=ordered)


def admitted_again(
    spark: SparkSession,
    relation: Relation,
    logged: Filter,
    *,
    now: Now = None,
    certified: bool = True,
) -> Filter:
    """Return a filter of a log or a receipt if its text still means the recorded tree.

    The tree differs if the session has another zone or ANSI mode, if a column has another type by
    now, or if someone other than a reader wrote the log. `certified`: also require a certified rule
    for each function, and values that stay small, since nobody has reviewed the filter.
    Raises: InvalidRequest if the tree differs, if a function is not certified, or if a value may
    become too large.
    """
    unknown = next(_uncertified(logged.expr), None) if certified else None
    if unknown is not None:
        raise InvalidRequest(
            "a part of the filter is not certified",
            filter=logged.sql,
            part=unknown,
            cure="register the filter, if it is to be watched",
        )
    if certified:
        check_growth(check_parsed(spark, logged.sql), logged.sql)
    forms = [
        admitted(spark, relation, logged.sql, now=now, ordered=ordered) for ordered in (True, False)
    ]
    if filter_identity(logged) not in [filter_identity(form) for form in forms]:
        raise InvalidRequest(
            "the filter's text means something else here than what was recorded",
            filter=logged.sql,
            cure="validate in the zone and ANSI mode in which it was used",
        )
    return forms[0]


def _uncertified(expr: Expr) -> Iterator[str]:
    """Yield the functions of a filter without a rule in the registry."""
    if isinstance(expr, Opaque):
        yield expr.reason
    if isinstance(expr, Call):
        if expr.function not in REGISTRY:
            yield expr.function
        for arg in expr.args:
            yield from _uncertified(arg)


def check_parsed(spark: SparkSession, where: str) -> JavaObject:
    """Return the parsed text, before any name in it is resolved, if it is an expression.

    Raises: InvalidRequest, naming the part.
    """
    if len(where) > CHARS_MAX:
        raise _refused("it is too long", where, f"{len(where):,} of {CHARS_MAX:,} characters")
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        tree = parser.parseExpression(where)
    except (PySparkException, Py4JJavaError):
        filtered(spark.range(0), where)  # raises with Spark's message and position
        raise InvalidRequest("the filter cannot be understood", filter=where, cure=CURE) from None
    _check_node(spark, tree, where, 0)
    return tree


def _check_node(spark: SparkSession, node: JavaObject, where: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _refused("it is nested too deeply", where, f"more than {DEPTH_MAX} levels")
    name = str(node.getClass().getName())
    short = name.rsplit(".", 1)[-1]
    if _is_a(spark, node, "PlanExpression") or "Subquery" in short:
        raise _refused("it asks another relation", where, short)
    if not name.startswith(_EXPRESSIONS) and short not in _UNRESOLVED:
        raise _refused(
            "only columns, constants and functions of Spark may stand in it", where, short
        )
    if short == "UnresolvedFunction":
        _check_function(spark, _texts(node.nameParts()), node.children().size(), where)
    children = node.children()
    for index in range(children.size()):
        _check_node(spark, children.apply(index), where, depth + 1)


def _check_function(spark: SparkSession, parts: list[str], given: int, where: str) -> None:
    """Refuse a function by its name; `given`: the number of its arguments."""
    *before, name = parts
    if [part.lower() for part in before] not in _BUILTIN or name.lower() not in _functions(spark):
        raise _refused("it calls a function that is none of Spark's own", where, ".".join(parts))
    if given > _READING.get(name.lower(), given):
        raise _refused("it calls a function that may read a file", where, name)
    if name.lower() in _FAILING:
        raise _refused("it fails on purpose", where, name)


def check_analysed(spark: SparkSession, relation: Relation, where: str) -> None:
    """Refuse an analysed filter that calls foreign code, or that is not deterministic.

    Raises: InvalidRequest, naming the part.
    """
    plan = analysed_filter(filtered(empty_frame(spark, relation), where))
    if plan is None:
        raise _refused("it is no condition on rows", where, where[:80])
    _check_meaning(spark, plan.condition(), where)


def _check_meaning(spark: SparkSession, node: JavaObject, where: str) -> None:
    short = str(node.getClass().getSimpleName())
    if _is_a(spark, node, "PlanExpression"):
        raise _refused("it asks another relation", where, short)
    if short in _OF_SESSIONS or short == "VariableReference":
        raise _refused("its answer depends on who asks, and where", where, str(node.sql())[:80])
    if _is_a(spark, node, "UserDefinedExpression"):
        raise _refused(
            "it calls a function that is none of Spark's own", where, str(node.sql())[:80]
        )
    children = [node.children().apply(index) for index in range(node.children().size())]
    # An expression with a nondeterministic argument is nondeterministic: blame the innermost.
    if not node.deterministic() and all(child.deterministic() for child in children):
        raise _refused(
            "it gives another answer each time, or calls Java", where, str(node.sql())[:80]
        )
    for child in children:
        _check_meaning(spark, child, where)


def _is_a(spark: SparkSession, node: JavaObject, name: str) -> bool:
    return bool(_class(spark, name).isInstance(node))


@lru_cache(maxsize=16)
def _class(spark: SparkSession, name: str) -> JavaObject:
    jvm: Any = spark._jvm
    return jvm.java.lang.Class.forName(_EXPRESSIONS + name)


@lru_cache(maxsize=4)
def _functions(spark: SparkSession) -> frozenset[str]:
    """Return the names of Spark's own functions."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry  # type: ignore[union-attr]
    names = registry.builtin().listFunction()
    return frozenset(str(names.apply(i).funcName()).lower() for i in range(names.size()))


def _texts(seq: JavaObject) -> list[str]:
    return [str(seq.apply(i)) for i in range(seq.size())]


def _refused(why: str, where: str, part: str) -> InvalidRequest:
    return InvalidRequest(
        f"the filter is not an expression: {why}", filter=where, part=part, cure=CURE
    )
