"""Gates at their thresholds: what just suffices passes, and each says what it found."""

from dataclasses import replace

import pytest

from strata.model.settings import Thresholds
from strata.rollout.gates import gates, next_mode, unmet
from strata.rollout.policy import Policy
from strata.rollout.pool import Pool
from strata.state.state import Evidence, Mode, Rollout, Stratum

POLICY = Policy(
    Thresholds(
        audit_parts=10,
        audit_runs=3,
        audit_days=2,
        on_parts=20,
        on_days=5,
        stratum_parts=4,
        failed_permille=1,
    )
)
JUST = Evidence(
    basis="code", runs=3, days=2, parts=10, step_days=5, strata=(Stratum("x", 4), Stratum("y", 6))
)


def lacking(to: Mode, pool: Pool | None = None, policy: Policy = POLICY, **change: object) -> str:
    seen = replace(JUST, **change)  # type: ignore[arg-type]
    return unmet(gates(Rollout("soft", evidence=seen), to, policy, "code", pool))


def test_behind_the_last_rung_there_is_none() -> None:
    assert [next_mode(mode) for mode in ("off", "soft", "audit", "on")] == [
        "soft",
        "audit",
        "on",
        None,
    ]


def test_what_just_suffices_passes() -> None:
    assert lacking("audit") == ""
    assert lacking("on", parts=20) == ""
    assert lacking("on", parts=19).startswith("audited parts: 19")
    assert lacking("on", parts=20, step_days=4).startswith("days in audit")


def test_with_others_a_shard_needs_as_many_parts_of_its_own_as_a_stratum() -> None:
    others = Pool(("other",), Evidence(basis="code", parts=99))
    strata = (Stratum("x", 4),)

    assert lacking("audit", others, parts=4, strata=strata) == ""
    assert lacking("audit", others, parts=3, strata=strata).startswith("audited parts of its own")


@pytest.mark.parametrize(("parts", "passes"), [(999, False), (1000, False), (1001, True)])
def test_fewer_than_the_wanted_share_fails(parts: int, passes: bool) -> None:
    """One of a thousand is not fewer than one of a thousand; repeats are looked at as well."""
    for new in (parts - 1, 100):
        found = lacking("audit", parts=new, repeats=parts - 1 - new, failed=1)
        assert (found == "") == passes
    assert lacking("audit", parts=parts - 2, missing=1, repeats=1).startswith("failed") != passes


def test_a_gate_says_what_it_found() -> None:
    assert lacking("audit", basis="") == "code: no audit yet, wanted code"
    assert lacking("audit", basis="older") == "code: older, wanted code"
    shown = [
        lacking("audit", policy=Policy(replace(POLICY.gates, stratum_parts=least)), strata=())
        for least in (1, 2)
    ]
    assert shown == [
        "strata: 0 strata, 0 of them too thin, wanted at least 1 audited part in each",
        "strata: 0 strata, 0 of them too thin, wanted at least 2 audited parts in each",
    ]
    one = lacking("audit", strata=(Stratum("x", 3),))
    assert one.startswith("strata: 1 stratum, 1 of them too thin (x: 3)")
