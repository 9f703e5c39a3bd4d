"""What each function makes of ranges, written down line by line: a rule that gets looser shows.

    python -m tools.certify --keep FILE
    python -m tools.ranges FILE         choose lines anew, for new functions too
    python -m tools.ranges              only write down what the lines yield now

Certificates prove that no rule is too tight; they do not notice one that proves less than it did.
So for each function a few expressions over parts of `tests/spark/ranges.py` are chosen, on which
opening its range, fearing a null or fearing an error shows, wherever it shows at all. They are
kept in `tests/spec/ranges.json`, for the test, and in `docs/reference/ranges.md`, for people. Who
makes a rule tighter, or gives up a proof for soundness, writes them anew and reads the difference.
"""

import json
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from strata.decide.specs import PartSpecs
from strata.expr import interpret
from strata.expr.entry import Context, Entry
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.registry import REGISTRY
from strata.expr.render import describe
from strata.expr.spec import YES, Spec, everything
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from tests.spark.ranges import RELATION, random_parts
from tests.spark.signatures import signatures

PROJECT: Final = Path(__file__).parents[1]
KEPT: Final = PROJECT / "tests" / "spec" / "ranges.json"
STATS: Final = KEPT.with_suffix(".arrow")  # of the parts, so that a line never changes by itself
PAGE: Final = PROJECT / "docs" / "reference" / "ranges.md"
SEED, PARTS, SIGNATURES = 7, 10, 12
LEAST: Final = 3  # lines for each function, of different expressions
REAL: Final = re.compile(r"-?\d+(\.\d+)?e[+-]?\d+|-?\d+\.\d{10,}")
NOW: Final = 1_710_054_000_123_456

Change = Callable[[Call, Spec], Spec]
LOOSER: Final[Mapping[str, Change]] = {
    "range opened": lambda call, spec: replace(spec, values=everything(call.type)),
    "null feared": lambda _, spec: replace(spec, null=YES),
    "failure feared": lambda _, spec: replace(spec, fail=YES),
}


@dataclass(frozen=True)
class Line:
    """What an expression yields in one part."""

    function: str
    text: str
    filter: str  # the expression, as `load_filter` reads it
    part: int
    result: str

    def again(self) -> str:
        """Return what it yields by the rules that are there now."""
        return stored().yields(load_filter(self.filter).expr, self.part)


@dataclass(frozen=True)
class Inputs:
    """What is known of some parts, and of their columns."""

    stats: pa.Table
    relation: Relation

    @classmethod
    def drawn(cls) -> "Inputs":
        """Draw parts anew."""
        return cls(random_parts(SEED, PARTS).stats, RELATION)

    @classmethod
    def stored(cls) -> "Inputs":
        """Return the parts of the lines that are kept."""
        table = pa.ipc.open_file(STATS).read_all()
        columns = json.loads(table.schema.metadata[b"columns"])
        found = tuple(Declared(number, name, parse_type(kind)) for number, name, kind in columns)
        return cls(table.replace_schema_metadata(None), Relation(0, found, (1,), (1,)))

    def store(self) -> None:
        """Write them down beside the lines."""
        columns = [[c.id, c.name, str(c.type)] for c in self.relation.columns]
        table = self.stats.replace_schema_metadata({"columns": json.dumps(columns)})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(STATS, table.schema, options=options) as writer:
            writer.write_table(table)

    def yields(self, expr: Expr, part: int) -> str:
        """Return what an expression may yield in a part, in words."""
        view = PartSpecs(self.stats, self.relation, ()).at(slice(part, part + 1))
        with np.errstate(all="ignore"):
            found = describe(Interpreter(Context(NOW, NOW)).evaluate(expr, view), expr.type)
        # The last digits are those of this machine's library.
        return REAL.sub(lambda number: f"{float(number[0]):.10g}", found)


@lru_cache(maxsize=1)
def stored() -> Inputs:
    """Return the parts of the lines that are kept, read once."""
    return Inputs.stored()


@contextmanager
def looser(name: str, change: Change) -> Iterator[None]:
    """Let one rule say more than it must."""
    entry = REGISTRY[name]

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        return change(call, entry.transfer(call, args, context))

    changed: dict[str, Entry] = {**REGISTRY, name: replace(entry, transfer=transfer)}
    interpret.REGISTRY = changed  # type: ignore[misc]
    try:
        yield
    finally:
        interpret.REGISTRY = REGISTRY  # type: ignore[misc]


