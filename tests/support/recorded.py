"""The cases by which certificates are more than a count: rows that tell each mutant from its rule.

`tools/mutate.py` writes them down: an expression, what was known of a part, and what Spark
answered on one row of it, with the mutants of the function whose range misses that answer.
`tests/spec/test_certified_cases.py` replays them, without Spark: the rule as it is holds the
answer, each of the mutants misses it. Parts are kept in `docs/reference/certificates/parts.arrow`,
and those of functions that were tried when the columns were others in files of their own.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from strata.decide.specs import PartSpecs
from strata.expr import interpret
from strata.expr.entry import Context, Entry, Transfer
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Expr
from strata.expr.registry import REGISTRY
from strata.expr.spec import Spec
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.spark.escapes import NOW_US, Answers, escapes
from tests.spark.ranges import RELATION
from tests.support.mutations import MUTATIONS

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference" / "certificates"
RECORDED: Final = "recorded"  # what a certificate calls its cases
PAIRS_OF: Final = "pairs"  # what it calls the proof of how pairs of columns narrow the function
PAIR_RULES: Final = ("strata.decide.differences", "strata.decide.pairs", "strata.decide.terms")
SPAN: Final = (NOW_US - 10**15, NOW_US + 10**15)  # Spark's clock was the real one
_SHOWN: Final = 60  # letters of a value of the row

Answer = Mapping[str, Any]  # {"null": true}, {"fails": true} or {"value": as JSON, "as": its type}


@dataclass(frozen=True)
class Kill:
    """A mutant: what is flipped, and by which of the ways to flip it."""

    mutation: str
    way: int

    def of(self, transfer: Transfer) -> Transfer:
        """Return the rule with the mutation in it."""
        return MUTATIONS[self.mutation][self.way](transfer)


@dataclass(frozen=True)
class Recorded:
    """What Spark answered on one row, and which mutants of the function say that it cannot."""

    text: str
    mode: int  # place among the modes of the certificate
    part: int  # row of `parts.arrow`
    row: Mapping[str, str]  # the columns of the expression, for people
    answer: Answer
    expr: str  # what Spark's front end made of the text, as `load_filter` reads it
    kills: tuple[Kill, ...]
    file: str = "parts"  # the table of the part, beside the certificates

    def escapes(self) -> bool:
        """Return whether the answer lies outside the range, by the rules that are there now."""
        kind = load_filter(self.expr).expr.type
        return bool(escapes(self.said(), kind, answered(self.answer))[0])

    def said(self) -> Spec:
        """Return what the rules that are there now say of the part."""
        expr = load_filter(self.expr).expr
        stats, relation = stored(self.file)
        view = PartSpecs(stats, relation, ()).at(slice(self.part, self.part + 1))
        with np.errstate(all="ignore"):
            return Interpreter(Context(*SPAN), lenient=False).evaluate(expr, view)


def filter_of(expr: Expr, text: str) -> str:
    """Return an expression of any type as it is written down."""
    return dump_filter(Filter(expr, text, *SPAN))


def answer_of(answers: Answers, row: int) -> Answer:
    """Return what Spark answered on one row, as JSON."""
    value = answers.values[row]
    if answers.failed[row]:
        return {"fails": True}
    if not value.is_valid:
        return {"null": True}
    kind = value.type
    if pa.types.is_boolean(kind):
        return {"value": value.as_py(), "as": "bool"}
    if pa.types.is_floating(kind):
        return {"value": repr(value.as_py()), "as": "float"}
    if pa.types.is_decimal(kind):
        return {"value": str(value.as_py()), "as": "decimal"}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return {"value": value.as_py(), "as": "text"}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"value": value.as_py().hex(), "as": "bytes"}
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return {"value": None, "as": "nested"}  # that there is one is all that is judged
    whole = value.cast(pa.int32()) if pa.types.is_date32(kind) else value.cast(pa.int64())
    return {"value": whole.as_py(), "as": "integer"}


def answered(answer: Answer) -> Answers:
    """Return what was written down by `answer_of`."""
    failed = np.array([bool(answer.get("fails"))])
    if "value" not in answer:
        return Answers(pa.nulls(1, pa.bool_()), failed)
    value = answer["value"]
    match answer["as"]:
        case "bool":
            array = pa.array([value], pa.bool_())
        case "integer":
            array = pa.array([value], pa.int64())
        case "float":
            array = pa.array([float(value)], pa.float64())
        case "decimal":
            array = pa.array([Decimal(value)])
        case "text":
            array = pa.array([value], pa.string())
        case "bytes":
            array = pa.array([bytes.fromhex(value)], pa.binary())
        case "nested":
            array = pa.array([True])
        case kind:
            raise ValueError(f"an answer of kind {kind}")
    return Answers(array, failed)


def shown(value: Any) -> str:
    """Return a value of a row in few letters."""
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


@contextmanager
def ruled(name: str, transfer: Transfer) -> Iterator[None]:
    """Let one function have another rule."""
    changed: dict[str, Entry] = {**REGISTRY, name: replace(REGISTRY[name], transfer=transfer)}
    interpret.REGISTRY = changed  # type: ignore[misc]
    try:
        yield
    finally:
        interpret.REGISTRY = REGISTRY  # type: ignore[misc]


def cases_of(name: str) -> list[Recorded]:
    """Return the cases of a function's certificate."""
    certificate = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return [
        Recorded(**{**case, "kills": tuple(Kill(*kill) for kill in case["kills"])})
        for case in certificate.get(RECORDED, ())
    ]


