"""The judge of mutants: its edits, its choice, its record; and that a fault is told from none."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import reach
from tests.mutants.choose import chosen, every, modules, source
from tests.mutants.edits import edits, mutated
from tests.mutants.explained import EXPLAINED
from tests.mutants.judge import Court, is_body_of_a_class
from tests.mutants.page import PAGE, explained, page
from tests.mutants.reach import LEFT_OUT, POOL, Reached, files_below, pool
from tests.mutants.record import load

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
KNOWN = load()
# That are noticed or explained at least; more are drawn, and the choice moves with the sources.
LEAST = 2_800

SOURCE = '''
"""A module."""
from x import y

LIMIT: int | None = 5


def f(a: int, *, b: bool = True) -> list[int]:
    """Return something."""
    if a < 1:
        raise ValueError(f"too small: {a + 1}")
    for n in range(a):
        if n == LIMIT and not b:
            continue
        a += min(n, -a)
    return np.where(m | ~k, a + 1, a - n)
'''

MADE = [
    ("constant moved", "5", "6"),
    ("default changed", "True", "False"),
    ("guard removed", "if a < 1: raise ValueError(f'too small: {a + 1}')", "pass"),
    ("comparison off by one", "a < 1", "a <= 1"),
    ("comparison turned", "a < 1", "a >= 1"),
    ("constant moved", "1", "2"),
    ("guard removed", "if n == LIMIT and (not b): continue", "pass"),
    ("and for or", "n == LIMIT and (not b)", "n == LIMIT or not b"),
    ("condition dropped", "n == LIMIT and (not b)", "not b"),
    ("condition dropped", "n == LIMIT and (not b)", "n == LIMIT"),
    ("comparison turned", "n == LIMIT", "n != LIMIT"),
    ("negation dropped", "not b", "b"),
    ("loop left", "continue", "break"),
    ("statement dropped", "a += min(n, -a)", "pass"),
    ("twin taken", "min", "max"),
    ("negation dropped", "-a", "a"),
    ("arms swapped", "np.where(m | ~k, a + 1, a - n)", "np.where(m | ~k, a - n, a + 1)"),
    ("and for or", "m | ~k", "m & ~k"),
    ("condition dropped", "m | ~k", "m"),
    ("condition dropped", "m | ~k", "~k"),
    ("mask inverted", "m | ~k", "~m | ~k"),
    ("negation dropped", "~k", "k"),
    ("one dropped", "a + 1", "a"),
    ("constant moved", "1", "2"),
    ("sign turned", "a - n", "a + n"),
]


def test_the_edits_of_a_source() -> None:
    found = [edit.mutant for edit in edits("m", ast.parse(SOURCE))]

    assert Counter((m.kind, m.before, m.after) for m in found) == Counter(MADE)
    assert len({m.key for m in found}) == len(found)


def test_each_edit_changes_what_it_says_and_nothing_else() -> None:
    plain = ast.unparse(ast.parse(SOURCE))
    for edit in edits("m", ast.parse(SOURCE)):
        changed = ast.unparse(mutated(SOURCE, edit.mutant))
        lines = [line for line in changed.splitlines() if line not in plain.splitlines()]

        assert changed != plain
        assert len(lines) <= 1, edit.mutant
    with pytest.raises(LookupError, match="no place for"):
        mutated("x = 1", edit.mutant)


def test_the_choice_is_the_same_each_time_and_spread_over_modules_and_kinds() -> None:
    found = chosen("stats")

    assert found == chosen("stats")
    assert {m.module for m in found} == {name for name in modules("stats") if every(name)}
    assert len({m.kind for m in found}) >= 12


def test_a_field_of_a_class_is_asked_of_each_test_that_reaches_its_module() -> None:
    """No function is entered when a class is made: its body runs at the import."""
    found = {m for m in every("strata.expr.entry") if m.function == "Entry"}
    reached = {"a.py::test_a": Reached(1, frozenset({"strata.expr.entry:Entry.accepts"}))}

    assert found
    for mutant in found:
        assert is_body_of_a_class(mutant)
        assert Court(reached, 5).asked(mutant) == ["a.py::test_a"]
    assert not any(is_body_of_a_class(m) for m in every("strata.stats.size"))


# What was judged, and what is said of it.


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(KNOWN), "run: python -m tests.mutants --page"


def test_each_survivor_has_its_reason() -> None:
    survived = {m for m, verdict in KNOWN.items() if verdict.outcome == "survived"}

    assert [m for m in survived if not explained(m)] == []
    assert sum(v.outcome == "killed" or bool(explained(m)) for m, v in KNOWN.items()) >= LEAST
    named = {(m.module, m.function, m.before, m.after) for m in survived}
    assert set(EXPLAINED) <= named, "a reason for what does not survive"


def test_the_tests_that_killed_are_there() -> None:
    suites = "".join(
        file.read_text("utf-8") for file in (PROJECT / "tests/conformance").glob("*.py")
    )
    for mutant, verdict in KNOWN.items():
        file, _, name = verdict.test.partition("::")
        if verdict.outcome == "killed" and name:
            source = (PROJECT / file).read_text("utf-8") + suites
            function = name.partition("[")[0].rpartition("::")[2]
            assert re.search(rf"^ *def {function}\(", source, re.MULTILINE), (mutant, verdict.test)


def test_most_of_what_was_judged_is_still_a_place_of_a_source() -> None:
    """Sources move on; beyond some measure the record is of another engine."""
    looked_at = sorted({m.module for m in KNOWN})[::4]
    known = [m for m in KNOWN if m.module in looked_at]
    there = {m for name in looked_at if source(name).exists() for m in every(name)}

    assert len(there.intersection(known)) > 0.8 * len(known), "run: make mutants"


JUDGED = """
from tests.mutants.choose import every
from tests.mutants.judge import Court, failing, judge, judge_patched, unchanged, warm
from tests.mutants.reach import Reached

