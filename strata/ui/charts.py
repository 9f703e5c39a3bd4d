"""Small drawings of figures over days, as SVG: no script draws anything."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_UP, Context
from typing import Final

from markupsafe import Markup

from strata.ui.facts import ReadDay
from strata.ui.svg import element, side_by_side

_TWO_DIGITS: Final = Context(prec=2, rounding=ROUND_UP)
_STEP, _WIDE, _TALL = 14, 10, 26  # pixels of a day, of its bar, and of a full bar


def percent(share: float | None) -> str:
    """Return a share as people read it; it is rounded down, so that only all is 100 %.

    >>> percent(0.9999), percent(1.0), percent(0.0), percent(0.004), percent(None)
    ('99 %', '100 %', '0 %', '<1 %', 'unknown')
    """
    if share is None:
        return "unknown"
    return "<1 %" if 0 < share < 0.01 else f"{int(100 * share)} %"


def rate(share: float) -> str:
    """Return a bound on a rate with two digits that count; it is rounded up, never flattered.

    >>> rate(1.0), rate(0.0258), rate(0.000999), rate(0.0)
    ('100 %', '2.6 %', '0.10 %', '0 %')
    """
    if not share:
        return "0 %"
    return f"{_TWO_DIGITS.create_decimal_from_float(100 * share):f} %"


def sparkline(days: Sequence[ReadDay]) -> Markup:
    """Return the share of bytes that readers skipped, a bar a day; a dot where none is known."""
    said = ", ".join(_said(day) for day in days)
    return bars([(_said(day), day.skipped) for day in days], f"Bytes skipped for readers: {said}")


def bars(shares: Sequence[tuple[str, float | None]], label: str) -> Markup:
    """Return a bar for each share, with its text; a dot where none is known."""
    wide = _STEP * len(shares)
    return element(
        "svg",
        side_by_side(_bars(shares)),
        style_of="spark",
        role="img",
        width=wide,
        height=_TALL,
        viewBox=f"0 0 {wide} {_TALL}",
        aria_label=label,
    )


def nightly(shares: Sequence[tuple[str, float | None]]) -> Markup:
    """Return the share of bytes that a filter skips, a bar a night."""
    known = [share for _, share in shares if share is not None]
    label = f"Bytes skipped on {len(known)} of {len(shares)} nights"
    if known:
        label += f", from {percent(min(known))} to {percent(max(known))}"
    said = [(f"{day} {'not recorded' if s is None else percent(s)}", s) for day, s in shares]
    return bars(said, label)


def _bars(shares: Sequence[tuple[str, float | None]]) -> Iterator[Markup]:
    for at, (said, share) in enumerate(shares):
        left, title = at * _STEP, element("title", said)
        if share is None:
            yield element(
                "circle", title, style_of="none", cx=left + _WIDE / 2, cy=_TALL - 2, r=1.5
            )
            continue
        tall = max(share * _TALL, 1.0)
        yield element("rect", title, style_of="track", x=left, y=0, width=_WIDE, height=_TALL)
        yield element("rect", style_of="fill", x=left, y=_TALL - tall, width=_WIDE, height=tall)


def _said(day: ReadDay) -> str:
    if day.skipped is None:
        return f"{day.day} {f'{day.reads} reads, all of them whole' if day.reads else 'no read'}"
    return f"{day.day} {percent(day.skipped)}"
