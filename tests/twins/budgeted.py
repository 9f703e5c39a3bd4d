"""Slow twin: what a budget pays for, with every part and every draw in one list."""

from collections.abc import Sequence
from dataclasses import dataclass

from strata.decide.draw import draws, sampled

_LAST = 1 << 40


@dataclass(frozen=True)
class PlainPile:
    """The parts that one check would look at: upper of the batch, bytes, whether judged before."""

    parts: Sequence[tuple[int, int, bool]]
    evidence: int


def affordable(piles: Sequence[PlainPile], size_bytes: int) -> list[list[int]]:
    """Return the numbers of the parts that are looked at, the most worthwhile of each pile first.

    0: no limit. One part is always affordable.
    """
    ranked = []
    for owner, pile in enumerate(piles):
        order = sorted(
            range(len(pile.parts)), key=lambda n, pile=pile: (pile.parts[n][2], -pile.parts[n][0])
        )
        for rank, number in enumerate(order, pile.evidence):
            worth = rank + _LAST if pile.parts[number][2] else rank
            ranked.append((worth, owner, number))
    ranked.sort(key=lambda one: one[0])
    found: list[list[int]] = [[] for _ in piles]
    spent = 0
    for place, (_, owner, number) in enumerate(ranked):
        spent += piles[owner].parts[number][1]
        if size_bytes and spent > size_bytes and place:
            break
        found[owner].append(number)
    return found


def affordable_parts(
    batches: Sequence[tuple[int, Sequence[tuple[str, int]]]], run: str, percent: int, most: int
) -> set[str]:
    """Return the parts whose format is checked: of each batch its upper, and keys with bytes."""
    every = [one for _, parts in sorted(batches, key=lambda batch: -batch[0]) for one in parts]
    chosen = sampled([key for key, _ in every], run, percent).tolist()
    every = [one for one, wanted in zip(every, chosen, strict=True) if wanted]
    newest = _within(every, most // 2)
    rest = every[len(newest) :]
    drawn = draws([key for key, _ in rest], run).tolist()
    rest = [rest[n] for n in sorted(range(len(rest)), key=lambda n: drawn[n])]
    found = [*newest, *_within(rest, most - sum(size for _, size in newest))]
    return {key for key, _ in found or every[:1]}


def left_out(
    batches: Sequence[tuple[int, Sequence[tuple[str, int]]]],
    run: str,
    percent: int,
    checked: set[str],
) -> tuple[int, int]:
    """Return how many parts of a share were not checked, and their bytes."""
    sizes = [
        size
        for _, parts in batches
        for key, size in parts
        if sampled([key], run, percent)[0] and key not in checked
    ]
    return len(sizes), sum(sizes)


def _within(parts: Sequence[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    found, spent = [], 0
    for key, size in parts:
        spent += size
        if spent > most:
            break
        found.append((key, size))
    return found
