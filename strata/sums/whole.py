"""The sums of a whole source, and all rows of a target: nothing is followed, nothing is skipped."""

from collections import Counter
from dataclasses import replace

from strata.decide.plan import plan_read
from strata.read.filtered import filtered_scan
from strata.read.scan import scan
from strata.state.state import State
from strata.store.open import Stores
from strata.sums.ends import Values, add_value
from strata.sums.table import Group, GroupSums, SumsTable
from strata.sums.target import sums_filter
from strata.sums.wish import SumsWish


def whole_sums(
    stores: Stores, source: State, wish: SumsWish, table: SumsTable, as_of: int
) -> dict[Group, GroupSums]:
    """Return the right sums at a time. Cost: reads the whole source; memory: the groups."""
    filter = sums_filter(source, wish)
    plan = plan_read(stores, source, as_of=as_of, pushdown="off")
    rows = filtered_scan(stores, source, plan, filter=filter, columns=table.columns)
    right: dict[Group, GroupSums] = {}
    values: dict[Group, Values] = {}
    slim = table.fold.ends if plan.monotonic else ()
    for group, _, numbers, row in table.changes(rows):
        right[group] = right.get(group, table.nothing).plus(numbers)
        if table.valued:
            there = values.get(group) or values.setdefault(group, table.fold.no_values)
            add_value(there, row, numbers.count, slim)
    for group, there in values.items():
        ends = tuple(end.of(there) for end in table.fold.ends)
        right[group] = replace(right[group], ends=ends)
    return {group: numbers for group, numbers in right.items() if numbers != table.nothing}


def stored_sums(
    stores: Stores, target: State, table: SumsTable, as_of: int
) -> Counter[tuple[Group, GroupSums]]:
    """Return how often each row of the target is there at a time: once, if all is well."""
    plan = plan_read(stores, target, as_of=as_of, pushdown="off")
    found: Counter[tuple[Group, GroupSums]] = Counter()
    for group, numbers, count in table.held(scan(stores, target, plan, consolidate=True)):
        found[group, numbers] += count
    return found
