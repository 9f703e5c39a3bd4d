"""Check parts against everything that is recorded about them, one part at a time.

A runner takes the function directly; its tasks are picklable. The comparison is in
`strata.audit.compare`; `strata.audit.batches` checks the state's figures of whole batches.
"""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from strata import __version__
from strata.audit.compare import Checked, ColumnCount, Finding, Recorded, compare_part
from strata.audit.verdict import FORMAT_CHECK, Verdict
from strata.decide.blooms import with_bits
from strata.errors import Corrupt, StrataError
from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.store.interface import Blob
from strata.store.keys import names_content
from strata.store.open import open_stores

# Only pages carry checksums, not their headers; a part's name is the hash of all its bytes.
_OTHER_BYTES: Final = Finding("part", "its bytes are not those that it is named for")


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part to check."""

    run: str
    shard: str
    store: StoreSettings
    ref: PartRef
    relations: tuple[Relation, ...]
    stats: bytes | None  # the part's statistics: one row, Arrow IPC; None: no statistics
    keep: tuple[str, ...] = ()  # the shard's keep list


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """The verdict on one part, and the comparisons of each of its columns."""

    verdict: Verdict
    columns: tuple[ColumnCount, ...] = ()


def check_part(task: PartTask) -> PartVerdict:
    """Return the verdict on one part.

    Errs: a part that is unreadable because the store failed is `failed`, not a mismatch.
    """
    checked = Checked(0, (), ())
    outcome, error = "clean", ""
    try:
        blob = open_stores(task.store).blob
        data = blob.get(task.ref.key)
        if data is None:
            raise Corrupt("a referenced part does not exist", part=task.ref.key)
        named = () if names_content(task.ref.key, data) else (_OTHER_BYTES,)
        checked = compare_part(_recorded(task, blob), data)
        checked = replace(checked, findings=(*checked.findings, *named))
        outcome = "mismatch" if checked.findings else "clean"
    except Corrupt as problem:
        outcome, error = "mismatch", str(problem)
        checked = Checked(0, (Finding("part", "its bytes"),), ())
    except StrataError as problem:
        outcome, error = "failed", str(problem)
    return PartVerdict(_verdict(task, checked, outcome, error), checked.columns)


def missing(task: PartTask) -> PartVerdict:
    """Return the verdict on a part without a result."""
    return PartVerdict(_verdict(task, Checked(0, (), ()), "missing", "no result came back"))


def _recorded(task: PartTask, blob: Blob) -> Recorded:
    stats = None
    if task.stats is not None:
        stats = with_bits(blob, pa.ipc.open_stream(task.stats).read_all()).to_batches()[0]
    return Recorded(task.ref, stats, task.relations, task.keep)


def _verdict(task: PartTask, checked: Checked, outcome: str, error: str) -> Verdict:
    findings = checked.findings
    suspects = sorted({finding.suspect or task.ref.key for finding in findings})
    return Verdict(
        run=task.run,
        shard=task.shard,
        check=FORMAT_CHECK,
        sql="",
        part=task.ref.key,
        outcome=outcome,  # type: ignore[arg-type]
        rows=checked.rows,
        accepted=0,
        size_bytes=task.ref.size_bytes,
        layout=task.ref.layout,
        stats_version=task.ref.stats_version or 0,
        code_version=__version__,
        stratum=f"format × {task.ref.layout}",
        column=findings[0].what if findings else "",
        bound="; ".join(dict.fromkeys(finding.statement for finding in findings)),
        error=error,
        replay=f"strata validate {task.shard} --part {task.ref.key}",
        suspects=" ".join(suspects),
    )
