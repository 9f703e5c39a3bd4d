"""Contain a mismatch of one shard: a wrong rule is wrong in every shard."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from strata.audit.verdict import Verdict
from strata.errors import StrataError
from strata.machine.machine import Machine
from strata.rollout.ladder import distrust_rule


def guilty_functions(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the functions that mismatches are blamed on: words for neither a column nor a part."""
    words = {w for v in verdicts if v.outcome == "mismatch" for w in v.suspects.split()}
    return tuple(sorted(w for w in words if not w.isdigit() and "/" not in w))


def contain(machine: Machine, origin: str, verdicts: Iterable[Verdict]) -> list[str]:
    """If a rule is at fault, take every other skipping shard back to `soft`; return their names.

    A wrong statistic concerns only its own shard. A shard that cannot be changed now is left to its
    own soft evaluation, which meets the same rule.
    """
    functions = guilty_functions(verdicts)
    if not functions:
        return []
    reason = f"a rule was wrong in {origin}, one of: {', '.join(functions)}"
    lowered: list[str] = []
    with suppress(StrataError):
        for name in machine.names():
            with suppress(StrataError):
                if name != origin and machine.apply(name, partial(distrust_rule, reason=reason)):
                    lowered.append(name)
    return lowered
