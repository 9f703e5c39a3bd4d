"""Which parts of a merge stand apart: no other part has rows among theirs, so none meets them.

A part that stands apart and is already what would be written is kept by reference: not read, not
written again. The rest of the key space lies between those, and is merged as ever:

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

    None but large ones, half of what a part should be or more: small ones are to be joined.
    Errs: leaves parts out, all of them where one part's keys cannot be compared.
    """
    if any(ref.order != relation.sort_ids for ref in parts) or any(
        ref.relation_version != relation.version for ref in parts
    ):
        return []
    ordered = sorted(parts, key=lambda ref: ref.key_low)
    kept = []
    reached: bytes | None = b""  # the highest key so far; None: there is no telling
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
    """Return whether a part, alone, would be written as it is."""
    return (
        ref.t_low >= since
        and ref.layout == spec.write_format
        and (ref.stats_version is not None or ref.layout == "row")
        and 2 * ref.size_bytes >= spec.part_bytes
    )
