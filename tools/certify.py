"""Check every function against Spark and write `docs/reference/certificates/`.

Each expression is checked on the ranges of parts, and on each row's values by themselves.

    python -m tools.certify [--parts 200] [--seed 1] [--only NAME ...] [--keep FILE]
    python -m tools.certify --answers FILE [--only NAME ...]

Takes a few minutes; `--keep` writes down what Spark answered, for `tools/mutate.py`, and for
`--answers`, which judges the rules as they are now by what Spark answered then: enough as long as
only rules have changed, not the front end. Expressions without an answer in FILE are listed.
A function with one escape gets no certificate, and the program fails.
"""

import argparse
import datetime as dt
import json
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from strata.expr.certificate import fingerprint
from strata.expr.nodes import Call, Expr
from strata.expr.registry import REGISTRY
from strata.expr.spec import Flags
from strata.model.settings import SparkSettings
from strata.session.session import spark_session
from tests.spark.escapes import Answers, abstract, escapes
from tests.spark.oracle import spark_answers, translated
from tests.spark.ranges import Parts, random_parts
from tests.spark.ranges_points import Points
from tests.spark.signatures import signatures
from tests.support.recorded import FOLDER, PAIRS_OF, RECORDED, written


@dataclass(frozen=True)
class Mode:
    """The session settings under which expressions are analysed and run."""

    ansi: bool
    zone: str

    def apply(self, spark: SparkSession) -> None:
        """Set them; expressions are interpreted, since compiling them would take hours."""
        spark.conf.set("spark.sql.ansi.enabled", str(self.ansi).lower())
        spark.conf.set("spark.sql.session.timeZone", self.zone)
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")


MODES = (Mode(True, "UTC"), Mode(False, "UTC"), Mode(True, "America/New_York"))


@dataclass
class Tally:
    """What was tried of one function."""

    signatures: int = 0
    cases: int = 0
    escapes: int = 0


def functions_in(expr: Expr) -> Iterator[str]:
    """Yield the registry functions in an expression."""
    if isinstance(expr, Call):
        yield expr.function
        for arg in expr.args:
            yield from functions_in(arg)


@dataclass(frozen=True)
class Observation:
    """An expression, and what Spark made of it on every row of the parts of a mode."""

    mode: Mode
    text: str
    expr: Expr
    answers: Answers


def observe(
    spark: SparkSession, mode: Mode, parts: Parts, texts: Sequence[str]
) -> list[Observation]:
    """Let Spark translate and evaluate expressions in one mode."""
    mode.apply(spark)
    exprs = {text: translated(spark, text, parts.relation) for text in texts}
    answers = spark_answers(spark, parts, list(exprs))
    return [
        Observation(mode, text, exprs[text], found)
        for text, found in zip(exprs, answers, strict=True)
    ]


def check(
    spark: SparkSession, mode: Mode, parts: Parts, texts: Sequence[str], tallies: dict[str, Tally]
) -> list[str]:
    """Check expressions in one mode; return those with a row outside its range."""
    return judge(observe(spark, mode, parts, texts), parts, tallies)


def judge(found: Sequence[Observation], parts: Parts, tallies: dict[str, Tally]) -> list[str]:
    """Return the observations of one mode with a row outside its range."""
    wrong = []
    points = Points(parts)
    for one in found:
        outside = escapes(abstract(one.expr, parts), one.expr.type, one.answers)
        outside |= escapes(points.abstract(one.expr), one.expr.type, one.answers, rows_a_part=1)
        rows = int(outside.sum())
        if rows:
            shown = _shown(parts, outside, one.text)
            wrong.append(f"{one.mode} {one.text}: {rows} rows, first {shown}")
        for name in set(functions_in(one.expr)) & set(REGISTRY):
            tally = tallies.setdefault(name, Tally())
            tally.signatures += 1
            tally.cases += len(outside)
            tally.escapes += rows
    return wrong