def store_cases(name: str, cases: Sequence[Recorded]) -> None:
    """Put cases into a function's certificate, in the place of those that it has."""
    path = FOLDER / f"{name}.json"
    certificate = json.loads(path.read_text("utf-8"))
    plain = [
        asdict(case) | {"kills": [[kill.mutation, kill.way] for kill in case.kills]}
        for case in cases
    ]
    for case in plain:
        if case["file"] == "parts":
            del case["file"]
    path.write_text(written({**certificate, RECORDED: plain}), encoding="utf-8")


def written(certificate: Mapping[str, Any]) -> str:
    """Return a certificate as its file holds it: a case a line."""
    head = {name: value for name, value in certificate.items() if name != RECORDED}
    lines = [
        json.dumps(case, ensure_ascii=False, separators=(",", ":"))
        for case in certificate.get(RECORDED, ())
    ]
    text = json.dumps(head, indent=2, ensure_ascii=False)
    if lines:
        listed = ",\n    ".join(lines)
        text = text[: -len("\n}")] + f',\n  "{RECORDED}": [\n    {listed}\n  ]\n}}'
    return text + "\n"


def store_parts(stats: pa.Table, file: str = "parts") -> None:
    """Keep what is known of the parts of all cases."""
    table = stats.replace_schema_metadata({"columns": json.dumps(_columns_now())})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(FOLDER / f"{file}.arrow", table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())


def _columns_now() -> list[list[Any]]:
    return [[c.id, c.name, str(c.type)] for c in RELATION.columns]


def file_for_now(kept: Collection[str]) -> str:
    """Return the file that parts of today's columns go to, beside files that are still needed."""
    for file in sorted(kept):
        if [[c.id, c.name, str(c.type)] for c in stored(file)[1].columns] == _columns_now():
            return file
    names = (f"parts-{n}" if n > 1 else "parts" for n in count(1))
    return next(name for name in names if name not in kept)


def forget_parts(needed: Collection[str]) -> None:
    """Remove the files of parts that no case needs."""
    stored.cache_clear()
    for path in FOLDER.glob("parts*.arrow"):
        if path.stem not in needed:
            path.unlink()


@lru_cache(maxsize=8)
def stored(file: str = "parts") -> tuple[pa.Table, Relation]:
    """Return what is known of the parts of cases, and their columns."""
    table = pa.ipc.open_file(FOLDER / f"{file}.arrow").read_all()
    columns = json.loads(table.schema.metadata[b"columns"])
    found = tuple(Column(number, name, parse_type(kind)) for number, name, kind in columns)
    return table.replace_schema_metadata(None), Relation(0, found, (1,), (1,))
