"""Why a person should look at a shard: each reason in words, with its rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strata.history.operations import Operation
from strata.model.settings import Settings
from strata.rollout.basis import REPLACED, basis_of
from strata.rollout.obey import SKIPPING, is_approved
from strata.state.spine import debt
from strata.state.state import State
from strata.ui.shown import age, counted, when

WRONG, STOPPED, ASKED, SOON = range(4)  # ranks; the lowest comes first
GOOD: Final = ("done", "clean")  # outcomes of a validation that found nothing
NAMED: Final = 5  # words of a quarantine in a reason
STALE_MS: Final = 2 * 86_400_000  # a nightly validation that is older was missed


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """One reason."""

    rank: int
    text: str


def needs_of(
    state: State, validated: Operation | None, settings: Settings, now_ms: int
) -> tuple[Need, ...]:
    """Return why a person should look at a shard, worst first; `validated` is the last one."""
    found = (
        *_of_rollout(state),
        *_of_validation(state, validated, now_ms),
        *_of_storage(state, settings),
    )
    return tuple(sorted(found, key=lambda need: need.rank))


def quarantined(state: State) -> list[str]:
    """Return what is in quarantine in words: ids of columns by their names."""
    names = {str(column.id): f"column {column.name}" for column in state.relation.columns}
    return [names.get(word, word) for word in state.rollout.quarantine]


def _of_rollout(state: State) -> Iterator[Need]:
    rollout = state.rollout
    if rollout.quarantine:
        words = quarantined(state)
        more = f" and {len(words) - NAMED} more" if len(words) > NAMED else ""
        yield Need(WRONG, f"in quarantine: {', '.join(words[:NAMED])}{more}")
    if rollout.mode in SKIPPING and not is_approved(state):
        text = f"readers obey soft, not {rollout.mode}: the code that decides has changed"
        if basis_of(state) == REPLACED:
            text = "the code of this server was replaced; start it again to see what readers obey"
        yield Need(STOPPED, text)
    if (asked := rollout.request) is not None:
        text = f"{asked.by} asks for {asked.to}; without an answer it lapses"
        yield Need(ASKED, f"{text} {when(asked.expires_ms)}")


def _of_validation(state: State, last: Operation | None, now_ms: int) -> Iterator[Need]:
    if last is not None and last.outcome not in GOOD:
        rank = WRONG if last.outcome == "mismatch" else STOPPED
        yield Need(rank, f"last validation: {last.outcome}, {age(now_ms, last.at_ms)}")
    elif state.rollout.mode != "off" and state.batches:
        if last is None:
            yield Need(SOON, f"in {state.rollout.mode}, but never validated")
        elif now_ms - last.at_ms > STALE_MS:
            yield Need(SOON, f"last validated {age(now_ms, last.at_ms)}")


def _of_storage(state: State, settings: Settings) -> Iterator[Need]:
    if (trip := state.tripped) is not None:
        text = f"ingest is stopped since {when(trip.at_ms)}: column {trip.column} of {trip.file}"
        yield Need(STOPPED, text)
    waiting, allowed = debt(state.spine), settings.compact.debt_runs
    if settings.compact.debt_max and waiting >= settings.compact.debt_max:
        yield Need(STOPPED, f"ingest is refused: {counted(waiting)} runs wait to be merged")
    elif allowed and waiting > allowed:
        text = f"{counted(waiting)} runs wait to be merged, more than the {counted(allowed)}"
        yield Need(SOON, f"{text} of debt_runs")
    bare = sum(batch.parts - batch.stats_parts for batch in state.batches)
    if bare and state.rollout.mode in SKIPPING:
        many = f"{counted(bare)} parts have no statistics, so every read fetches them"
        yield Need(
            SOON, "1 part has no statistics, so every read fetches it" if bare == 1 else many
        )
