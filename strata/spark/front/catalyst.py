"""The front end: a filter in Spark SQL, or a `Column`, becomes Strata's typed expression.

Spark itself resolves names, types, casts and zones against an empty DataFrame of the shard's
schema. The resolved tree is translated by the table below into the registry's names
(`strata.expr.registry`). A node that is not in the table becomes `Opaque`: it may yield anything,
null or an error, so nothing is ever skipped because of it. Spark evaluates constant
sub-expressions, which arrive as exact literals.

Errs: towards `Opaque`. A filter that Spark refuses is the only error.
"""

import re
import time
from typing import Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from strata.expr.conditions import flat
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Opaque
from strata.model.schema import Relation
from strata.spark.front.constants import SPECIAL, SPECIAL_IN_SQL
from strata.spark.front.derived import with_derived
from strata.spark.front.forms import (
    also_failing,
    fails_always,
    fails_only,
    may_fail,
    null_tests_last,
    unbranched,
    with_extracted,
    with_repeated,
)
from strata.spark.front.legacy import CERTIFIED, older_meaning, other_release
from strata.spark.front.optimised import with_propagated
from strata.spark.front.ordered import frame_of, stages
from strata.spark.front.rowfilter import ZONED, stopped, with_clocks
from strata.spark.front.translate import CLOCK_BASE, Translator
from strata.spark.front.tree import (
    Condition,
    Identity,
    Node,
    analysed_filter,
    chain,
    column_id,
    empty_frame,
    filtered,
    named,
    normalised,
    read_tree,
    referenced_names,
)

Now = int | tuple[int, int] | None
VARIABLE: Final = 'expressions.VariableReference"'
_TYPED: Final = re.compile(r"\b(date|time|timestamp\w*)(\s|--.*\n|/\*[\s\S]*?\*/)*r?['\"]", re.I)


def analyse(
    spark: SparkSession,
    relation: Relation,
    where: str | SparkColumn,
    *,
    now: Now = None,
    ordered: bool = True,
) -> Filter:
    """Return the meaning of `where` for rows of `relation` as a filter.

    `ordered`: `strata.spark.front.rowfilter` filters the rows, so Spark evaluates conditions in
    their written order. Otherwise a `.where` of the user does, in any order that Spark chooses.
    Units: `now` in microseconds since 1970, or a range of it; None takes the clock.
    Raises: InvalidRequest when Spark does not accept `where` as a condition on these columns.
    Cost: about 30 ms, 0.3 s the first time in a JVM; no Spark job.
    """
    if now is None:
        now = time.time_ns() // 1000
    low, high = now if isinstance(now, tuple) else (now, now)
    frame = filtered(empty_frame(spark, relation), where)
    try:
        plan = analysed_filter(frame)
        if plan is None:
            expr: Expr = Opaque("a plan of unexpected shape", "boolean")
        else:
            judge = _Judge(spark, relation, plan, where if isinstance(where, str) else "", low)
            expr = judge.expression(ordered=ordered)
        sql = where if isinstance(where, str) else _column_sql(frame)
    except Exception as error:
        # A surprise may cost speed, never correctness nor the read itself.
        expr = Opaque(f"not understood: {type(error).__name__}: {str(error)[:80]}", "boolean")
        sql = str(where)
    return Filter(expr, sql, low, high)


def referenced(
    spark: SparkSession, relation: Relation, where: str | SparkColumn
) -> tuple[int, ...]:
    """Return the ids of the columns that `where` reads, in declared order; all if unclear."""
    everything = tuple(c.id for c in relation.columns)
    names = referenced_names(filtered(empty_frame(spark, relation), where))
    if names is None:
        return everything
    ids = {column_id(relation, name) for name in names}
    return everything if None in ids else tuple(i for i in everything if i in ids)


