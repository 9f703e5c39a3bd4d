"""Soft evaluation: fetch the would-be-skipped parts, and check whether any of them mattered.

A filter is decided for every part, at the level of batches (the union that the state names) and of
parts (the manifest), exactly as a read decides: `strata.decide.skips`. An evaluator then runs the
filter on the rows of the parts that either level would skip: an accepted row, or an error, is a
mismatch. The evaluator is a parameter, so the engine does not know Spark.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from strata import __version__
from strata.audit.blame import Lie, find_lies
from strata.audit.compare import Recorded, compare_part
from strata.audit.escape import Witness, escaping
from strata.audit.members import find_member_lies
from strata.audit.verdict import Verdict
from strata.decide.blooms import with_bits
from strata.decide.cases import case_places
from strata.decide.decision import decide, split_conjuncts
from strata.decide.places import compared_places, shaped_places
from strata.decide.skips import Skipped
from strata.decide.terms import paired_places
from strata.errors import Corrupt, Unavailable
from strata.expr.calendar import DAY_US
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.render import render
from strata.format.manifest import PartRef
from strata.model.shown import sql_word
from strata.parts.fetch import part_bytes, source_of
from strata.parts.unions import stats_of
from strata.read.scan import read_updates
from strata.state.state import State
from strata.stats.collect import collect
from strata.stats.wire import column_name, set_name, shape_name
from strata.store.open import Stores

NO_GROUPS: Final[Mapping[str, tuple[int, ...]]] = {}
NO_RULE: Final = (
    "every statistic and every rule holds on these rows: the filter ran in another order, or as "
    "another filter, than was judged"
)
CONFIRMED: Final = 8  # once this many mismatches have recurred, the others are not checked again
SQL_CHARS: Final = 2000  # of a filter's text in the verdict on a part; a mismatch has all of it
# Steps between the judged instants of a clock's span; each instant reads the parts again
INSTANTS: Final = 4


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of running the filter on the rows of one part."""

    part: str
    rows: int
    accepted: int
    error: str = ""  # the error raised by the filter on a row
    failed: str = ""  # why the part could not be read at all
    corrupt: bool = False  # the stored bytes contradict the state


Groups = Mapping[str, tuple[int, ...]]  # row groups by part; a missing part has all


class Evaluator(Protocol):
    """Runs a filter on the rows of parts, or of some row groups of them."""

    def __call__(
        self, filter: Filter, refs: Sequence[PartRef], groups: Groups = NO_GROUPS, /
    ) -> list[Evaluated]:
        """Return the result of each part; a missing part did not come back."""
        ...