MODULE = "strata.stats.size"
TEST = "tests/unit/stats/test_size.py::test_signed_numbers_cost_as_much_as_their_complement"
court = Court({TEST: Reached(5, frozenset({f"{MODULE}:_integer_bits"}))}, 5)
[told] = [m for m in every(MODULE) if m.before == "~numbers"]
[same] = [m for m in every(MODULE) if m.before == "numbers < 0" and m.after == "numbers <= 0"]
[other] = [m for m in every(MODULE) if m.function == "encoded_size" and m.before == "0"]
found = dict(judge_patched([told, same, other], court))
assert (found[told].test, found[same].outcome) == (TEST, "survived"), found
assert other not in found, "its tests were never asked"
warm()
assert failing(MODULE, unchanged(MODULE), [TEST], 300) == "", "fails without a mutant"
assert judge(told, court).test == TEST
assert judge(same, court).outcome == judge(other, court).outcome == "survived"
"""


def test_a_mutant_is_told_from_none_and_from_one_that_changes_nothing() -> None:
    """The net itself, in a process that has not imported the engine."""
    run = subprocess.run(
        [sys.executable, "-c", JUDGED], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr


def test_every_file_of_the_pool_is_asked() -> None:
    """A file of tests that somebody adds tomorrow is asked, but for what is left out by name."""
    found = pool()

    for name in files_below(POOL):
        assert (name in found) != name.startswith(LEFT_OUT), name
    assert "tests/attacks/test_approvals.py" in found
    assert [name for name in LEFT_OUT if not (PROJECT / name).exists()] == []


def test_a_record_that_has_not_seen_a_file_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "reached.json"
    monkeypatch.setattr(reach, "RECORD", record)
    with pytest.raises(SystemExit, match=r"run python -m tests\.mutants\.reach$"):
        reach.read()

    first, *others = pool()
    kept = {"files": others, "functions": ["m:f"], "tests": {"a.py::test_a": (0.5, [0])}}
    record.write_text(json.dumps(kept), "utf-8")
    with pytest.raises(SystemExit, match=re.escape(f"tests.mutants.reach {first}")):
        reach.read()
    assert reach.read(whole=False) == {"a.py::test_a": reach.Reached(0.5, frozenset({"m:f"}))}


PLANTS = """
from tests.mutants.planted import PLANTED, planted

found = dict(planted())
assert found.pop(None) == "", "a test fails without a fault"
assert found.keys() == set(PLANTED)
for one, failed in found.items():
    assert failed and failed.partition("[")[0] == one.test, (one.fault, failed)
"""


@pytest.mark.long  # the tests that notice run each time; here they are seen to fail
def test_each_fault_that_was_survived_once_is_noticed() -> None:
    """Each is planted alone, and the test that is named fails."""
    run = subprocess.run(
        [sys.executable, "-c", PLANTS], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
