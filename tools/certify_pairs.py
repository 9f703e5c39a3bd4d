"""Check with Spark what pairs say of two columns, and write it into the functions' certificates.

    python -m tools.certify_pairs [--parts 200] [--seed 41]

A function of two columns of a row is narrowed where a part records how they differ
(`strata.decide.differences`). Spark evaluates expressions of such pairs on random rows, most with
values that differ by little, in each mode of `tools/certify.py`. After one answer outside the
narrowed range nothing is written. Takes a minute.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyspark

from strata.decide.terms import PAIRED
from strata.expr.certificate import fingerprint_of
from strata.expr.spec import Bools, Flags, Numbers, Spec
from strata.model.settings import SparkSettings
from strata.session.session import spark_session
from tests.spark.escapes import abstract, escapes
from tests.spark.ranges import Parts
from tests.spark.ranges_pairs import abstract_pairs, pair_signatures, paired_parts
from tests.support.recorded import FOLDER, PAIR_RULES, PAIRS_OF, written
from tools.certify import MODES, Observation, functions_in, observe


@dataclass
class PairTally:
    """What was tried of one function."""

    signatures: int = 0
    cases: int = 0
    narrowed: int = 0  # ranges of parts that a pair made narrower
    escapes: int = 0


def narrower(pairs: Spec, plain: Spec, parts: int) -> Flags:
    """Return the parts where pairs say more than the ranges of both columns."""
    sides: list[tuple[Flags, Flags]] = [(pairs.fail, plain.fail), (pairs.null, plain.null)]
    one, other = pairs.values, plain.values
    if isinstance(one, Bools) and isinstance(other, Bools):
        sides += [(one.true, other.true), (one.false, other.false)]
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        sides += [(one.low, other.low), (one.high, other.high), (one.empty, other.empty)]
    found = np.zeros(parts, np.bool_)
    for mine, theirs in sides:
        found |= np.broadcast_to(mine, parts) != np.broadcast_to(theirs, parts)
    return found


def judge_pairs(found: Sequence[Observation], parts: Parts, tallies: dict[str, PairTally]) -> int:
    """Count what was tried in one mode; return how many answers are outside their range."""
    wrong = 0
    for one in found:
        with np.errstate(all="ignore"):
            pairs, plain = abstract_pairs(one.expr, parts), abstract(one.expr, parts)
        outside = int(escapes(pairs, one.expr.type, one.answers).sum())
        wrong += outside
        if outside:
            sys.stdout.write(f"{one.mode} {one.text}: {outside} rows\n")
        narrowed = int(narrower(pairs, plain, parts.stats.num_rows).sum())
        for name in set(functions_in(one.expr)) & PAIRED:
            tally = tallies.setdefault(name, PairTally())
            tally.signatures += 1
            tally.cases += len(one.answers.failed)
            tally.narrowed += narrowed
            tally.escapes += outside
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Check, and write what was found into the certificates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=41)
    options = parser.parse_args(argv)
    source, wrong = fingerprint_of(PAIR_RULES), 0
    tallies: dict[str, PairTally] = {}
    settings = SparkSettings(master="local[2]", driver_memory_mib=1536, shuffle_partitions=2)
    with spark_session("certify pairs", settings) as spark:
        for number, mode in enumerate(MODES):
            parts = paired_parts(options.seed + number, options.parts)
            wrong += judge_pairs(observe(spark, mode, parts, [*pair_signatures()]), parts, tallies)
    if wrong:
        return 1
    for name in sorted(tallies):
        path = FOLDER / f"{name}.json"
        certificate = json.loads(path.read_text("utf-8"))
        certificate[PAIRS_OF] = {
            "source": source,
            "spark": pyspark.__version__,
            "seed": options.seed,
            "parts": options.parts,
            **asdict(tallies[name]),
        }
        path.write_text(written(certificate), encoding="utf-8")
        sys.stdout.write(f"{name} {tallies[name]}\n")
    missing = sorted(PAIRED - set(tallies))
    sys.stdout.write(f"not tried: {missing}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
