"""Flip the rules of every function, one at a time, and see that the certificate's check notices.

    python -m tools.certify --keep FILE
    python -m tools.mutate FILE

Spark's answers are those that the certificates were made with; no Spark is needed here. A mutant
that yields the same ranges on all of them is none ("no effect"). One that yields others but lets
no row escape is tried again on all signatures and rows, then on the specs of `tests/spec/sharp.py`;
what survives even these must be explained in `tools/explained.py`, or the program fails. Writes
`docs/reference/mutations.md`, and into each certificate the cases that expose its mutants
(`tests/support/recorded.py`).
"""

import pickle
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.expr.elements import Elements, Entries
from strata.expr.entry import Entry
from strata.expr.registry import REGISTRY
from strata.expr.spec import Flags, Json, Numbers, Spec, Texts, occupied
from tests.spark.escapes import Answers, abstract, escapes
from tests.spark.ranges import ROWS_A_PART, Parts, random_parts
from tests.spark.signatures import signatures
from tests.spec.sharp import SHARP
from tests.support.mutations import MUTATIONS, Change
from tests.support.recorded import (
    Kill,
    Recorded,
    answer_of,
    answered,
    filter_of,
    ruled,
    shown,
    store_cases,
    store_parts,
)
from tools.certify import MODES, Observation, functions_in
from tools.explained import EXPLAINED

PARTS: Final = 40  # of those that were certified
SIGNATURES: Final = 30  # of a function, evenly from all that it has
TRIED: Final = 5  # rows of an observation, until one part alone exposes a mutant
TABLE: Final = Path(__file__).parents[1] / "docs" / "reference" / "mutations.md"

_ARRAYS: Final = (pa.Array, pa.ChunkedArray)
# There is no rule at all then: the interpreter would open it.
NO_RULE: Final = (TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException)


@dataclass(frozen=True)
class Case:
    """What Spark answered on the first parts, and what the unchanged rules say."""

    seen: Observation
    parts: Parts
    spec: Spec


