"""Law 1 against Spark: no row of any part escapes the range that the interpreter gives.

Here a slice: some signatures of many functions, in three session settings. All of them, with
more parts, run in `python -m tools.certify`, which writes the certificates.
"""

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strata.expr.registry import REGISTRY
from tests.spark.ranges import random_parts
from tests.spark.signatures import signatures
from tests.support.sizes import tries
from tools.certify import MODES, Mode, Tally, check

pytestmark = pytest.mark.spark

SETTINGS = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
)
PARTS = 40
FUNCTIONS = tries(40, 80)  # about a quarter of them; certificates are of all
# Functions whose meaning depends on the mode or the zone get a second look in each.
SENSITIVE = {
    MODES[1]: ("add", "subtract", "multiply", "divide", "cast", "abs", "unary_minus", "round"),
    MODES[2]: ("date_trunc", "cast", "hour", "timestamp_add_interval", "unix_timestamp", "year"),
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, and put its settings back."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def _some(rng: random.Random, name: str) -> list[str]:
    texts = signatures()[name]
    return rng.sample(texts, min(3, len(texts)))


def _slice(mode: Mode, seed: int) -> list[str]:
    rng = random.Random(seed)
    if mode in SENSITIVE:
        return [t for name in SENSITIVE[mode] for t in _some(rng, name)]
    names = rng.sample(sorted(signatures()), FUNCTIONS)
    return [rng.choice(signatures()[name]) for name in names]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_no_row_escapes_its_range(session: SparkSession, mode: Mode) -> None:
    seed = 7 + MODES.index(mode)
    tallies: dict[str, Tally] = {}
    wrong = check(session, mode, random_parts(seed, PARTS), _slice(mode, seed), tallies)

    assert not wrong, "\n".join(wrong)
    assert sum(tally.cases for tally in tallies.values()) > 0


def test_every_function_has_signatures() -> None:
    assert set(signatures()) == set(REGISTRY)


def test_a_false_rule_is_found(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The net itself: a rule that takes the remainder as monotone is caught."""
    entry = REGISTRY["remainder"]
    lie = REGISTRY["floor"].transfer  # `i % 3` read as `i`
    rules = {**REGISTRY, "remainder": type(entry)(entry.name, "", (2, 2), lie, "")}
    monkeypatch.setattr("strata.expr.interpret.REGISTRY", rules)

    wrong = check(session, MODES[0], random_parts(3, PARTS), ["l % 3"], {})

    assert wrong