def chosen(name: str, found: Sequence[tuple[str, Expr]], drawn: Inputs) -> list[Line]:
    """Return the fewest lines, about, on which each way to be looser shows that shows at all."""
    step = max(1, len(found) // SIGNATURES)
    cases = [(text, expr, part) for text, expr in found[::step] for part in range(PARTS)]
    known = [drawn.yields(expr, part) for _, expr, part in cases]
    shows: list[set[str]] = [set() for _ in cases]
    for title, change in LOOSER.items():
        with looser(name, change):
            for case, result, titles in zip(cases, known, shows, strict=True):
                if drawn.yields(case[1], case[2]) != result:
                    titles.add(title)
    lines, taken, left = [], set(), set().union(*shows) if shows else set()
    while left or len(lines) < LEAST:
        free = [n for n, (text, _, _) in enumerate(cases) if text not in taken and shows[n]]
        if not free:
            break
        best = max(free, key=lambda n: (len(shows[n] & left), len(shows[n])))
        text, expr, part = cases[best]
        lines.append(Line(name, text, dump_filter(Filter(expr, text, NOW, NOW)), part, known[best]))
        taken.add(text)
        left -= shows[best]
    return lines


def kept() -> list[Line]:
    """Return the lines that were written down."""
    return [Line(**line) for line in json.loads(KEPT.read_text("utf-8"))]


def inputs(line: Line) -> str:
    """Return the ranges of the columns of a line, in words."""
    found: dict[str, str] = {}

    def walk(expr: Expr) -> None:
        if isinstance(expr, Column):
            found[expr.name] = stored().yields(expr, line.part)
        for arg in expr.args if isinstance(expr, Call) else ():
            walk(arg)

    walk(load_filter(line.filter).expr)
    return "; ".join(f"{name}: {text}" for name, text in found.items())


def page(lines: Sequence[Line]) -> str:
    """Return the text of `docs/reference/ranges.md`."""
    head = (
        "# What each function makes of ranges\n\n"
        "Generated by `make ranges`; do not edit. Some lines for each function: an expression,\n"
        "what its columns hold in a part, and what it may yield there. A test fails where a rule\n"
        "yields anything else (`tests/spec/test_ranges.py`), so one that proves less than it did\n"
        "is noticed; that none proves too much is what [certificates](functions.md) are for.\n\n"
        "| Function | Expression | Columns | Yields |\n|---|---|---|---|\n"
    )
    cells = [(x.function, x.text, inputs(x), x.result) for x in lines]
    shown = [" | ".join(_cell(text) for text in row) for row in cells]
    return head + "".join(f"| {row} |\n" for row in shown)


def _cell(text: str) -> str:
    fence = "``" if "`" in text else "`"
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"{fence}{text}{fence}".replace("|", "\\|") if text else ""


def main(argv: Sequence[str]) -> int:
    """Write down what rules yield: on the lines that are kept, or on lines chosen anew."""
    if argv:
        drawn = Inputs.drawn()
        lines = _anew(Path(argv[0]), drawn)
        drawn.store()
    else:
        lines = [replace(line, result=line.again()) for line in kept()]
    KEPT.write_text(json.dumps([vars(line) for line in lines], indent=0) + "\n", encoding="utf-8")
    PAGE.write_text(page(lines), encoding="utf-8")
    names = {line.function for line in lines}
    sys.stdout.write(f"{len(lines)} lines, {len(names)} functions\n")
    sys.stdout.write(f"not one line: {sorted(set(REGISTRY) - names)}\n")
    return 0


def _anew(path: Path, drawn: Inputs) -> list[Line]:
    """Return lines for every function, of the expressions that were certified."""
    _, _, observed = pickle.loads(path.read_bytes())
    exprs = {text: expr for text, expr, _ in observed[0]}
    return [
        line
        for name, texts in sorted(signatures().items())
        if name in REGISTRY
        for line in chosen(name, [(t, exprs[t]) for t in texts if t in exprs], drawn)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
