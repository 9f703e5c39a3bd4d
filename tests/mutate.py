"""Flip the rules of every function, one at a time, and see that the certificate's check notices.

    python -m tests.certify --keep FILE
    python -m tests.mutate FILE

Spark's answers are those that the certificates were made with; no Spark is needed here. A mutant
that yields the same ranges on all of them is none ("no effect"). One that yields others but lets
no row escape survives: its rule errs on the safe side, or a signature is missing. Writes
`docs/mutations.md`.
"""

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr import interpret
from strata.expr.entry import Context, Entry, Transfer
from strata.expr.nodes import Call
from strata.expr.registry import REGISTRY
from strata.expr.spec import NO, Json, Numbers, Spec, Texts, hull, none_of, occupied
from tests.certify import MODES, Observation, functions_in
from tests.spark.oracle import Answers, abstract, escapes
from tests.spark.ranges import ROWS_A_PART, Parts, random_parts
from tests.spark.signatures import signatures

PARTS: Final = 40  # of those that were certified
SIGNATURES: Final = 30  # of a function, evenly from all that it has
TABLE: Final = Path(__file__).parents[1] / "docs" / "mutations.md"

Change = Callable[[Transfer], Transfer]


def _of_result(change: Callable[[Spec], Spec]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        return lambda call, args, context: change(transfer(call, args, context))

    return mutate


def _of_arguments(change: Callable[[Spec], Spec]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        return lambda call, args, context: transfer(call, [change(arg) for arg in args], context)

    return mutate


def _ends(spec: Spec, change: Callable[[Any, Any], tuple[Any, Any]]) -> Spec:
    match spec.values:
        case Numbers() as values:
            low, high = change(values.low, values.high)
            return replace(spec, values=replace(values, low=low, high=high))
        case Texts() as values if values.low is not None and values.high is not None:
            low, high = change(values.low, values.high)
            return replace(spec, values=Texts(low, high, values.empty))
        case _:
            return spec


def _swapped(spec: Spec) -> Spec:
    return _ends(spec, lambda low, high: (high, low))


def _ends_only(transfer: Transfer) -> Transfer:
    """Take the values at the two ends for all that lie between them."""

    def mutate(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        first = transfer(call, [_ends(arg, lambda low, _: (low, low)) for arg in args], context)
        last = transfer(call, [_ends(arg, lambda _, high: (high, high)) for arg in args], context)
        return Spec(hull(first.values, last.values), first.null | last.null, first.fail | last.fail)

    return mutate


def _next(bound: Any, *, up: bool) -> Any:
    """Return the bound moved inward by the least step."""
    if isinstance(bound, np.ndarray):
        if bound.dtype == np.float64:
            return np.nextafter(bound, np.inf if up else -np.inf)
        top = np.iinfo(np.int64)
        step = np.where(bound != (top.max if up else top.min), 1, 0)
        return bound + step if up else bound - step
    if up:
        tail = pa.scalar(b"\0", pa.binary())
        return pc.binary_join_element_wise(bound, tail, pa.scalar(b"", pa.binary()))
    return pc.binary_slice(bound, 0, -1) if _sliceable(bound) else bound


def _sliceable(bound: Any) -> bool:
    return not isinstance(bound, pa.Scalar)


def _inward(low: Any, high: Any) -> tuple[Any, Any]:
    if isinstance(low, np.ndarray):
        wide = low < high
        return np.where(wide, _next(low, up=True), low), np.where(wide, _next(high, up=False), high)
    return _next(low, up=True), _next(high, up=False)


def _quarter(low: Any, high: Any) -> Any:
    """Return a quarter of the way from one end to the other."""
    if isinstance(low, np.ndarray):
        with np.errstate(all="ignore"):
            if low.dtype == np.float64:
                return np.where(np.isfinite(high - low), low + (high - low) / 4, low / 4)
            step = high.astype(object) // 4 - low.astype(object) // 4
            moved = low.astype(object) + step
        return moved if low.dtype == object else moved.astype(np.int64)
    return _next(low, up=True)


def _without(**flags: Any) -> Callable[[Spec], Spec]:
    def change(spec: Spec) -> Spec:
        values = spec.values
        names = {f.name for f in fields(values)}
        return replace(
            spec, values=replace(values, **{k: v for k, v in flags.items() if k in names})
        )

    return change


def _option(name: str, values: Mapping[str, str]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        def changed(call: Call, args: Sequence[Spec], context: Context) -> Spec:
            options = {k: values.get(v, v) if k == name else v for k, v in call.options}
            if name == "zone" and "zone" in options:
                options["zone"] = "UTC"
            return transfer(replace(call, options=tuple(options.items())), args, context)

        return changed

    return mutate


_NO_VALUE: Final = _of_result(lambda spec: replace(spec, values=none_of(spec.values)))
MUTATIONS: Final[Mapping[str, tuple[Change, ...]]] = {
    "direction reversed": (_of_arguments(_swapped),),
    "ends taken for the range": (_ends_only,),
    "edges left out": (_of_arguments(lambda spec: _ends(spec, _inward)),),
    # The second is tried where the first survives: a loose bound bears the least step.
    "low bound too high": (
        _of_result(lambda spec: _ends(spec, lambda low, high: (_next(low, up=True), high))),
        _of_result(lambda spec: _ends(spec, lambda low, high: (_quarter(low, high), high))),
    ),
    "high bound too low": (
        _of_result(lambda spec: _ends(spec, lambda low, high: (low, _next(high, up=False)))),
        _of_result(lambda spec: _ends(spec, lambda low, high: (low, _quarter(high, low)))),
    ),
    "null forgotten": (_of_result(lambda spec: replace(spec, null=NO)),),
    "failure forgotten": (_of_result(lambda spec: replace(spec, fail=NO)),),
    "NaN forgotten": (_of_result(_without(nan=NO)), _of_arguments(_without(nan=NO))),
    "true forgotten": (_of_result(_without(true=NO)),),
    "false forgotten": (_of_result(_without(false=NO)),),
    "values forgotten": (_NO_VALUE,),
    "mode mistaken": (
        _option("ansi", {"ansi": "try", "legacy": "ansi", "try": "ansi"}),
        _option("ansi", {"legacy": "try", "try": "ansi"}),
    ),
    "zone ignored": (_option("zone", {}),),
}


@dataclass(frozen=True)
class Case:
    """What Spark answered on the first parts, and what the unchanged rules say."""

    seen: Observation
    parts: Parts
    spec: Spec


def wanted() -> Mapping[str, tuple[str, ...]]:
    """Return signatures of each function: all, or evenly some of many."""
    return {name: texts[:: -(-len(texts) // SIGNATURES)] for name, texts in signatures().items()}


def functions(found: Iterator[Case], texts: Mapping[str, tuple[str, ...]]) -> dict[str, list[Case]]:
    """Return the cases of each function that are tried."""
    chosen: dict[str, list[Case]] = {name: [] for name in REGISTRY}
    for case in found:
        for name in set(functions_in(case.seen.expr)) & set(REGISTRY):
            if case.seen.text in texts[name]:
                chosen[name].append(case)
    return chosen


def cases(path: Path, texts: Mapping[str, tuple[str, ...]]) -> Iterator[Case]:
    """Yield the observations that certificates rest on, cut to the first parts."""
    needed = {text for some in texts.values() for text in some}
    seed, count, kept = pickle.loads(path.read_bytes())
    for number, (mode, found) in enumerate(zip(MODES, kept, strict=True)):
        whole = random_parts(seed + number, count)
        parts = Parts(whole.rows.slice(0, PARTS * ROWS_A_PART), whole.stats.slice(0, PARTS))
        for text, expr, known in found:
            if text not in needed:
                continue
            rows = PARTS * ROWS_A_PART
            answers = Answers(known.values.slice(0, rows), known.failed[:rows])
            seen = Observation(mode, text, expr, answers)
            yield Case(seen, parts, abstract(expr, parts))


def attempt(entry: Entry, change: Change, found: Sequence[Case]) -> str:
    """Return what becomes of one mutant: "caught", "survived" or "" where it changes nothing."""
    mutant = {**REGISTRY, entry.name: replace(entry, transfer=change(entry.transfer))}
    changed = False
    with _rules(mutant):
        for case in found:
            try:
                spec = abstract(case.seen.expr, case.parts)
            except (TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException):
                continue  # no rule at all: the interpreter would open it
            if same(spec, case.spec):
                continue
            changed = True
            if escapes(spec, case.seen.expr.type, case.seen.answers).any():
                return "caught"
    return "survived" if changed else ""


@contextmanager
def _rules(rules: Mapping[str, Entry]) -> Iterator[None]:
    """Let the interpreter work with other rules."""
    interpret.REGISTRY = rules  # type: ignore[misc]
    try:
        yield
    finally:
        interpret.REGISTRY = REGISTRY  # type: ignore[misc]


def same(a: Spec, b: Spec) -> bool:
    """Return whether two Specs say the same of every part."""
    if type(a.values) is not type(b.values):
        return False
    pairs = [(a.null, b.null), (a.fail, b.fail)]
    if isinstance(a.values, Json):
        pairs += [(occupied(a.values), occupied(b.values))]
    elif isinstance(a.values, Numbers) and isinstance(b.values, Numbers):
        pairs += [(a.values.empty, b.values.empty), (a.values.nan, b.values.nan)]
        lanes = ((a.values.low, b.values.low), (a.values.high, b.values.high))
        some = ~a.values.empty  # bounds of nothing mean nothing
        pairs += [(np.where(some, x, 0), np.where(some, y, 0)) for x, y in lanes]
    else:
        names = [f.name for f in fields(a.values) if f.name not in ("child", "inside")]
        pairs += [(getattr(a.values, name), getattr(b.values, name)) for name in names]
    return all(_alike(x, y) for x, y in pairs)


def _alike(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        x, y = np.broadcast_arrays(x, y)
        return bool(np.array_equal(x, y, equal_nan=x.dtype == np.float64))
    if x is None or y is None:
        return x is y
    return type(x) is type(y) and bool(x.equals(y))


def mutants(entry: Entry, found: Sequence[Case]) -> dict[str, str]:
    """Return what becomes of the mutants of one function, by what is flipped."""
    results = {}
    for title, changes in MUTATIONS.items():
        verdicts = []
        for change in changes:
            verdicts.append(attempt(entry, change, found))
            if verdicts[-1] == "caught":
                break
        results[title] = next((v for v in ("caught", "survived") if v in verdicts), "")
    survived = [title for title, verdict in results.items() if verdict == "survived"]
    sys.stdout.write(f"{entry.name}: {survived or 'all caught'}\n")
    sys.stdout.flush()
    return results


def main(argv: Sequence[str]) -> int:
    """Try every mutation of every function, and write the table."""
    texts = wanted()
    found = functions(cases(Path(argv[0]), texts), texts)
    chosen = argv[1:] or tuple(REGISTRY)
    results = {name: mutants(REGISTRY[name], found[name]) for name in chosen}
    if len(argv) == 1:
        TABLE.write_text(table(results), encoding="utf-8")
    return 0


_HEAD: Final = """# Mutations of the rules

Generated by `make mutate`; do not edit. Each rule of each function is flipped, alone, and the
check behind its certificate runs on {rows} rows in each of {modes} session modes, against Spark's
answers. c: a row escapes, so the mutant is caught; **s**: it survives; –: no range changes, so
there is no such rule. What survives errs on the safe side: a bound with room (`tanh`, a length
below 2**31), a failure feared that Spark never shows (`md5` of text cast to bytes), a reversed
range that its rule sees and opens (`date_format`).

{tried} mutants tried, {caught} caught, {survived} survived.
"""


def table(results: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of `docs/mutations.md`."""
    every = [verdict for row in results.values() for verdict in row.values() if verdict]
    signs = {"caught": "c", "survived": "**s**", "": "–"}
    lines = [
        _HEAD.format(
            rows=PARTS * ROWS_A_PART, modes=len(MODES), tried=len(every),
            caught=every.count("caught"), survived=every.count("survived"),
        ),
        "| Function | " + " | ".join(MUTATIONS) + " |",
        "|---" * (len(MUTATIONS) + 1) + "|",
    ]  # fmt: skip
    for name, row in sorted(results.items()):
        lines.append(f"| `{name}` | " + " | ".join(signs[row[title]] for title in MUTATIONS) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
