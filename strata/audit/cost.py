"""Estimate what an audit costs at other shares than its own, so that a share can be chosen.

Parts, bytes and requests are those of the exact sample that a run at the share draws; seconds are
those of the run, in proportion to the bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from strata.audit.soft import judged_instants
from strata.decide.skips import Decisions
from strata.expr.filter import Filter

SHARES: Final = (1, 10, 100)  # percent


@dataclass(frozen=True, slots=True)
class AuditCost:
    """What soft evaluation fetches from a shard at one share, for all filters together."""

    percent: int
    parts: int
    size_bytes: int  # stored bytes of the parts; each repeated read counts
    requests: int  # one for each read of a part; each repeated read counts
    seconds: float


class Share(NamedTuple):
    """The sample that a run at a share draws."""

    percent: int
    parts: int
    size_bytes: int


def shares_of(decisions: Decisions, run: str, least: int) -> list[Share]:
    """Return the sample of each share of `SHARES`.

    `least`: parts fetched at any share, if there are enough.
    """
    found = []
    for share in SHARES:
        both = (decisions.skipped, decisions.tightened)
        drawn = [skips.share(share, run, least) for skips in both]
        found.append(Share(share, sum(n for n, _ in drawn), sum(size for _, size in drawn)))
    return found


def costs(
    shares: Iterable[Share], filter: Filter, *, seconds: float, audited_bytes: int
) -> list[AuditCost]:
    """Return what one filter costs at each share.

    `seconds` and `audited_bytes` are those of the run; a run that fetched nothing gives no seconds.
    """
    # One read counts the rows, then one for each instant judges them
    readings = 1 + len(judged_instants(filter))
    return [
        AuditCost(
            share,
            parts,
            size * readings,
            parts * readings,
            round(seconds * size / audited_bytes if audited_bytes else 0.0, 3),
        )
        for share, parts, size in shares
    ]


def total(some: Iterable[Sequence[AuditCost]]) -> tuple[AuditCost, ...]:
    """Return the costs of several filters together, a line for each share.

    >>> total([[AuditCost(1, 2, 30, 4, 0.5)], [AuditCost(1, 1, 10, 2, 0.25)]])
    (AuditCost(percent=1, parts=3, size_bytes=40, requests=6, seconds=0.75),)
    """
    return tuple(
        AuditCost(
            of_share[0].percent,
            sum(c.parts for c in of_share),
            sum(c.size_bytes for c in of_share),
            sum(c.requests for c in of_share),
            round(sum(c.seconds for c in of_share), 3),
        )
        for of_share in zip(*some, strict=True)
    )


def cost_counts(some: Iterable[AuditCost]) -> dict[str, int]:
    """Return the costs as whole numbers with names, as the history of operations keeps them."""
    return {
        f"audit_{name}_at_{cost.percent}": value
        for cost in some
        for name, value in (
            ("parts", cost.parts),
            ("bytes", cost.size_bytes),
            ("requests", cost.requests),
            ("ms", round(cost.seconds * 1000)),
        )
    }
