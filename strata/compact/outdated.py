"""How a batch differs from what is written now, and whether its keys can still be compared."""

from strata.state.state import Batch, State
from strata.updates.slices import columns_alike


def outdated(state: State, batch: Batch) -> str:
    """Return how a batch differs from what is written now; empty if it does not."""
    if batch.manifest is None:
        return ""
    if any(run.order != state.relation.sort_ids for run in batch.runs):
        return "another sort order"
    if batch.versions != (state.relation.version,):
        return "an older relation"
    if any(layout != state.spec.write_format for layout, _ in batch.layouts):
        return "another layout"
    return ""


def has_keys_of_today(state: State, batch: Batch) -> bool:
    """Return whether the keys of all parts of a batch can be compared with today's rows.

    Errs: may say no wrongly, if parts of several relations are in one batch.
    """
    newest, known = state.relation, {r.version: r for r in state.relations}
    return all(
        0 < columns_alike(run.order, known.get(version), newest) == len(run.order)
        for run in batch.runs
        for version in batch.versions
    )


def is_of_today(state: State, batch: Batch) -> bool:
    """Return whether a batch is of the newest relation, and has keys that can be compared."""
    return batch.versions == (state.relation.version,) and has_keys_of_today(state, batch)