def _shown(parts: Parts, outside: Flags, text: str) -> str:
    """Return the first row outside its range: its part, and the columns that are used."""
    row = parts.rows.slice(int(outside.argmax()), 1)
    used = [name for name in row.column_names if re.search(rf"\b{name}\b", text)]
    # Days and microseconds, since Python's calendar ends before Spark's does.
    plain = {
        "date32[day]": pa.int32(),
        "timestamp[us]": pa.int64(),
        "timestamp[us, tz=UTC]": pa.int64(),
    }
    values = [row[name].cast(plain.get(str(row[name].type), row[name].type)) for name in used]
    return str({name: value[0].as_py() for name, value in zip(used, values, strict=True)})


def main(argv: Sequence[str] | None = None) -> int:
    """Check, write the certificates, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args(argv)
    chosen = {
        name: texts
        for name, texts in signatures().items()
        if not options.only or name in options.only
    }
    texts = list(dict.fromkeys(text for several in chosen.values() for text in several))
    tallies: dict[str, Tally] = {}
    # Of the code that runs: files may change while Spark works.
    sources = {name: fingerprint(entry) for name, entry in REGISTRY.items()}
    if options.answers:
        parts, seen = _recalled(options, set(texts))
    else:
        parts, seen = _asked(options, texts)
    wrong = [
        line
        for found, some in zip(seen, parts, strict=True)
        for line in judge(found, some, tallies)
    ]
    sys.stdout.write("\n".join([*wrong, ""]))
    for name in sorted(chosen):
        tally = tallies.get(name, Tally())
        if tally.escapes or not tally.cases:
            sys.stdout.write(f"no certificate: {name} {tally}\n")
            continue
        _write(name, sources[name], tally, options)
    missing = set(REGISTRY) - set(tallies)
    sys.stdout.write(f"{len(tallies)} functions tried, not tried: {sorted(missing)}\n")
    return 1 if wrong else 0


def _asked(
    options: argparse.Namespace, texts: Sequence[str]
) -> tuple[list[Parts], list[list[Observation]]]:
    """Ask Spark, in every mode; write the answers down if that is wanted."""
    settings = SparkSettings(master="local[2]", driver_memory_mib=1536, shuffle_partitions=2)
    # Nothing runs long enough for the second compiler to pay: half of the time was its.
    extra = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    with spark_session("certify", settings, extra) as spark:
        parts = [random_parts(options.seed + n, options.parts) for n in range(len(MODES))]
        seen = [observe(spark, mode, some, texts) for mode, some in zip(MODES, parts, strict=True)]
    if options.keep:
        options.keep.parent.mkdir(parents=True, exist_ok=True)
        plain = [[(o.text, o.expr, o.answers) for o in found] for found in seen]
        options.keep.write_bytes(pickle.dumps((options.seed, options.parts, plain)))
    return parts, seen


def _recalled(
    options: argparse.Namespace, texts: set[str]
) -> tuple[list[Parts], list[list[Observation]]]:
    """Return the parts and what Spark answered, as `--keep` wrote it down."""
    options.seed, options.parts, plain = pickle.loads(options.answers.read_bytes())
    parts = [random_parts(options.seed + n, options.parts) for n in range(len(MODES))]
    seen = [
        [Observation(mode, *one) for one in found if one[0] in texts]
        for mode, found in zip(MODES, plain, strict=True)
    ]
    unanswered = sorted(texts - {one.text for one in seen[0]})
    sys.stdout.write("".join(f"not answered: {text}\n" for text in unanswered))
    return parts, seen


def _write(name: str, source: str, tally: Tally, options: argparse.Namespace) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    certificate = {
        "function": name,
        "source": source,
        "spark": pyspark.__version__,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "seed": options.seed,
        "parts": options.parts,
        "modes": [asdict(mode) for mode in MODES],
        **asdict(tally),
    }
    path = FOLDER / f"{name}.json"
    # What Spark answered once stays true; `make mutate` looks for such cases anew.
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    kept = {key: before[key] for key in (RECORDED, PAIRS_OF) if key in before}
    path.write_text(written({**certificate, **kept}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
