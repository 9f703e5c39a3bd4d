"""Faults put into the sources by hand, nearly all survived by every fast test; what notices them.

No edit that is drawn makes them: they are what a person got wrong, or might. Each is a text of a
module that stands there once, and what takes its place. `tests/unit/tools/test_mutants.py` plants
all of them, one at a time and in a process of its own, and sees the named test fail.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Final

from tests.mutants.choose import source
from tests.mutants.fork import in_a_fork
from tests.mutants.judge import collected, failing, patched, warm
from tests.mutants.patch import is_in_functions, remember

_EDGES: Final = "tests/spec/test_edges.py"
_PIECES: Final = "tests/laws/test_splits.py"
_FUNCTIONS: Final = "tests/unit/expr/functions"
_SPLITS: Final = "strata.expr.functions.splits"
_CASTS: Final = "strata.expr.functions.casts"


@dataclass(frozen=True)
class Planted:
    """A fault: what it makes of the engine, where it stands, and the test that fails by it."""

    fault: str
    module: str
    before: str
    after: str
    test: str  # without the cases that it is called with

    @property
    def code(self) -> CodeType:
        """Return the code of the module with the fault in it."""
        file = source(self.module)
        text = file.read_text("utf-8")
        if text.count(self.before) != 1:
            raise LookupError(f"{self.module} does not hold this text once: {self.before}")
        tree = ast.parse(text.replace(self.before, self.after))
        return compile(tree, str(file), "exec")


PLANTED: Final = (
    Planted(
        "a date always fits a timestamp of a zone, at the ends of time too",
        _CASTS,
        "over = over | (crossing & ((a.low <= 1 - _LAST_DAY) | (a.high >= _LAST_DAY - 1)))",
        "pass",
        f"{_EDGES}::test_a_date_at_the_end_of_time_may_not_fit_in_a_zone",
    ),
    Planted(
        "an instant always has a wall clock in a zone, and a wall clock an instant",
        _CASTS,
        "edge = crossing & ((low == exact.LOWEST) | (high == exact.HIGHEST))",
        "edge = np.zeros(low.shape, np.bool_)",
        f"{_EDGES}::test_an_instant_at_the_end_of_time_may_not_fit_in_a_zone",
    ),
    Planted(
        "the least integer has no quotient only where every divisor is -1",
        "strata.expr.functions.arithmetic",
        "edge = (a.low == exact.LOWEST) & (b.low <= -1) & (b.high >= -1) & ~empty",
        "edge = (a.low == exact.LOWEST) & (b.low == -1) & (b.high == -1) & ~empty",
        f"{_EDGES}::test_the_least_integer_has_no_quotient_by_minus_one_wherever_it_may_come_up",
    ),
    Planted(
        "texts of times are in order up to the first and the last day of four digits",
        "strata.expr.functions.formats",
        "_PLAIN_US: Final = (FIRST_US + 2 * DAY_US, LAST_US - 2 * DAY_US)",
        "_PLAIN_US: Final = (FIRST_US, LAST_US)",
        f"{_EDGES}::test_the_texts_of_times_are_in_order_where_a_zone_leaves_four_digits",
    ),
    Planted(
        "an index beyond 32 bits is outside of every list",
        "strata.expr.functions.lists",
        "wild = (index.low < INT32[0]) | (index.high > INT32[1])",
        "wild = np.zeros(index.low.shape, np.bool_)",
        f"{_EDGES}::test_an_index_beyond_32_bits_is_cut_and_may_hit_any_element",
    ),
    Planted(
        "the next day of a week never wraps",
        "strata.expr.functions.dates",
        "wraps = a.low < _DATE.low + 14",
        "wraps = np.zeros(a.low.shape, np.bool_)",
        f"{_EDGES}::test_the_next_day_wraps_within_two_weeks_of_the_least_date",
    ),
    Planted(
        "a dot means itself in a regular expression",
        "strata.expr.functions.text",
        '_PLAIN: Final = re.compile(r"[A-Za-z0-9 _',
        '_PLAIN: Final = re.compile(r"[.A-Za-z0-9 _',
        f"{_EDGES}::test_only_letters_that_mean_themselves_are_a_fixed_start",
    ),
    Planted(
        "a batch of an older and of today's relation is up to date",
        "strata.compact.outdated",
        "if batch.versions != (state.relation.version,):",
        "if state.relation.version not in batch.versions:",
        "tests/unit/compact/test_run.py::test_a_batch_of_two_relations_waits_for_its_migration",
    ),
    Planted(
        "the last millisecond has but one microsecond",
        "strata.ingest.values.cast",
        "MAX_TIME * 1000 + 999",
        "MAX_TIME * 1000",
        "tests/unit/ingest/values/test_cast.py::"
        "test_the_last_millisecond_is_taken_to_its_last_microsecond_and_no_further",
    ),
    Planted(
        "a key that the shard holds twice is replaced as if it stood there once",
        "strata.ingest.changes.resolve",
        "if pc.count_distinct(keys).as_py() < count:",
        "if False:",
        "tests/unit/ingest/changes/test_tasks.py::test_a_key_that_is_not_there_once_is_not_replaced",
    ),
    Planted(
        "piece 0 of a text does not fail",
        _SPLITS,
        "fail=not isinstance(place, int) or place == 0",
        "fail=not isinstance(place, int)",
        f"{_PIECES}::test_every_piece_lies_in_what_is_known",
    ),
    Planted(
        "what is behind a delimiter that is counted from the end begins as the text does",
        _SPLITS,
        "or not isinstance(number, int) or number < 1:",
        "or not isinstance(number, int):",
        f"{_PIECES}::test_every_piece_lies_in_what_is_known",
    ),
    Planted(
        "a split with a limit has as many pieces as one without",
        _SPLITS,
        "if delimiter is None or most > 0:",
        "if delimiter is None:",
        f"{_PIECES}::test_every_element_of_a_split_lies_in_what_is_known",
    ),
    Planted(
        "quotients of whole numbers are not recorded",
        "strata.stats.pairs",
        "ratio = _ratio(a, b) if pair.form == INTEGERS else ()",
        "ratio = () if pair.form == INTEGERS else _ratio(a, b)",
        "tests/laws/test_pairs.py::test_a_quotient_of_whole_numbers_lies_in_what_their_rows_have",
    ),
    Planted(
        "strings that are a day in one order of day and month are one in the other",
        "strata.stats.json_shapes",
        "if like & order",
        "if like",
        "tests/laws/test_json_shapes.py::test_each_text_that_one_edit_makes_is_as_by_itself",
    ),
    Planted(
        "a T between day and time of a string in JSON is a space",
        "strata.stats.json_shapes",
        """("'T'" if join == ord("T") else " ")""",
        '" "',
        "tests/laws/test_json_shapes.py::test_two_moments_of_different_forms_have_no_pattern",
    ),
    Planted(
        "where some texts of many are not evaluated, the rule has nothing to say of them",
        "strata.expr.functions.points",
        "whole = len(alone.rows) == alone.parts and not results.unknown.any()",
        "whole = len(alone.rows) == alone.parts",
        f"{_FUNCTIONS}/test_points.py::test_the_rule_stands_where_nothing_is_evaluated",
    ),
)
_SECONDS: Final = 300  # of a processor: no test here takes as many


def planted() -> Iterator[tuple[Planted | None, str | None]]:
    """Yield each fault, None for none, with the test that fails by it, "" where none does.

    In a process that has not imported the engine yet; afterwards it has.
    """
    warm()
    deep = [one for one in PLANTED if not is_in_functions(one.module, one.code)]
    for one in deep:
        yield one, failing(one.module, one.code, [one.test], _SECONDS)
    found: list[tuple[Planted | None, str | None]] = []

    def plant_all(run: Callable[[Sequence[str]], str]) -> None:
        remember()
        found.append((None, in_a_fork(partial(run, tests), _SECONDS)))
        for one in PLANTED:
            if one not in deep:
                answer = partial(patched, one.module, one.code, run, [one.test])
                found.append((one, in_a_fork(answer, _SECONDS)))

    tests = list(dict.fromkeys(one.test for one in PLANTED))
    broken = collected(tests, plant_all)
    assert not broken, f"cannot be collected: {broken}"
    yield from found
