"""Find the parts of a merge that stand apart: no other part has rows between their first and last.

A part that stands apart and already is what a merge would write is kept by reference: it is neither
read nor written again. The key space between these parts is merged as usual:

    run 1   [--- a ---]                 [- c -]
    run 2               [----- b -----]    [- d -]
    output  a           b               merge of c and d
"""

from collections.abc import Sequence

from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.model.spec import ShardSpec


def standing_apart(
    parts: Sequence[PartRef], spec: ShardSpec, relation: Relation, since: int
) -> list[PartRef]:
    """Return the parts that a merge keeps by reference, in the order of their keys.

    Only parts of at least half the intended size count, since small ones should be joined.
    Errs: may leave parts out; leaves out all where one part's keys cannot be compared.
    """
    if any(ref.order != relation.sort_ids for ref in parts) or any(
        ref.relation_version != relation.version for ref in parts
    ):
        return []
    ordered = sorted(parts, key=lambda ref: ref.key_low)
    kept = []
    reached: bytes | None = b""  # the highest key so far; None: unknown
    for number, ref in enumerate(ordered):
        last = number == len(ordered) - 1
        before = not number or (reached is not None and reached < ref.key_low)
        behind = last or (ref.key_high is not None and ref.key_high < ordered[number + 1].key_low)
        if before and behind and _is_done(ref, spec, since):
            kept.append(ref)
        if reached is not None:
            reached = None if ref.key_high is None else max(reached, ref.key_high)
    return kept


def _is_done(ref: PartRef, spec: ShardSpec, since: int) -> bool:
    """Return whether a merge of this part alone would write the same part."""
    return (
        ref.t_low >= since
        and ref.layout == spec.write_format
        and (ref.stats_version is not None or ref.layout == "row")
        and 2 * ref.size_bytes >= spec.part_bytes
    )
