"""Flip the rules of every function, one at a time, and see that the certificate's check notices.

    python -m tools.certify --keep FILE
    python -m tools.mutate FILE ... [--only NAME ...] [--look]

Spark's answers are those that the certificates were made with; no Spark is needed here. A mutant
that yields the same ranges on all of them is none ("no effect"). One that yields others but lets
no row escape is tried again on all signatures and rows, then on the specs of `tests/spec/sharp.py`;
what survives even these must be explained in `tools/explained.py`, or the program fails. Writes
`docs/reference/mutations.md`, and into each certificate the cases that expose its mutants
(`tests/support/recorded.py`); with `--only` the rows and the cases of some functions, and the
others stay as they are. `--look` writes nothing.
"""

import argparse
import pickle
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.expr.entry import Entry
from strata.expr.registry import REGISTRY
from strata.expr.spec import Flags, Spec
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
    cases_of,
    file_for_now,
    filter_of,
    forget_parts,
    ruled,
    shown,
    store_cases,
    store_parts,
    stored,
)
from tools.certify import MODES, Mode, Observation, functions_in
from tools.explained import EXPLAINED, WIDER
from tools.mutate_compare import only_wider, same
from tools.mutate_page import PARTS, TABLE, read_verdicts, table

SIGNATURES: Final = 30  # of a function, evenly from all that it has
TRIED: Final = 5  # rows of an observation, until one part alone exposes a mutant

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
    paths: Sequence[Path], texts: Mapping[str, tuple[str, ...]], most: int | None = PARTS
) -> Iterator[Case]:
    """Yield the observations that certificates rest on, cut to the first parts (None: all)."""
    needed = {text for some in texts.values() for text in some}
    for path in paths:
        seed, count, kept = pickle.loads(path.read_bytes())
        for number, (mode, found) in enumerate(zip(MODES, kept, strict=True)):
            yield from _cases(seed + number, count, mode, found, needed, most)


def _cases(
    seed: int, count: int, mode: Mode, found: Sequence[Any], needed: Set[str], most: int | None
) -> Iterator[Case]:
    """Yield the observations of one mode."""
    whole = _whole(seed, count)
    some = min(count, most or count)
    rows = some * ROWS_A_PART
    parts = Parts(whole.rows.slice(0, rows), whole.stats.slice(0, some))
    for text, expr, known in found:
        if text in needed:
            answers = Answers(known.values.slice(0, rows), known.failed[:rows])
            yield Case(Observation(mode, text, expr, answers), parts, abstract(expr, parts))


@lru_cache(maxsize=len(MODES))
def _whole(seed: int, count: int) -> Parts:
    return random_parts(seed, count)


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

    def store(self, chosen: Collection[str]) -> None:
        """Write the cases of some functions into their certificates, and all parts beside them."""
        kept = {name: cases_of(name) for name in REGISTRY if name not in chosen}
        file = file_for_now({case.file for some in kept.values() for case in some})
        mine = {case.part for some in kept.values() for case in some if case.file == file}
        places = sorted(mine)
        number = {place: len(self.parts) + n for n, place in enumerate(places)}
        tables = [*self.parts.values(), *([stored(file)[0].take(places)] if places else [])]
        store_parts(pa.concat_tables(tables, promote_options="default"), file)
        for name, some in kept.items():
            moved = [c if c.file != file else replace(c, part=number[c.part]) for c in some]
            store_cases(name, moved)
        for name in chosen:
            store_cases(name, [replace(case, file=file) for case in self.cases.get(name, ())])
        forget_parts({file} | {case.file for some in kept.values() for case in some})


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


def further(paths: Sequence[Path], results: dict[str, dict[str, str]], book: Book) -> None:
    """Try what survived on all signatures and rows, on the specs, and look for its explanation."""
    left = {name: [t for t, v in row.items() if v == "survived"] for name, row in results.items()}
    texts = everything_of({name for name, titles in left.items() if titles})
    found = functions(cases(paths, texts, None), texts)
    for name in texts:
        results[name] |= mutants(REGISTRY[name], found[name], left[name], book)
        for title in left[name]:
            if results[name][title] == "caught":
                continue
            if any(by_spec(REGISTRY[name], change) for change in MUTATIONS[title]):
                results[name][title] = "specified"
            elif (name, title) in WIDER and not _widens(REGISTRY[name], title, found[name]):
                sys.stdout.write(f"not only wider, as is explained: {name}: {title}\n")
            elif (name, title) in EXPLAINED:
                results[name][title] = "explained"


def _widens(entry: Entry, title: str, found: Sequence[Case]) -> bool:
    """Return whether all that the rule says of each observation is in what its mutants say."""
    for change in MUTATIONS[title]:
        with ruled(entry.name, change(entry.transfer)):
            for case in found:
                try:
                    spec = abstract(case.seen.expr, case.parts)
                except NO_RULE:
                    continue
                if not only_wider(spec, case.spec):
                    return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Try every mutation of every function, and write the table; 1 if one is not explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--look", action="store_true")
    options = parser.parse_args(argv)
    texts = wanted()
    chosen = tuple(options.only) or tuple(REGISTRY)
    texts = {name: texts[name] for name in chosen}
    found = functions(cases(options.files, texts), texts)
    book = Book()
    results = {
        name: mutants(REGISTRY[name], found[name], tuple(MUTATIONS), book) for name in chosen
    }
    further(options.files, results, book)
    for name, row in results.items():
        shown = {t: v for t, v in row.items() if v not in ("", "caught")}
        sys.stdout.write(f"{name}: {shown or 'all caught'}\n")
    if not options.look:
        before = read_verdicts(TABLE.read_text("utf-8")) if options.only else {}
        TABLE.write_text(table(before | results), encoding="utf-8")
        book.store(chosen)
    for line in book.missing:
        sys.stdout.write(f"exposed by several parts together only: {line}\n")
    return int(any("survived" in row.values() for row in results.values()))


if __name__ == "__main__":
    sys.exit(main())
