"""How a shard grew, from the states that are stored, and what its operations cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from strata.history.operation_log import BILL
from strata.model.settings import PriceSettings
from strata.model.spec import LAYOUTS
from strata.state.state import Batch, State
from strata.ui.needs import GOOD
from strata.ui.shown import counted, several, size, when
from strata.ui.svg import element, side_by_side

KINDS: Final = (*LAYOUTS, "mixed")  # the last one: batches of several layouts
WIDTH, LEFT, RIGHT, TOP, TALL, GAP, BOTTOM = 1000, 76, 14, 24, 120, 44, 28
NEWEST: Final = 10  # pixels of the newest state, behind which there is no time yet
_TICKS: Final = 5
_DAYS: Final = 5 * 86_400_000  # from here on ticks are days


@dataclass(frozen=True, slots=True)
class ShardSize:
    """What one state holds; bytes and parts by layout, in the order of `KINDS`."""

    at_ms: int
    size_bytes: tuple[int, ...]
    parts: tuple[int, ...]
    stats_bytes: int


def shard_sizes(states: Sequence[State]) -> list[ShardSize]:
    """Return the sizes of states, oldest first; neighbours of the same size are one."""
    found: list[ShardSize] = []
    for state in sorted(states, key=lambda one: one.walltime_ms):
        one = _size(state)
        same = found and _figures(found[-1]) == _figures(one)
        if not same:
            found.append(one)
    last = max(states, key=lambda one: one.walltime_ms, default=None)
    if last is not None and found[-1].at_ms != last.walltime_ms:
        found.append(_size(last))
    return found


def _size(state: State) -> ShardSize:
    sizes, parts = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for batch in state.batches:
        sizes[_layout(batch)] += batch.size_bytes
        for layout, number in batch.layouts:
            parts[layout if layout in parts else "mixed"] += number
    stats = sum(batch.stats_bytes for batch in state.batches)
    return ShardSize(state.walltime_ms, tuple(sizes.values()), tuple(parts.values()), stats)


def _layout(batch: Batch) -> str:
    """Return the only layout of a batch; a state knows the bytes of a batch, not of its parts."""
    only = batch.layouts[0][0] if len(batch.layouts) == 1 else "mixed"
    return only if only in KINDS else "mixed"


def _figures(one: ShardSize) -> tuple[Any, ...]:
    return one.size_bytes, one.parts, one.stats_bytes


def growth_svg(sizes: Sequence[ShardSize]) -> Markup:
    """Return bytes, parts and bytes of statistics over time. Needs at least one size."""
    last = sizes[-1]
    said = (
        f"{size(sum(last.size_bytes))} in {several(sum(last.parts), 'part')},"
        f" {size(last.stats_bytes)} of statistics, on {when(last.at_ms)}"
    )
    height = TOP + 3 * TALL + 2 * GAP + BOTTOM
    return element(
        "svg",
        side_by_side(_panels(sizes)),
        style_of="chart growth",
        role="img",
        aria_label=f"Size over time: {said}",
        viewBox=f"0 0 {WIDTH} {height}",
    )


def _panels(sizes: Sequence[ShardSize]) -> Iterator[Markup]:
    times = [one.at_ms for one in sizes]
    stats = [(one.stats_bytes,) for one in sizes]
    base = TOP + TALL
    yield from _panel("Bytes", times, [one.size_bytes for one in sizes], base, in_bytes=True)
    base += GAP + TALL
    yield from _panel("Parts", times, [one.parts for one in sizes], base, in_bytes=False)
    base += GAP + TALL
    yield from _panel("Bytes of statistics", times, stats, base, in_bytes=True)
    yield from _ticks(times, base + 20)


def _ticks(times: Sequence[int], y: int) -> Iterator[Markup]:
    """Yield the times below a drawing; of ticks that would read alike only the first."""
    low, high = times[0], max(times[-1], times[0] + 1)
    before = ""
    for tick in range(_TICKS + 1):
        at = low + (high - low) * tick // _TICKS
        text = when(at)[:10] if high - low > _DAYS else when(at)[5:]
        anchor = {0: "start", _TICKS: "end"}.get(tick, "middle")
        if text != before:
            yield element("text", text, x=_x(at, times), y=y, text_anchor=anchor)
        before = text


def _panel(
    name: str, times: Sequence[int], rows: Sequence[tuple[int, ...]], base: int, *, in_bytes: bool
) -> Iterator[Markup]:
    """Yield one panel: layers upon each other, the first at the bottom."""
    most = max(*(sum(row) for row in rows), 1)
    show = size if in_bytes else counted
    yield element("text", name, style_of="head", x=LEFT, y=base - TALL - 10)
    for value in (0, most):
        y = base - TALL * value / most
        yield element("line", style_of="rule", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        yield element("text", show(value), style_of="side", x=LEFT - 8, y=y + 4)
    for layer in reversed(range(len(rows[0]))):
        heights = [sum(row[: layer + 1]) for row in rows]
        if not any(row[layer] for row in rows):
            continue
        layout = KINDS[layer] if len(rows[0]) > 1 else "stats"
        latest = rows[-1][layer]
        title = element("title", f"{name}, {layout}: {show(latest)} now")
        path = _area(
            [(at, base - TALL * h / most) for at, h in zip(times, heights, strict=True)],
            times,
            base,
        )
        yield element("path", title, style_of=f"layer layout-{layout}", d=path)


def _area(points: Sequence[tuple[int, float]], times: Sequence[int], base: int) -> str:
    (_, y), *others = points
    moves = "".join(f"H{_x(at, times):.1f}V{y:.1f}" for at, y in others)
    return f"M{LEFT} {base}V{y:.1f}{moves}H{WIDTH - RIGHT}V{base}Z"


def _x(at_ms: int, times: Sequence[int]) -> float:
    low, high = times[0], max(times[-1], times[0] + 1)
    return LEFT + (at_ms - low) / (high - low) * (WIDTH - LEFT - RIGHT - NEWEST)


@dataclass(frozen=True, slots=True)
class OperationCost:
    """The operations of one kind, together. Requests are None where none were recorded."""

    what: str
    runs: int
    bad: int  # runs that did not end well
    seconds: float
    rows: int
    size_bytes: int
    bill: tuple[int, ...] | None  # writes and listings, reads, bytes in, bytes out
    price: float | None  # of the requests, in `PriceSettings.currency`; None: unknown


def requests_price(bill: tuple[int, ...] | None, prices: PriceSettings) -> float | None:
    """Return what the requests of a bill cost; None if none was recorded or a price is unknown.

    Units: of `prices.currency`. Errs: low, as `strata.store.bill`.
    """
    if bill is None or not prices.write_cents or not prices.read_cents:
        return None
    writes, reads = bill[:2]
    return (writes * prices.write_cents + reads * prices.read_cents) / 100 / 10**6


def month_price(stored: int, prices: PriceSettings) -> float | None:
    """Return what it costs to keep `stored` bytes for a month; None if the price is unknown.

    Units: of `prices.currency`. Errs: low, by what garbage collection has not removed yet.
    """
    return stored * prices.month_cents / 100 / 10**12 if prices.month_cents else None


def costs_of(mine: pa.Table, prices: PriceSettings) -> list[OperationCost]:
    """Return what operations cost by kind, the longest first. Shape: as `operation_log.SCHEMA`."""
    good = pc.cast(pc.is_in(mine["outcome"], pa.array(GOOD)), pa.int64())
    sums = ("good", "seconds", "rows", "bytes")
    aggregates: list[Any] = [("what", "count"), *((name, "sum") for name in sums)]
    counted_only = pc.ScalarAggregateOptions(min_count=1)  # null where none was counted
    aggregates += [(name, "sum", counted_only) for name in BILL]
    kinds = mine.append_column("good", good).group_by("what").aggregate(aggregates).to_pylist()
    return sorted((_cost(kind, prices) for kind in kinds), key=lambda one: (-one.seconds, one.what))


def _cost(kind: Mapping[str, Any], prices: PriceSettings) -> OperationCost:
    found = tuple(kind[f"{name}_sum"] for name in BILL)
    bill = None if None in found else found
    return OperationCost(
        kind["what"],
        kind["what_count"],
        kind["what_count"] - kind["good_sum"],
        kind["seconds_sum"],
        kind["rows_sum"],
        kind["bytes_sum"],
        bill,
        requests_price(bill, prices),
    )