def wanted() -> Mapping[str, tuple[str, ...]]:
    """Return signatures of each function: all, or evenly some of many."""
    return {name: texts[:: -(-len(texts) // SIGNATURES)] for name, texts in signatures().items()}


def everything_of(names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return all signatures of some functions."""
    return {name: texts for name, texts in signatures().items() if name in names}


def functions(found: Iterator[Case], texts: Mapping[str, tuple[str, ...]]) -> dict[str, list[Case]]:
    """Return the cases of each function that are tried."""
    chosen: dict[str, list[Case]] = {name: [] for name in texts}
    for case in found:
        for name in set(functions_in(case.seen.expr)) & set(texts):
            if case.seen.text in texts[name]:
                chosen[name].append(case)
    return chosen


def cases(
    path: Path, texts: Mapping[str, tuple[str, ...]], most: int | None = PARTS
) -> Iterator[Case]:
    """Yield the observations that certificates rest on, cut to the first parts (None: all)."""
    needed = {text for some in texts.values() for text in some}
    seed, count, kept = pickle.loads(path.read_bytes())
    for number, (mode, found) in enumerate(zip(MODES, kept, strict=True)):
        whole = random_parts(seed + number, count)
        some = min(count, most or count)
        rows = some * ROWS_A_PART
        parts = Parts(whole.rows.slice(0, rows), whole.stats.slice(0, some))
        for text, expr, known in found:
            if text not in needed:
                continue
            answers = Answers(known.values.slice(0, rows), known.failed[:rows])
            seen = Observation(mode, text, expr, answers)
            yield Case(seen, parts, abstract(expr, parts))


@dataclass
class Book:
    """The cases that expose mutants, in the order found, and the parts of those cases."""

    cases: dict[str, list[Recorded]] = field(default_factory=dict)
    parts: dict[tuple[int, int], pa.Table] = field(default_factory=dict)  # by mode and number
    missing: list[str] = field(default_factory=list)  # exposed by several parts together only
    _seen: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)  # rows of cases

    def rows(self, name: str, case: Case) -> list[int]:
        """Return the rows of one observation that a function's cases have so far."""
        return self._seen.get((name, case.seen.text, MODES.index(case.seen.mode)), [])

    def note(self, name: str, kill: Kill, case: Case, outside: Flags) -> bool:
        """Record a row that exposes a mutant, if possible one that is recorded already."""
        mode = MODES.index(case.seen.mode)
        known = [row for row in self.rows(name, case) if outside[row]]
        if known and self._tells(name, kill, case, known[0]):
            self._add_kill(name, kill, case, known[0])
            return True
        rows = np.flatnonzero(outside).tolist()
        rows.sort(key=lambda row: (mode, row // ROWS_A_PART) not in self.parts)
        for row in rows[:TRIED]:
            if self._tells(name, kill, case, row):
                self._add(name, kill, case, row)
                return True
        return False

    def _tells(self, name: str, kill: Kill, case: Case, row: int) -> bool:
        """Return whether one part alone exposes the mutant."""
        number = row // ROWS_A_PART
        alone = Parts(case.parts.rows.slice(row, 1), case.parts.stats.slice(number, 1))
        answers = answered(answer_of(case.seen.answers, row))
        expr = case.seen.expr
        if escapes(abstract(expr, alone), expr.type, answers)[0]:
            return False
        with ruled(name, kill.of(REGISTRY[name].transfer)):
            try:
                return bool(escapes(abstract(expr, alone), expr.type, answers)[0])
            except NO_RULE:
                return False

    def _add(self, name: str, kill: Kill, case: Case, row: int) -> None:
        mode, number = MODES.index(case.seen.mode), row // ROWS_A_PART
        self.parts.setdefault((mode, number), case.parts.stats.slice(number, 1))
        place = list(self.parts).index((mode, number))
        used = [c for c in case.parts.rows.column_names if re.search(rf"\b{c}\b", case.seen.text)]
        values = {column: shown(_plain(case.parts.rows[column][row])) for column in used}
        answer = answer_of(case.seen.answers, row)
        text = case.seen.text
        expr = filter_of(case.seen.expr, "")
        self.cases.setdefault(name, []).append(
            Recorded(text, mode, place, values, answer, expr, (kill,))
        )
        self._seen.setdefault((name, text, mode), []).append(row)

    def _add_kill(self, name: str, kill: Kill, case: Case, row: int) -> None:
        mode, cases = MODES.index(case.seen.mode), self.cases[name]
        place = list(self.parts).index((mode, row // ROWS_A_PART))
        answer = answer_of(case.seen.answers, row)
        for n, one in enumerate(cases):
            if (one.text, one.mode, one.part, one.answer) == (case.seen.text, mode, place, answer):
                cases[n] = replace(one, kills=(*one.kills, kill))
                return

    def store(self) -> None:
        """Write the cases into the certificates, and their parts beside them."""
        store_parts(pa.concat_tables(self.parts.values(), promote_options="default"))
        for name in REGISTRY:
            store_cases(name, self.cases.get(name, ()))


def _plain(value: pa.Scalar) -> Any:
    """Return a value; days and microseconds, since Python's calendar ends before Spark's does."""
    kind = {"date32[day]": pa.int32()}.get(str(value.type))
    if pa.types.is_timestamp(value.type):
        kind = pa.int64()
    return (value.cast(kind) if kind else value).as_py()


def attempt(entry: Entry, kill: Kill, found: Sequence[Case], book: Book) -> str:
    """Return what becomes of one mutant: "caught", "survived" or "" where it changes nothing."""
    changed = told = False
    first = sorted(found, key=lambda case: not book.rows(entry.name, case))
    for case in first:
        with ruled(entry.name, kill.of(entry.transfer)):
            try:
                spec = abstract(case.seen.expr, case.parts)
            except NO_RULE:
                continue
            if same(spec, case.spec):
                continue
            changed = True
            outside = escapes(spec, case.seen.expr.type, case.seen.answers)
        if outside.any():
            told = True
            if book.note(entry.name, kill, case, outside):
                return "caught"
    if told:
        book.missing.append(f"{entry.name}: {kill.mutation}")
        return "caught"
    return "survived" if changed else ""


def same(a: Spec, b: Spec) -> bool:
    """Return whether two Specs say the same of every part."""
    if type(a.values) is not type(b.values):
        return False
    pairs = [(a.null, b.null), (a.fail, b.fail)]
    if isinstance(a.values, Elements) and isinstance(b.values, Elements):
        return all(_alike(x, y) for x, y in pairs) and _same_lists(a.values, b.values)
    if isinstance(a.values, Entries) and isinstance(b.values, Entries):
        lists = ((a.values.keys, b.values.keys), (a.values.values, b.values.values))
        pairs += [(a.values.empty, b.values.empty)]
        return all(_alike(x, y) for x, y in pairs) and all(_same_lists(x, y) for x, y in lists)
    if isinstance(a.values, Json):
        pairs += [(occupied(a.values), occupied(b.values))]
    elif isinstance(a.values, Numbers) and isinstance(b.values, Numbers):
        pairs += [(a.values.empty, b.values.empty), (a.values.nan, b.values.nan)]
        lanes = ((a.values.low, b.values.low), (a.values.high, b.values.high))
        some = ~a.values.empty  # bounds of nothing mean nothing
        pairs += [(np.where(some, x, 0), np.where(some, y, 0)) for x, y in lanes]
    elif isinstance(a.values, Texts) and isinstance(b.values, Texts):
        return (
            _alike(a.values.empty, b.values.empty)
            and all(_alike(x, y) for x, y in pairs)
            and (_bounds(a.values, a) == _bounds(b.values, a))
        )
    else:
        names = [f.name for f in fields(a.values) if f.name not in ("child", "inside")]
        pairs += [(getattr(a.values, name), getattr(b.values, name)) for name in names]
    return all(_alike(x, y) for x, y in pairs)


def _same_lists(a: Elements, b: Elements) -> bool:
    """Return whether two lists say the same of their lengths and their elements."""
    lanes = [(a.empty, b.empty), (a.shortest, b.shortest), (a.longest, b.longest)]
    x, y = a.element(), b.element()
    if x is None or y is None:
        return x is y and all(_alike(p, q) for p, q in lanes)
    return all(_alike(p, q) for p, q in lanes) and same(x, y)


def _bounds(values: Texts, of: Spec) -> list[tuple[bytes | None, bytes | None] | None]:
    """Return the bounds of texts in each part, None for a part without any."""
    count = max(len(flags) for flags in (of.null, of.fail, values.empty))
    count = max(count, *(len(b) for b in (values.low, values.high) if isinstance(b, _ARRAYS)), 1)

    def spread(bound: Any) -> list[bytes | None]:
        if not isinstance(bound, _ARRAYS):
            return [None if bound is None else bound.as_py()] * count
        found: list[bytes | None] = bound.to_pylist()
        return found if len(found) == count else found * count

    empty = np.broadcast_to(values.empty, count)
    pairs = zip(spread(values.low), spread(values.high), empty, strict=True)
    return [None if nothing else (low, high) for low, high, nothing in pairs]


def _alike(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        x, y = np.broadcast_arrays(x, y)
        return bool(np.array_equal(x, y, equal_nan=x.dtype == np.float64))
    if x is None or y is None:
        return x is y
    return type(x) is type(y) and bool(x.equals(y))


def by_spec(entry: Entry, change: Change) -> bool:
    """Return whether a spec of exact verdicts fails on a mutant."""
    with ruled(entry.name, change(entry.transfer)):
        for sharp in SHARP.get(entry.name, ()):
            try:
                sharp.check()
            except AssertionError:
                return True
    return False


def mutants(
    entry: Entry, found: Sequence[Case], titles: Collection[str], book: Book
) -> dict[str, str]:
    """Return what becomes of the mutants of one function, by what is flipped."""
    results = {}
    for title in titles:
        verdicts = []
        for way in range(len(MUTATIONS[title])):
            verdicts.append(attempt(entry, Kill(title, way), found, book))
            if verdicts[-1] == "caught":
                break
        results[title] = next((v for v in ("caught", "survived") if v in verdicts), "")
    return results


def further(path: Path, results: dict[str, dict[str, str]], book: Book) -> None:
    """Try what survived on all signatures and rows, on the specs, and look for its explanation."""
    left = {name: [t for t, v in row.items() if v == "survived"] for name, row in results.items()}
    texts = everything_of({name for name, titles in left.items() if titles})
    found = functions(cases(path, texts, None), texts)
    for name in texts:
        results[name] |= mutants(REGISTRY[name], found[name], left[name], book)
        for title in left[name]:
            if results[name][title] == "caught":
                continue
            if any(by_spec(REGISTRY[name], change) for change in MUTATIONS[title]):
                results[name][title] = "specified"
            elif (name, title) in EXPLAINED:
                results[name][title] = "explained"


def main(argv: Sequence[str]) -> int:
    """Try every mutation of every function, and write the table; 1 if one is not explained."""
    texts = wanted()
    chosen = argv[1:] or tuple(REGISTRY)
    texts = {name: texts[name] for name in chosen}
    found = functions(cases(Path(argv[0]), texts), texts)
    book = Book()
    results = {
        name: mutants(REGISTRY[name], found[name], tuple(MUTATIONS), book) for name in chosen
    }
    further(Path(argv[0]), results, book)
    for name, row in results.items():
        shown = {t: v for t, v in row.items() if v not in ("", "caught")}
        sys.stdout.write(f"{name}: {shown or 'all caught'}\n")
    if len(argv) == 1:
        TABLE.write_text(table(results), encoding="utf-8")
        book.store()
    for line in book.missing:
        sys.stdout.write(f"exposed by several parts together only: {line}\n")
    return int(any("survived" in row.values() for row in results.values()))


_HEAD: Final = """# Mutations of the rules

Generated by `make mutate`; do not edit. Each rule of each function is flipped, alone, and the
check behind its certificate runs on {rows} rows in each of {modes} session modes, against Spark's
answers; what survives is tried on all signatures and rows, then on the specs of exact verdicts.

* c: a row escapes, so the certificate's check catches it; the row, and what Spark answered on it,
  is a case of the function's certificate, which a fast test replays.
* p: a spec catches it, which pins what data of this size cannot show (`tests/spec/sharp.py`);
* e: it is equivalent: rule and mutant agree on every row, for the reason below the table;
* **s**: it survives; `make mutate` fails as long as there is one;
* –: no range changes, so there is no such rule.

{tried} mutants tried: {caught} caught by rows, {specified} by specs, {explained} explained,
{survived} survived.
"""


def table(results: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of `docs/reference/mutations.md`."""
    every = [verdict for row in results.values() for verdict in row.values() if verdict]
    kinds = ("caught", "specified", "explained", "survived")
    signs = {"caught": "c", "specified": "p", "explained": "e", "survived": "**s**", "": "–"}
    counts = {kind: every.count(kind) for kind in kinds}
    lines = [
        _HEAD.format(rows=PARTS * ROWS_A_PART, modes=len(MODES), tried=len(every), **counts),
        "| Function | " + " | ".join(MUTATIONS) + " |",
        "|---" * (len(MUTATIONS) + 1) + "|",
    ]
    for name, row in sorted(results.items()):
        lines.append(f"| `{name}` | " + " | ".join(signs[row[title]] for title in MUTATIONS) + " |")
    lines += [
        "",
        "## Equivalent mutants",
        "",
        "| Function | Mutation | Why they agree on every row |",
    ]
    lines.append("|---|---|---|")
    for name, row in sorted(results.items()):
        titles = [title for title in MUTATIONS if row[title] == "explained"]
        lines += [f"| `{name}` | {title} | {EXPLAINED[name, title]} |" for title in titles]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