def judged_instants(filter: Filter) -> list[int]:
    """Return the clock values, in microseconds, at which a filter is run on the rows.

    A skip is a claim about the whole span of the clock. It is tested at both ends, at even
    distances between them, and where days change in UTC. This is evidence, not proof: other
    instants are not tried.
    """
    low, high = filter.now_low, filter.now_high
    even = {low + (high - low) * step // INSTANTS for step in range(INSTANTS + 1)}
    first, last = low // DAY_US + 1, high // DAY_US
    apart = max(last - first, 0) // INSTANTS + 1
    days = {day * DAY_US for day in range(first, last + 1, apart)}
    return sorted(even | days | {day - 1 for day in days if day - 1 >= low})


class Confirming:
    """Checks the mismatches of one filter a second time."""

    def __init__(self, evaluate: Evaluator, filter: Filter) -> None:
        """Begin; nothing has recurred yet."""
        self._evaluate, self._filter, self._again = evaluate, filter, 0

    def confirmed(
        self, came: Mapping[str, Evaluated], skips: Mapping[str, Skipped]
    ) -> dict[str, Evaluated]:
        """Return the results after a second check of each mismatch, on its whole part alone.

        A mismatch that does not recur becomes a failed check: neither a pass nor a mismatch. Among
        thousands, the first that recur stand for the others.
        """
        found = dict(came)
        for key, result in came.items():
            if self._again >= CONFIRMED:
                break
            if result.failed or not (result.accepted or result.error) or key not in skips:
                continue
            one = skips[key]
            left = ({key: one.groups},) if one.groups else ()
            looked = self._evaluate(self._filter, [one.ref], *left)
            if any(r.accepted or r.error or r.failed for r in looked):
                found[key], self._again = looked[0], self._again + 1
            else:
                seen = result.error or f"{result.accepted} accepted rows"
                found[key] = Evaluated(key, 0, 0, failed=f"not seen a second time: {seen}")
        return found


def judge(  # noqa: PLR0913 - what came back, and how it is reported
    stores: Stores,
    state: State,
    filter: Filter,
    pairs: Iterable[tuple[Skipped, Evaluated | None]],
    *,
    run: str,
    check: str,
    witness: Witness | None = None,
) -> list[Verdict]:
    """Return one verdict for each would-be-skipped part, given the results.

    `witness` identifies the rule at fault; without it all rules of a conjunct are suspects.
    Cost: reads a part again, all columns, only where there is a mismatch to explain.
    """
    return [
        _lean(
            _verdict(
                stores,
                state,
                filter,
                skipped,
                result,
                _blank(state, filter, skipped, run, check),
                witness=witness,
            )
        )
        for skipped, result in pairs
    ]


def _lean(verdict: Verdict) -> Verdict:
    """Return a verdict without a filter's long text, unless it is a mismatch.

    A filter of 60 KB on 100,000 parts would fill the memory of the driver and the table twice.
    """
    length = len(verdict.sql)
    if length <= SQL_CHARS or verdict.outcome == "mismatch":
        return verdict
    return replace(verdict, sql=f"{verdict.sql[:SQL_CHARS]}… ({length:,} characters)", replay="")


def _blank(state: State, filter: Filter, skipped: Skipped, run: str, check: str) -> Verdict:
    """Return the verdict on a part without a result."""
    ref = skipped.ref
    return Verdict(
        run, state.name, check, filter.sql, ref.key, "missing", 0, 0, skipped.size_bytes,
        layout=ref.layout, stats_version=ref.stats_version or 0, code_version=__version__,
        stratum=f"{stratum(filter.expr, ref.layout)} × {kind_of(filter.expr, skipped)}",
        error="no result came back",
        replay=replay_command(state.name, filter, ref.key),
    )  # fmt: skip


def _verdict(  # noqa: PLR0913 - what is known of one part
    stores: Stores,
    state: State,
    filter: Filter,
    skipped: Skipped,
    result: Evaluated | None,
    blank: Verdict,
    *,
    witness: Witness | None,
) -> Verdict:
    if result is None:
        return blank
    read = replace(blank, rows=result.rows, accepted=result.accepted, error=result.error)
    if result.failed:
        if not result.corrupt:
            return replace(read, outcome="failed", error=result.failed)
        return replace(
            read,
            outcome="mismatch",
            bound="the part itself",
            error=result.failed,
            suspects=skipped.ref.key,
        )
    if not result.accepted and not result.error:
        if result.rows == skipped.rows:
            return replace(read, outcome="clean")
        return replace(read, error=f"{result.rows} of {skipped.rows} rows came back")
    lies = explain_mismatch(stores, state, filter, skipped)
    if lies:
        words = sorted({str(lie.column_id) for lie in lies})
        return replace(
            read,
            outcome="mismatch",
            column=lies[0].column,
            bound="; ".join(dict.fromkeys(map(str, lies))),
            suspects=" ".join(words),
        )
    if skipped.groups and (bound := _misplaced(stores, state, skipped)):
        return replace(
            read, outcome="mismatch", column="splits", suspects=skipped.ref.key, bound=bound
        )
    if witness is not None and not skipped.groups:
        whole = replace(skipped, stats=fetched_stats(stores, skipped))
        return _rule(state, filter, whole, witness, replace(read, outcome="mismatch"))
    guilty = proving(state, filter, replace(skipped, stats=fetched_stats(stores, skipped)))
    column, bound = blame_rule(guilty)
    suspects = " ".join(sorted(functions_of(guilty)))
    return replace(read, outcome="mismatch", column=column, bound=bound, suspects=suspects)


def _rule(
    state: State, filter: Filter, skipped: Skipped, witness: Witness, read: Verdict
) -> Verdict:
    """Return the verdict, blaming the rule whose range misses a computed value, if there is one."""
    seen = witness(filter, skipped.ref)
    guilty = escaping(seen, filter, skipped.stats, state.relation, state.rollout.quarantine)
    if guilty is None:
        return replace(read, bound=NO_RULE)
    columns = ", ".join(sorted(columns_of(guilty).values()))
    bound = f"every statistic holds; the rule of {guilty.function} is wrong: {render(guilty)}"
    return replace(read, column=columns, bound=bound, suspects=guilty.function)


def explain_mismatch(stores: Stores, state: State, filter: Filter, skipped: Skipped) -> list[Lie]:
    """Return the statistics of the filter's columns that contradict the part's rows.

    The part's own statistics come first, then the union of its batch. An empty result means that
    all statistics hold, so a rule of the interpreter is at fault.
    """
    used = columns_of(filter.expr)
    try:
        updates = read_updates(stores, state, skipped.ref)
    except (Corrupt, Unavailable):
        return []
    actual = collect(updates, state.relation)
    recorded = fetched_stats(stores, skipped)
    lies = find_lies(recorded, actual, state.relation)
    lies += find_member_lies(recorded, updates, state.relation)
    [union] = stats_of(stores, state.name, [skipped.batch])
    if not lies and union is not None:
        lies = find_lies_of_union(union.to_batches()[0], actual, state)
    return sorted(lies, key=lambda lie: lie.column_id not in used)


def _misplaced(stores: Stores, state: State, skipped: Skipped) -> str:
    """Return what is wrong with the recorded keys that ruled row groups out.

    An empty result means that the keys hold, so a rule of the interpreter is at fault.
    """
    left = f"row groups {skipped.groups} were left out by their recorded keys"
    try:
        data = part_bytes(source_of(stores.blob, state), skipped.ref)
        found = compare_part(Recorded(skipped.ref, None, state.relations, ()), data).findings
    except (Corrupt, Unavailable) as error:
        return f"{left}: {error}"
    return f"{left}: {found[0].statement}" if found else ""


def fetched_stats(stores: Stores, skipped: Skipped) -> pa.RecordBatch:
    """Return the statistics that skipped a part, with the bits of its bloom filters."""
    stats = pa.Table.from_batches([skipped.stats])
    return with_bits(stores.blob, stats).combine_chunks().to_batches()[0]


def find_lies_of_union(union: pa.RecordBatch, actual: pa.RecordBatch, state: State) -> list[Lie]:
    """Return the bounds of a batch's union that do not enclose one of its parts.

    Counts of a union cover other parts too, so only bounds can be blamed.
    """
    return [
        Lie(lie.column_id, lie.column, f"batch {lie.field}", lie.recorded, lie.found)
        for lie in find_lies(union, actual, state.relation)
        if lie.field in ("low", "high", "num_low", "num_high", "str_low", "str_high")
    ]


def proving(state: State, filter: Filter, skipped: Skipped) -> Expr:
    """Return the conjunct that alone rules a part out; the whole filter if none does."""
    for conjunct in split_conjuncts(filter.expr, state.rollout.quarantine):
        alone = replace(filter, expr=conjunct)
        decision = decide(alone, skipped.stats, state.relation, quarantine=state.rollout.quarantine)
        if not decision.may_be_true[0]:
            return conjunct
    return filter.expr


def blame_rule(guilty: Expr) -> tuple[str, str]:
    """Return column and statement if every statistic holds: then the functions are suspects."""
    functions = ", ".join(sorted(functions_of(guilty)))
    columns = ", ".join(sorted(columns_of(guilty).values()))
    return columns, f"every statistic holds; a rule is wrong, one of: {functions}"


def columns_of(expr: Expr) -> dict[int, str]:
    """Return the columns an expression reads, id to name."""
    if isinstance(expr, Column):
        return {expr.id: expr.name}
    if isinstance(expr, Call):
        return {i: n for arg in expr.args for i, n in columns_of(arg).items()}
    return {}


def functions_of(expr: Expr) -> set[str]:
    """Return the names of the functions in an expression."""
    if isinstance(expr, Call):
        return {expr.function}.union(*(functions_of(arg) for arg in expr.args))
    return set()


def stratum(expr: Expr, layout: str) -> str:
    """Return the stratum by which evidence is counted: types × functions × layout."""

    def types(node: Expr) -> set[str]:
        if isinstance(node, Column):
            return {node.type}
        if isinstance(node, Call):
            return set().union(*(types(arg) for arg in node.args))
        return set()

    return f"{'+'.join(sorted(types(expr)))} × {'+'.join(sorted(functions_of(expr)))} × {layout}"


def kind_of(expr: Expr, skipped: Skipped) -> str:
    """Return the kind of statistics that would skip a part, for its stratum.

    `union`: those of its batch; `row groups`: the groups' first keys; `partial`: some column of the
    filter has none; `shortened`: some bound is looser than the data; otherwise `exact`. `bloom`: a
    fetched bloom filter; `set`: there is a set of the values at a place that is compared, or that
    a function reads; `shape`: likewise of what its texts are written like; `pair`: there are bounds
    of how two places differ that are compared.
    """
    if skipped.by_batch or skipped.groups:
        return "union" if skipped.by_batch else "row groups"
    if skipped.by_bloom:
        return "bloom"
    places = (*compared_places(expr), *case_places(expr))
    named = {
        "set": map(set_name, places),
        "shape": map(shape_name, shaped_places(expr)),
        "pair": paired_places(expr),
    }
    for kind, names in named.items():
        there = {*names} & {*skipped.stats.schema.names}
        if any(skipped.stats.column(name)[0].is_valid for name in there):
            return kind
    prefixes = {column_name(i) for i in columns_of(expr)}
    used = [n for n in skipped.stats.schema.names if n.split("$")[0].split("/")[0] in prefixes]
    values = [v for n in used if (v := skipped.stats.column(n)[0].as_py()) is not None]
    if len(values) < len(prefixes):
        return "partial"
    loose = any(v is False for value in values for k, v in value.items() if k.endswith("_exact"))
    return "shortened" if loose else "exact"


def replay_command(shard: str, filter: Filter, part: str) -> str:
    """Return the shell command that checks this part against this filter again."""
    now = filter.now_low // 1000
    return f"strata validate {shard} --filter {sql_word(filter.sql)} --now {now} --part {part}"


def quarantine_of(verdicts: Collection[Verdict]) -> tuple[str, ...]:
    """Return the words for the quarantine: ids, functions or part keys that are at fault."""
    return tuple(sorted({word for verdict in verdicts for word in verdict.suspects.split()}))
