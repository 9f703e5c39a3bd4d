"""A filter as Spark analyses it, in the form of a tree that Python can walk.

The tree comes as JSON in one call. The JSON lacks evaluation modes, exact values and result types,
which are fetched node by node from the JVM, on demand. Only two optimizer rules are applied, which
eliminate `between`, `nvl`, `date - interval` and their kin, but fold and move nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from strata.errors import InvalidRequest
from strata.format.encodings import spark_ddl
from strata.model.schema import Relation
from strata.session.session import context_of
from strata.spark.front.java import spark_sql

CLASS_PREFIX: Final = "org.apache.spark.sql.catalyst.expressions."
Identity: TypeAlias = tuple[int, str]  # a number, and the JVM that gave it
_POSITION: Final = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_CURES: Final = {  # by Spark's name of what is wrong
    "COLUMN_IS_NOT_VARIANT_TYPE": "jsonb is a text to Spark: get_json_object(payload, '$.a.b'), "
    "and cast(... as int) for a number",
}


@dataclass(eq=False)
class Node:
    """One expression of Catalyst."""

    name: str  # class name without the package of expressions
    fields: Mapping[str, Any]  # scalar parameters, as in the JSON
    children: tuple["Node", ...] = ()
    parent: "Node | None" = None
    index: int = 0  # among the parent's children
    root: JavaObject | None = field(default=None, repr=False)  # only of the tree's top

    @cached_property
    def jvm(self) -> JavaObject:
        """Return the JVM object behind this node."""
        if self.parent is None:
            return self.root
        return self.parent.jvm.children().apply(self.index)

    @cached_property
    def type(self) -> str:
        """Return the result type as Spark's JSON names it; nested types as DDL text."""
        return type_name(self.jvm.dataType())

    def sql(self) -> str:
        """Return the shortened SQL text of this node, for people."""
        text = str(self.jvm.sql())
        return text if len(text) <= 80 else text[:77] + "..."

    def walk(self) -> Iterator["Node"]:
        """Yield this node and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Condition:
    """An analysed filter."""

    node: Node
    aliases: Mapping[Identity, Node]  # common expressions that Spark evaluates once
    spark: SparkSession  # the session that analysed it

    def uses_alias(self, node: Node) -> bool:
        """Return whether a common expression is used below a node."""
        return any(
            n.name == "AttributeReference" and attribute_id(n) in self.aliases for n in node.walk()
        )


def empty_frame(spark: SparkSession, relation: Relation) -> DataFrame:
    """Return a DataFrame without rows that has the relation's columns, by name.

    Raises: InvalidRequest for a session of Spark Connect, which shows no plan of a filter.
    """
    context_of(spark)
    columns = (f"`{c.name.replace('`', '``')}` {spark_ddl(c.type)}" for c in relation.columns)
    return _empty(spark, ", ".join(columns))


@lru_cache(maxsize=32)  # making one takes as long as analysing a filter on it
def _empty(spark: SparkSession, ddl: str) -> DataFrame:
    return spark.createDataFrame([], ddl)


def filtered(frame: DataFrame, where: str | Column) -> DataFrame:
    """Return `frame` filtered, analysed but not executed.

    Raises: InvalidRequest with Spark's first line, the fragment and its position in the text; also
    for text after the condition, which Spark would take for an alias.
    """
    if not isinstance(where, str | Column):
        raise InvalidRequest("a filter is SQL text or a Column", filter=repr(where))
    if isinstance(where, str):
        _check_whole(frame.sparkSession, where)
    try:
        return frame.filter(where)
    except (PySparkException, Py4JJavaError) as error:
        raise _invalid(error, where) from None


def _check_whole(spark: SparkSession, where: str) -> None:
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parseExpression(where)
    except (PySparkException, Py4JJavaError):
        return  # the analysis reports the error and its position
    # A path into JSON or a variant is an alias as well: Spark names it by its last step.
    if tree.getClass().getSimpleName() in _ALIASES and not _is_path(tree.child()):
        names = tree.names() if tree.nodeName() == "MultiAlias" else tree.name()
        raise InvalidRequest(
            "the filter is not whole: what stands behind the condition would name it",
            filter=where,
            condition=str(tree.child().sql()),
            behind=str(names),
            cure="finish the condition, or take away what stands behind it",
        )


_ALIASES: Final = ("Alias", "MultiAlias", "UnresolvedAlias")


def _is_path(node: JavaObject) -> bool:
    return bool(node.getClass().getSimpleName() == "SemiStructuredExtract")


def analysed(frame: DataFrame) -> JavaObject:
    """Return the analysed logical plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def analysed_filter(frame: DataFrame) -> JavaObject | None:
    """Return the analysed plan of a filtered DataFrame if its top is the filter itself."""
    plan = analysed(frame)
    return plan if plan.nodeName() == "Filter" else None


