"""Labels: names that people give to times of a shard, so that a read can say `release-1`.

A label is a critical hold at its time, under a name of its own form. So since does not pass that
time while the label stands, in programs that know labels and in older ones, and its rows stay as
they were then. It keeps a time readable, not old states: compaction, garbage collection and erasure
go on.
"""

import re
from dataclasses import dataclass
from typing import Final

from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.state.holds import LABEL, find_hold
from strata.state.state import Hold, State
from strata.state.step import check_alive, step

OPAQUE: Final = "label"  # in place of an owner's token: a label belongs to the shard
CHARS_MAX: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")  # never like a time, nor like `clock:…`


@dataclass(frozen=True, slots=True)
class Label:
    """A name for a time of a shard."""

    name: str
    time: int

    def to_json(self) -> dict[str, object]:
        """Return it as `strata tags --json` lists it."""
        return {"label": self.name, "time": self.time, "at": format_time(self.time)}


def is_label(found: Hold) -> bool:
    """Return whether a hold is a label."""
    return found.expires_ms is None and found.name.startswith(LABEL) and found.opaque == OPAQUE


def labels_of(state: State) -> tuple[Label, ...]:
    """Return the labels of a shard, sorted by name."""
    found = (h for h in state.holds if is_label(h))
    return tuple(Label(h.name.removeprefix(LABEL), h.since) for h in found)


def find_label(state: State, name: str) -> Label | None:
    """Return the label of this name; None if there is none."""
    return next((label for label in labels_of(state) if label.name == name), None)


def set_label(state: State, now_ms: int, *, name: str, time: int) -> tuple[State, Label]:
    """Give a readable time a name. Repeating it succeeds without effect.

    Raises: InvalidRequest for a text that is no name, a time that cannot be read, and a name that
    another time has.
    """
    check_alive(state)
    if not _NAME.fullmatch(name) or len(name) > CHARS_MAX:
        raise InvalidRequest(
            "this is no name for a label",
            label=name,
            cure=f"begin with a letter, then letters, digits, '.', '_', '-'; at most {CHARS_MAX}",
        )
    label, known = Label(name, time), find_hold(state, LABEL + name)
    if known is not None and is_label(known) and known.since == time:
        return state, label
    if known is not None:
        raise InvalidRequest(
            "another time has this label",
            shard=state.name,
            label=name,
            time=known.since,
            at=format_time(known.since),
            cure=f"strata untag {state.name} {name}, or another name",
        )
    if not state.since <= time < state.upper:
        since, upper = (f"{t} ({format_time(t)})" for t in (state.since, state.upper))
        raise InvalidRequest(
            "only a time that can be read gets a label",
            shard=state.name,
            time=time,
            cure=f"choose since {since} <= time < upper {upper}",
        )
    new = Hold(LABEL + name, time, None, OPAQUE)
    holds = tuple(sorted((*state.holds, new), key=lambda h: h.name))
    return step(state, now_ms, holds=holds), label


def drop_labels(state: State, now_ms: int, *, names: tuple[str, ...]) -> tuple[State, int]:
    """Take labels away and return how many there were; the rows stay until since moves on."""
    check_alive(state)
    gone = {LABEL + name for name in names}
    left = tuple(h for h in state.holds if not (is_label(h) and h.name in gone))
    count = len(state.holds) - len(left)
    return (step(state, now_ms, holds=left), count) if count else (state, 0)
