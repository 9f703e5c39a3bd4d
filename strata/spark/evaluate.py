"""The evaluator of soft evaluation: Spark runs a filter on the rows of would-be-skipped parts.

All parts go through one query that counts rows and accepted rows per part. If the query fails, the
parts are halved and tried again, down to single parts. So an error is assigned to the parts that
raise it, and the others still get their verdict.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strata.audit.escape import SeenValues
from strata.audit.receipts import Receipt, Replay, keep_receipt, replay
from strata.audit.run import Check, Scope, ValidationReport, validate_shard
from strata.audit.soft import NO_GROUPS, Evaluated, Groups, judged_instants
from strata.audit.used import LoggedFilter
from strata.config.filters import RegisteredFilter
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.expr.filter import Filter
from strata.format.manifest import PartRef
from strata.machine.reader_hold import reading
from strata.model.runner import Runner
from strata.model.schema import Relation
from strata.model.settings import ReadSettings, StoreSettings, ValidateSettings
from strata.read.scan import DEFAULTS
from strata.spark.failures import cause, is_of_no_row, task_error
from strata.spark.front.admit import admitted_again
from strata.spark.front.catalyst import referenced
from strata.spark.front.registered import analyse_registered
from strata.spark.front.rowfilter import row_filter
from strata.spark.front.tree import empty_frame
from strata.spark.limited import TooLong, run_within
from strata.spark.rows import part_rows
from strata.spark.runner import spark_runner
from strata.spark.witness import witnessed
from strata.state.state import State
from strata.store.open import Stores

PART = "__part"  # no column of a shard can have this name: declarations check names
ERROR_CHARS = 500
# Filters run one at a time, however many shards a job works on: the time of one that takes for ever
# would be that of the filters beside it, which wait for its cores.
_TURN: Final = Lock()
SECONDS = ValidateSettings().filter_seconds


def spark_evaluator(
    spark: SparkSession,
    store: StoreSettings,
    relations: Sequence[Relation],
    seconds: float = SECONDS,
) -> "SparkEvaluator":
    """Return the evaluator that runs filters in this session, each query for `seconds` at most."""
    return SparkEvaluator(spark, store, tuple(relations), seconds)


@dataclass(frozen=True)
class SparkEvaluator:
    """Runs filters and their sub-expressions on the rows of parts."""

    spark: SparkSession
    store: StoreSettings
    relations: tuple[Relation, ...]
    seconds: float = SECONDS

    def __call__(
        self, filter: Filter, refs: Sequence[PartRef], groups: Groups = NO_GROUPS, /
    ) -> list[Evaluated]:
        """Return the result of each part."""
        judge = _Judge(self.spark, self.store, self.relations, filter, groups, self.seconds)
        with _TURN:
            return _evaluate(judge, list(refs), time.monotonic() + 2 * self.seconds)

    def witness(self, filter: Filter, ref: PartRef, /) -> list[SeenValues]:
        """Return the values of a filter's sub-expressions on the rows of a part.

        Returns nothing if it takes longer than the filter itself may, or if it fails.
        """
        spark, relation = self.spark, self.relations[-1]

        def looked() -> list[SeenValues]:
            names = [relation.by_id[i].name for i in referenced(spark, relation, filter.sql)]
            rows = part_rows(spark, self.store, self.relations, [ref], names).localCheckpoint()
            return list(witnessed(spark, rows, relation, filter))

        try:
            with _TURN:
                return run_within(spark, self.seconds, looked)
        except Exception:  # the finding stands, whether or not it can be explained
            return []


@dataclass(frozen=True)
class _Judge:
    """A filter, and everything needed to read rows for it."""

    spark: SparkSession
    store: StoreSettings
    relations: tuple[Relation, ...]
    filter: Filter
    groups: Groups
    seconds: float  # of one query


def _evaluate(judge: _Judge, refs: list[PartRef], end: float) -> list[Evaluated]:
    """Return the result of each part; where it fails, look for the parts that fail until `end`.

    Units: `end` in seconds of the monotonic clock.
    """
    alone = list({ref.key: ref for ref in refs}.values())
    try:
        seconds = max(0.0, min(judge.seconds, end - time.monotonic()))
        found = run_within(judge.spark, seconds, lambda: _count(judge, alone))
    except TooLong as error:
        said = f"the filter's query was stopped: {error}; see `validate.filter_seconds`"
        return [Evaluated(ref.key, 0, 0, failed=said) for ref in refs]
    except Exception as error:
        if len(refs) > 1:
            half = len(refs) // 2
            return _evaluate(judge, refs[:half], end) + _evaluate(judge, refs[half:], end)
        return [_failure(judge, refs[0], error)]
    rows = {row[PART]: row for row in found}
    return [
        Evaluated(ref.key, rows[ref.key]["rows"], rows[ref.key]["accepted"])
        if ref.key in rows
        else Evaluated(ref.key, 0, 0)
        for ref in refs
    ]


def _count(judge: _Judge, refs: Sequence[PartRef]) -> list[Mapping[str, Any]]:
    """Return the numbers of rows and accepted rows of each part with rows, by one query."""
    relation, filter = judge.relations[-1], judge.filter
    names = [relation.by_id[i].name for i in referenced(judge.spark, relation, filter.sql)]
    rows = part_rows(
        judge.spark,
        judge.store,
        judge.relations,
        refs,
        names,
        part_column=PART,
        groups=judge.groups,
    )
    counted = rows.groupBy(PART).agg(F.count("*").alias("rows"), F.lit(0).alias("accepted"))
    for now in judged_instants(filter):
        accepted = row_filter(judge.spark, rows, filter.sql, now).groupBy(PART)
        counted = counted.unionByName(
            accepted.agg(F.lit(0).alias("rows"), F.count("*").alias("accepted"))
        )
    total = counted.groupBy(PART).agg(
        F.sum("rows").alias("rows"), F.sum("accepted").alias("accepted")
    )
    return [row.asDict() for row in total.collect()]


def _failure(judge: _Judge, ref: PartRef, error: Exception) -> Evaluated:
    """Return the meaning of an error on a single part."""
    found = error if isinstance(error, StrataError) else task_error(error)
    if found is not None:
        return Evaluated(ref.key, 0, 0, failed=str(found), corrupt=isinstance(found, Corrupt))
    said = cause(error)[:ERROR_CHARS]
    if is_of_no_row(error):
        return Evaluated(ref.key, 0, 0, failed=said)
    if _fails_on_nothing(judge):
        return Evaluated(ref.key, 0, 0, failed=f"the filter fails on no rows at all: {said}")
    return Evaluated(ref.key, 0, 0, error=said)


def _fails_on_nothing(judge: _Judge) -> bool:
    """Return whether a filter fails even without rows: then its error is not about a part."""
    spark, filter = judge.spark, judge.filter
    rows = empty_frame(spark, judge.relations[-1])
    try:
        for now in judged_instants(filter):
            run_within(spark, judge.seconds, row_filter(spark, rows, filter.sql, now).count)
    except Exception:
        return True
    return False


def validate(  # noqa: PLR0913 - options, by name
    spark: SparkSession,
    stores: Stores,
    name: str,
    filters: Sequence[RegisteredFilter],
    scope: Scope,
    *,
    now: int | None = None,
    used: Sequence[LoggedFilter] = (),
    read: ReadSettings = DEFAULTS,
    seconds: float = SECONDS,
    runner: Runner | None = None,
) -> ValidationReport:
    """Validate one shard on Spark: these filters softly, and the format of its parts.

    `used` are filters of readers. If one of them cannot run, because a column is gone or because it
    is more than an expression of certified functions, the report gives the reason; this is no
    error. A filter's query is stopped after `seconds`, and then its parts have no verdict. The
    skips of each filter are kept as a receipt, for `strata replay --shard`. The checked parts stay
    stored meanwhile, by a hold of `read.hold_ms`. `runner`: of format checks, by default Spark's.
    Units: `now` in milliseconds: the value of now(), which overrides that of the filters.
    Raises: InvalidRequest for a filter that Spark cannot analyse.
    """
    with reading(stores, name, read, "validate") as state:
        checks = [Check(f.name, analyse_registered(spark, state.relation, f, now)) for f in filters]
        unusable = []
        for one in used:
            try:
                checks.append(Check(one.name, _understood(spark, state, one.filter, seconds)))
            except InvalidRequest as error:
                unusable.append(f"{one.filter.sql[:ERROR_CHARS]}: {error}")
        evaluator = spark_evaluator(spark, stores.settings, state.relations, seconds)
        report = validate_shard(
            stores, name, checks, evaluator, runner or spark_runner(spark), scope
        )
        if scope.parts is None:  # a replay of single parts decides nothing new
            _keep_receipts(stores, state, checks, report)
        return replace(report, unusable=tuple(unusable))


def replayed(
    spark: SparkSession, stores: Stores, state: State, receipt: Receipt, seconds: float = SECONDS
) -> Replay:
    """Make the decision of a receipt again, and look into the skipped parts.

    Raises: InvalidRequest as `strata.audit.receipts.replay`, and for a receipt whose filter is more
    than an expression, or whose text no longer means the tree of the decision.
    """
    relations = state.relations[: int(receipt["relation_version"]) + 1]
    inner = spark_evaluator(spark, stores.settings, relations, seconds)

    def evaluate(
        filter: Filter, refs: Sequence[PartRef], groups: Groups = NO_GROUPS, /
    ) -> list[Evaluated]:
        now = (filter.now_low, filter.now_high)
        admitted_again(spark, relations[-1], filter, now=now, certified=False)
        return inner(filter, refs, groups)

    return replay(stores, state, receipt, evaluate)


def _understood(spark: SparkSession, state: State, logged: Filter, seconds: float) -> Filter:
    """Return a filter of the log in executable form; raises InvalidRequest if it must not run."""
    now = (logged.now_low, logged.now_high)
    try:
        with _TURN:  # analysis evaluates constants, which may take for ever
            return run_within(
                spark, seconds, lambda: admitted_again(spark, state.relation, logged, now=now)
            )
    except TooLong as error:
        raise InvalidRequest("the filter is not understood in time", reason=str(error)) from None


def _keep_receipts(
    stores: Stores, state: State, checks: Sequence[Check], report: ValidationReport
) -> None:
    """Keep a receipt of each check's skips, except where manifests are damaged.

    The report then names the damage, and must still reach its readers.
    """
    try:
        for check in checks:
            keep_receipt(stores, state, check.filter)
    except Corrupt:
        if not report.mismatches:
            raise
