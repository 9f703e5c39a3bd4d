"""What a dry run foresees of changes: they meet the rows of the shard, and of the batches before.

All is in memory, and nothing is written. So only as many changes are looked at as a run keeps in
memory, and only a shard of `WHOLE_BYTES` is read whole, which takes a truncation; behind a batch of
more, contradictions are not foreseen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import T, updates_schema
from strata.ingest.changes.lookup import rows_of_keys, rows_of_slice
from strata.ingest.changes.resolve import resolve
from strata.ingest.changes.tasks import contradicting, file_changes, leaves_out
from strata.ingest.land.files import unless_changed
from strata.ingest.plan import whole_task
from strata.ingest.readers.change import KEY, Truncation, combined, key_bytes, key_ids
from strata.ingest.readers.position import Course, Leg
from strata.ingest.readers.read import read_file
from strata.ingest.readers.turns import all_turns
from strata.ingest.suppressed import without_suppressed
from strata.ingest.task import IngestTask, Staged, Step, TaskResult
from strata.model.settings import Settings
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.open import Stores, open_stores
from strata.updates.consolidate import advance, consolidate
from strata.updates.order import sort_updates
from strata.updates.slices import WHOLE

WHOLE_BYTES: Final = 64 << 20  # stored


def check_stage(task: IngestTask, blob: Blob | None = None) -> TaskResult:
    """Read the changes of a task's files and return what there is; nothing is written.

    What is staged has the changes themselves, if they are at most `task.hand_over` bytes; else
    their size alone. Raises: as `stage_task`.
    """
    store = open_stores(task.store).blob if blob is None else blob
    result = TaskResult(task.batch, task.number)
    legs: tuple[Leg, ...] = ()
    truncations: tuple[Truncation, ...] = ()
    kept: list[pa.Table] = []
    size = 0
    with unless_changed(task.files):
        for file in task.files:
            for raw in read_file(file, task.spec, task.relation, task.renamed):
                read = file_changes(raw, task)
                changes, judged = without_suppressed(store, task, read.changes, read.judged)
                turns = all_turns([result.turns, read.turns])
                result = replace(result.plus(judged), turns=turns)
                legs, truncations = (*legs, *read.legs), (*truncations, *read.truncations)
                size += changes.nbytes
                kept = [*kept, changes] if size <= task.hand_over else []
    rows = combined(kept, task.relation) if size <= task.hand_over else None
    return replace(result, staged=(Staged(None, size, (), (), (), truncations, legs, rows=rows),))


@dataclass
class Foreseen:
    """A shard as it would be after the batches so far."""

    stores: Stores
    settings: Settings
    state: State  # when the run began
    _updates: list[pa.Table] = field(default_factory=list)  # of the batches so far
    known: bool = True  # all of them

    @property
    def filled(self) -> bool:
        """Return whether a batch so far has rows."""
        return any(updates.num_rows for updates in self._updates)

    def after(self, step: Step, results: Sequence[TaskResult], course: Course) -> list[TaskResult]:
        """Return what the run would say of a batch's changes: which contradict, which are repeated.

        Empty: they are too many to be looked at, or no stream.
        Raises: InvalidRequest for a change that the run refuses.
        """
        staged = [one for result in results for one in result.staged]
        known = [one.rows for one in staged if one.rows is not None]
        self.known &= len(known) == len(staged)
        if not staged or not self.known:
            return []
        task, relation = whole_task(self.settings, self.state, step), self.state.relation
        truncations = [place for one in staged for place in one.truncations]
        emptied = bool(truncations) or course.emptied
        if emptied and sum(batch.size_bytes for batch in self.state.batches) > WHOLE_BYTES:
            self.known = False
            return []
        changes = combined(known, relation)
        found = resolve(
            changes,
            self._rows(None if emptied else changes[KEY].combine_chunks()),
            relation,
            truncations=truncations,
            course=course,
            leave_out=leaves_out(task),
        )
        self._updates.append(consolidate(sort_updates(found.updates, relation), relation))
        return [contradicting(found, task)[0]]

    def _rows(self, keys: pa.BinaryArray | None) -> pa.Table:
        """Return the rows that the shard will hold for these keys, None for all."""
        relation = self.state.relation
        if keys is None:
            found = rows_of_slice(self.stores, self.state, WHOLE)
        else:
            found = rows_of_keys(self.stores, self.state, keys)
        if not self._updates:
            return found.rows
        ahead = pa.concat_tables(self._updates).combine_chunks()
        if keys is not None:
            ahead = ahead.filter(pc.is_in(key_bytes(ahead, key_ids(relation)), value_set=keys))
        rows = pa.concat_tables([found.rows, ahead]).cast(updates_schema(relation))
        if rows.num_rows:
            rows = advance(rows, pc.max(rows[T]).as_py())
        return consolidate(sort_updates(rows, relation), relation)