class _Judge:
    """Translates every form in which Spark may evaluate one filter over the empty relation."""

    def __init__(
        self, spark: SparkSession, relation: Relation, plan: JavaObject, sql: str, now: int
    ) -> None:
        """Units: now in microseconds since 1970."""
        self._spark, self._relation, self._plan, self._sql = spark, relation, plan, sql
        self._now = now
        self._lists: dict[Expr, Call] = {}

    def expression(self, *, ordered: bool) -> Expr:
        """Return the expression to judge: true where the filter is, failing as any form of it."""
        if self._reads_spark_clock():
            return Opaque("a date or time literal such as timestamp'now'; use now()", "boolean")
        other = other_release(self._spark)
        if other is not None:
            return Opaque(
                f"Spark {other}; functions are certified with Spark {CERTIFIED}", "boolean"
            )
        older = older_meaning(self._spark)
        if older is not None:
            return Opaque(
                f"the setting {older}, with which functions mean something else", "boolean"
            )
        if not ordered and self._reads_variable():
            return Opaque("a variable of the session, which may change", "boolean")
        written = self._plan.condition()
        found = stages(self._spark, written)
        conjuncts: tuple[Expr, ...] = ()
        if found.first is not None:
            form = self._in_order if ordered else self._in_any_order
            first = found.first if ordered else found.written
            conjuncts = flat("and", form(first))
        if found.late is not None:
            late = self._written(found.late)
            # Spark evaluates them outside the filter, for all rows that reach it.
            if not fails_always(flat("and", late)[0]):
                outside = "a Python function, or a subquery that reads the row"
                conjuncts = (*conjuncts, Opaque(outside, "boolean"))
            conjuncts = (*conjuncts, *flat("and", late))
        expr = conjuncts[0] if len(conjuncts) == 1 else Call("and", conjuncts, "boolean")
        return expr if ordered else with_derived(expr)

    def _in_order(self, condition: JavaObject) -> Expr:
        """Return a condition that Spark evaluates as written, apart from simplifications."""
        expr = with_repeated(unbranched(self._written(condition)), whole=False)
        if not may_fail(expr):
            return expr
        for made in self._optimised(condition):
            expr = also_failing(expr, with_repeated(unbranched(made), whole=False))
        return expr

    def _in_any_order(self, condition: JavaObject) -> Expr:
        """Return a condition that Spark splits, in its written and its optimised form."""
        written = with_propagated(self._written(condition))
        expr = with_extracted(with_repeated(written, whole=True))
        if not may_fail(expr):
            return expr
        forms = [null_tests_last(expr)]
        for found in self._optimised(condition):
            made = with_repeated(found, whole=True)
            forms += [made, null_tests_last(made)]
        for form in forms:
            expr = also_failing(expr, form)
        return expr

    def _written(self, condition: JavaObject) -> Expr:
        """Return a condition as written, preceded by everything that Spark evaluates before it."""
        found = normalised(self._spark, self._over_nothing(condition))
        if found is None:
            return Opaque("a plan of unexpected shape", "boolean")
        translator = Translator(self._relation, found)
        expr = translator.condition()
        self._lists |= translator.lists
        return expr

    def _optimised(self, condition: JavaObject) -> list[Expr]:
        """Return the forms of a condition after Spark's optimiser, if anything is evaluated.

        In the first form the clock stays symbolic, so that the form holds at any time. A condition
        that reads the clock has a second form with the constants of this moment: two ways to write
        a time may be the same constant, and Spark simplifies equal parts.
        """
        clocks: dict[str, tuple[JavaObject, Node]] = {}
        timeless = with_clocks(self._spark, condition, lambda node: self._reference(node, clocks))
        forms = [self._plan_of(timeless, [node for _, node in clocks.values()])]
        if clocks:
            forms.append(self._plan_of(stopped(self._spark, condition, self._now), []))
        return [form for form in forms if form is not None]

    def _plan_of(self, condition: JavaObject, clocks: list[Node]) -> Expr | None:
        """Return what Spark evaluates of a condition in its optimised plan; None for nothing.

        A condition that Spark cannot optimise fails in every read, independent of the parts.
        """
        frame = frame_of(self._spark, self._over_nothing(condition))
        try:
            plan = frame._jdf.queryExecution().optimizedPlan()
        except (Py4JJavaError, PySparkException):
            return None
        steps = chain(plan)
        if steps is None:
            return Opaque("an optimised plan of unexpected shape", "boolean")
        return self._of_steps(steps, clocks)

    def _of_steps(self, steps: list[JavaObject], clocks: list[Node]) -> Expr | None:
        """Return the conditions that filters and projections evaluate in sequence."""
        conjuncts: list[Expr] = []
        aliases: dict[Identity, Node] = {}
        for step in steps:
            if step.nodeName() == "Project":
                new = named(step)
                trees = list(new.values())
            else:
                new, trees = {}, [read_tree(step.condition())]
            for tree in trees:
                translator = Translator(
                    self._relation, Condition(tree, aliases, self._spark), clocks
                )
                translator.lists = self._lists
                expr = translator.expr(tree)
                conjuncts += (fails_only(expr),) if new else flat("and", expr)
            aliases |= new
        if not conjuncts:
            return None
        return conjuncts[0] if len(conjuncts) == 1 else Call("and", tuple(conjuncts), "boolean")

    def _over_nothing(self, condition: JavaObject) -> JavaObject:
        return self._plan.copy(condition, self._plan.child())

    def _reference(
        self, clock: JavaObject, clocks: dict[str, tuple[JavaObject, Node]]
    ) -> JavaObject:
        """Return the reference that stands for a reading of the clock while Spark optimises.

        Readings of the same clock share one, since Spark simplifies equal parts.
        """
        name = clock.getClass().getSimpleName().replace("Now", "CurrentTimestamp")
        key = f"{name} {clock.dataType()} {clock.timeZoneId() if name in ZONED else ''}"
        if key not in clocks:
            expressions = self._spark._jvm.org.apache.spark.sql.catalyst.expressions  # type: ignore[union-attr]
            number = CLOCK_BASE + len(clocks)
            reference = expressions.BoundReference(number, clock.dataType(), False)
            clocks[key] = reference, read_tree(clock)
        return clocks[key][0]

    def _reads_variable(self) -> bool:
        """Return whether the condition has a SQL variable's value, or `${name}` in its text."""
        return "${" in self._sql or VARIABLE in str(self._plan.condition().toJSON())

    def _reads_spark_clock(self) -> bool:
        """Return whether the text has a literal like timestamp'now', resolved while parsing."""
        written = len(SPECIAL_IN_SQL.findall(self._sql))
        if not written:
            return False
        if _TYPED.search(self._sql):
            texts = (self._sql[m.end() - 1 :] for m in _TYPED.finditer(self._sql))
            if any(SPECIAL_IN_SQL.match(text) for text in texts):
                return True
        condition = normalised(self._spark, self._plan)
        if condition is None:
            return True
        trees = (condition.node, *condition.aliases.values())
        strings = (
            n.fields["value"]
            for tree in trees
            for n in tree.walk()
            if n.name == "Literal" and n.fields["dataType"] == "string" and n.fields["value"]
        )
        # Strings among them are plain texts; any more of them were typed literals.
        return sum(1 for s in strings if SPECIAL.match(s)) < written


def _column_sql(frame: DataFrame) -> str:
    plan = analysed_filter(frame)
    return str(plan.condition().sql()) if plan is not None else ""
