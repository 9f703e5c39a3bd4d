"""Is what clients saw of shared lists what one machine with one thread could have shown them?

In the manner of Maelstrom's list-append: concurrent clients append unique elements and read whole
lists; each call is written down with when it was made and when it returned. As the lists are
read back at the end, their order is known, and so it need not be searched for: a history is
linearizable exactly if every call fits at one place of that order between its two times.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "unknown", "failed"]  # failed: the caller was told that nothing happened


@dataclass(frozen=True)
class Call:
    """What one client asked, and what it was told. Times: one clock for all clients."""

    key: str
    began: int
    ended: int
    outcome: Outcome = "ok"
    appended: str | None = None  # None: a read
    read: tuple[str, ...] = ()


def anomalies(calls: Iterable[Call], final: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is wrong with a history, given what the lists are after it; hopefully nothing."""
    by_key: dict[str, list[Call]] = {key: [] for key in final}
    for call in calls:
        by_key.setdefault(call.key, []).append(call)
    return [
        f"{key}: {problem}"
        for key, some in by_key.items()
        for problem in _of_one(some, tuple(final.get(key, ())))
    ]


def _of_one(calls: list[Call], final: tuple[str, ...]) -> Iterator[str]:
    at = {element: i for i, element in enumerate(final)}
    asked = {call.appended: call for call in calls if call.appended is not None}
    yield from (f"{e} is there {n} times" for e, n in Counter(final).items() if n > 1)
    yield from (f"{e} was never appended" for e in final if e not in asked)
    for element, call in asked.items():
        if call.outcome == "ok" and element not in at:
            yield f"{element} was acknowledged and is lost"
        if call.outcome == "failed" and element in at:
            yield f"{element} certainly did not happen, and is there"
    for call in calls:
        if call.appended is None and call.outcome == "ok":
            yield from _of_read(call, final, asked)
    yield from _out_of_time(calls, at)


def _of_read(call: Call, final: tuple[str, ...], asked: Mapping[str, Call]) -> Iterator[str]:
    if call.read != final[: len(call.read)]:
        yield f"a read saw {call.read[-3:]}, which is no beginning of the list"
    for element in call.read:
        if element in asked and asked[element].began > call.ended:
            yield f"a read saw {element} before it was appended"


def _out_of_time(calls: list[Call], at: Mapping[str, int]) -> Iterator[str]:
    """Whoever begins after another's call ended comes after it in the order."""
    told = [c for c in calls if c.outcome == "ok" and (c.appended is None or c.appended in at)]
    ended = sorted(told, key=lambda c: c.ended)
    seen, length = 0, 0  # of `ended`, and how long the list was at least by then
    for call in sorted(told, key=lambda c: c.began):
        while ended[seen].ended < call.began:
            done = ended[seen]
            length = max(length, len(done.read) if done.appended is None else at[done.appended] + 1)
            seen += 1
        if call.appended is None and len(call.read) < length:
            yield f"a stale read: {len(call.read)} elements, {length} were told before it began"
        if call.appended is not None and at[call.appended] < length:
            yield f"{call.appended} came before what was told before it began"
    # Who was told of failure, or of nothing, may still not be seen before it began.
    for call in calls:
        if call.appended in at and call.outcome == "unknown":
            before = [c for c in told if c.ended < call.began and c.appended is not None]
            if any(at[c.appended] > at[call.appended] for c in before if c.appended):
                yield f"{call.appended} came before what was told before it began"
