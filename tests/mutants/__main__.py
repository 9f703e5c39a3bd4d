"""Change rooms that decide, store, read and delete, one place at a time; see which test fails.

    python -m tests.mutants [--room NAME ...] [--new | --survivors] [--seconds 25]
    python -m tests.mutants --page

Three hours for all rooms on one core. `--new` judges what the record does not know,
`--survivors` what survived, with the tests that there are by now; `--page` only writes the page
anew. What was judged lies in `tests/mutants/judged.json`, what survives for a reason in
`tests/mutants/explained.py`; the program fails as long as one survives without.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

from tests.mutants.choose import ROOMS, chosen, every, source
from tests.mutants.edits import Mutant
from tests.mutants.judge import (
    Court,
    Verdict,
    failing,
    is_imported,
    judge,
    judge_patched,
    unchanged,
    warm,
)
from tests.mutants.page import PAGE, explained, page
from tests.mutants.reach import read
from tests.mutants.record import load, store


def main(argv: Sequence[str] | None = None) -> int:
    """Judge, write down and tell; 1 if a mutant survives without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--room", nargs="*", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--seconds", type=float, default=25)
    options = parser.parse_args(argv)
    known = load()
    if not options.page:
        known = _judged(options, known)
    PAGE.write_text(page(known), encoding="utf-8")
    left = [m for m, v in known.items() if v.outcome == "survived" and not explained(m)]
    for mutant in left:
        sys.stdout.write(f"survived: {_told(mutant)}\n")
    sys.stdout.write(f"{len(known)} mutants, {len(left)} survive without a reason\n")
    return int(bool(left))


def _judged(options: argparse.Namespace, known: Mapping[Mutant, Verdict]) -> dict[Mutant, Verdict]:
    """Judge the mutants that are asked for; return what is known of all."""
    drawn = {room: chosen(room) for room in options.room}
    verdicts = {m: v for m, v in known.items() if is_there(m)}
    wanted = [m for room in options.room for m in drawn[room] if _asked_for(m, verdicts, options)]
    court = Court(read(), options.seconds)

    def note(mutant: Mutant, verdict: Verdict) -> None:
        verdicts[mutant] = verdict
        sys.stdout.write(f"{verdict.outcome} {verdict.test}: {_told(mutant)}\n")
        sys.stdout.flush()
        store(verdicts)

    left = dict.fromkeys(wanted)
    for mutant, verdict in judge_patched(wanted, court):
        if verdict.outcome != "survived":
            note(mutant, verdict)
            del left[mutant]
    warm()
    for module in dict.fromkeys(mutant.module for mutant in left):
        of_it = [mutant for mutant in left if mutant.module == module]
        _control(of_it[0], court)
        for mutant in of_it:
            note(mutant, judge(mutant, court))
    return verdicts


def _asked_for(
    mutant: Mutant, verdicts: Mapping[Mutant, Verdict], options: argparse.Namespace
) -> bool:
    if options.survivors:
        return mutant in verdicts and verdicts[mutant].outcome == "survived"
    return not (options.new and mutant in verdicts)


def _control(mutant: Mutant, court: Court) -> None:
    """See that tests pass on a source that is laid over itself, else no verdict means a thing."""
    tests = [] if is_imported(mutant.module) else court.asked(mutant)[:20]
    failed = failing(mutant.module, unchanged(mutant.module), tests, 600) if tests else ""
    if failed != "":
        raise SystemExit(f"without a mutant {failed or 'no test'} fails: {mutant.module}")


def is_there(mutant: Mutant) -> bool:
    """Return whether a mutant is a place of a source still, drawn or not by now."""
    return source(mutant.module).exists() and mutant in every(mutant.module)


def _told(mutant: Mutant) -> str:
    nth = f" (no. {mutant.nth + 1})" if mutant.nth else ""
    where = f"{mutant.module}:{mutant.function}{nth}"
    return f"{where}: {mutant.kind}: {mutant.before} => {mutant.after}"


if __name__ == "__main__":
    sys.exit(main())