def normalised(spark: SparkSession, analysed: JavaObject) -> Condition | None:
    """Return the condition of an analysed filter, shells and `With` rewritten.

    None: the plan has a shape that is not expected here.
    """
    plan = analysed
    for rule in ("ReplaceExpressions", "RewriteWithExpression"):
        plan = spark_sql(spark, f"catalyst.optimizer.{rule}.apply")(plan)
    if plan.nodeName() == "Project":  # restores the columns after common expressions were added
        plan = plan.child()
    if plan.nodeName() != "Filter":
        return None
    aliases: dict[Identity, Node] = {}
    below = plan.child()
    while below.nodeName() == "Project":
        aliases |= named(below)
        below = below.child()
    return Condition(read_tree(plan.condition()), aliases, spark)


def chain(plan: JavaObject) -> list[JavaObject] | None:
    """Return the filters and projections of a plan over a scan, from the scan up.

    None: the plan contains other nodes, which are unknown here.
    """
    found = []
    while plan.nodeName() in ("Filter", "Project"):
        found.append(plan)
        plan = plan.child()
    if plan.nodeName() == "LocalRelation":  # the filter was found to be false: nothing is evaluated
        return []
    return found[::-1] if plan.nodeName() == "LogicalRDD" else None


def named(project: JavaObject) -> dict[Identity, Node]:
    """Return the expressions that a projection names."""
    chosen = _sequence(project.projectList())
    trees = [read_tree(n) for n in chosen if n.nodeName() == "Alias"]
    return {attribute_id(tree): tree.children[0] for tree in trees}


def attribute_id(node: Node) -> Identity:
    """Return the identity of an attribute, of an alias or of a lambda's variable.

    A name is none: a column may be called as Spark calls a common expression.
    """
    found = node.fields["exprId"]
    return found["id"], found["jvmId"]


def _sequence(seq: JavaObject) -> Iterator[JavaObject]:
    return (seq.apply(i) for i in range(seq.size()))


def read_tree(expression: JavaObject) -> Node:
    """Return the tree of a JVM expression."""
    return _nest(iter(json.loads(expression.toJSON())), expression)


def _nest(flat: Iterator[dict[str, Any]], root: JavaObject | None) -> Node:
    """Rebuild the tree from Spark's flat list in pre-order."""
    raw = next(flat)
    name = raw["class"].removeprefix(CLASS_PREFIX)
    node = Node(name, raw, root=root)
    node.children = tuple(_nest(flat, None) for _ in range(raw["num-children"]))
    for index, child in enumerate(node.children):
        child.parent, child.index = node, index
    return node


def type_name(data_type: JavaObject) -> str:
    """Return the name of a JVM data type."""
    text = json.loads(data_type.json())
    return text if isinstance(text, str) else str(data_type.catalogString())


def referenced_names(frame: DataFrame) -> frozenset[str] | None:
    """Return the names that a filter refers to, as its writer spelled them; None: unknown."""
    plan = analysed_filter(frame)
    if plan is None:
        return None
    try:
        return frozenset(a.name() for a in _sequence(plan.condition().references().toSeq()))
    except Py4JError:
        return None


def column_id(relation: Relation, name: str) -> int | None:
    """Return the id of the column that an analysed reference names; None if it is unclear.

    Spark keeps the spelling of the filter's text, and its names ignore case by default; the
    analysis refuses an ambiguous spelling.
    """
    exact = relation.by_name.get(name)
    if exact is not None:
        return exact.id
    same = [c.id for c in relation.columns if c.name.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def _invalid(error: Exception, where: str | Column) -> InvalidRequest:
    """Return an error that a user can act on: one line, the fragment, its position."""
    text = str(getattr(error, "java_exception", None) or error)
    line = next((part for part in text.splitlines() if part.strip()), "not a filter").strip()
    details: dict[str, object] = {"filter": where if isinstance(where, str) else str(where)}
    contexts: Sequence[Any] = ()
    cure = "give Spark SQL of type boolean"
    if isinstance(error, AnalysisException):
        contexts = error.getQueryContext() or ()
        cure = _CURES.get(error.getCondition() or "", cure)
    fragment = next((c for c in contexts if _has_fragment(c)), None)
    found = _POSITION.search(text)
    if fragment is not None:
        details |= {"fragment": fragment.fragment(), "position": fragment.startIndex()}
    elif found is not None and isinstance(where, str):
        details["position"] = _offset(where, int(found[1]), int(found[2]))
    return InvalidRequest(f"the filter cannot be understood: {line}", cure=cure, **details)


def _has_fragment(context: Any) -> bool:
    # The context of a Column has a call site instead, and asking it for a fragment raises.
    return "SQL" in str(context.contextType())


def _offset(text: str, line: int, position: int) -> int:
    """Return the character offset of a line (from 1) and a position in it."""
    return sum(len(part) for part in text.splitlines(keepends=True)[: line - 1]) + position
