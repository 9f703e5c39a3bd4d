"""Lists and maps: an element, key or value lies in the range of all of the part's.

A missing element is null or an error; a missing key gives null. The bounds on lengths show whether
an index can miss, and whether a list can be empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Final

import numpy as np

from strata.expr.elements import (
    Elements,
    Entries,
    as_list,
    as_map,
    element_type,
    key_type,
    only_where,
)
from strata.expr.entry import Context, Entry, Outcome, numbers, opened, settle, strict
from strata.expr.functions.comparison import may_be_equal, may_differ
from strata.expr.nodes import Call, Literal
from strata.expr.records import Record, union
from strata.expr.sparktype import INT32, spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Bounds,
    Flags,
    Numbers,
    Spec,
    both,
    either,
    everything,
    exactly,
    gate,
    hull,
    negated,
    none_of,
    occupied,
    uniform,
)


def _inner(elements: Elements, type_name: str) -> Spec:
    """Return what an element may be if there is one; anything where nothing is known."""
    known = elements.element()
    spec = Spec(everything(type_name), YES) if known is None else known
    return only_where(Spec(spec.values, spec.null), uniform(elements.some))


def _item(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return `list[index]`, counted from 0."""
    elements, index = as_list(args[0].values), numbers(args[1], call.args[1].type)
    # Spark cuts a longer index to 32 bits.
    wild = (index.low < INT32[0]) | (index.high > INT32[1])
    if (one := _written(elements, index, first=0)) is not None:
        elements = one
    inside = (index.high >= 0) & (index.low < elements.longest) | wild
    outside = (index.low < 0) | (index.high >= elements.shortest) | wild
    return _picked(call, args, elements, inside, outside)


def _written(elements: Elements, index: Numbers, *, first: int) -> Elements | None:
    """Return lists whose only element is the one at an index, where it is known by itself.

    `first`: the index of the first element.
    """
    if index.low.size != 1 or index.low[0] != index.high[0] or index.empty.any():
        return None
    place, known = int(index.low[0]) - first, elements.members or elements.front
    if not 0 <= place < len(known):
        return None
    return replace(elements, element=lambda: known[place])


def _picked(
    call: Call, args: Sequence[Spec], elements: Elements, inside: Flags, outside: Flags
) -> Spec:
    found = only_where(_inner(elements, call.type), uniform(inside))
    null, fail = settle(call, uniform(outside))
    return strict(args, Outcome(found.values, either(found.null, null), fail))


def _element_at(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the element at an index from 1, or from -1 backward; for a map the value of a key."""
    if call.args[0].type.startswith("map<"):
        return _value(call, args, context)
    elements, index = as_list(args[0].values), numbers(args[1], call.args[1].type)
    zero = (index.low <= 0) & (index.high >= 0)
    wild = index.low <= INT32[0]  # it has no absolute value: Spark reads outside the list
    if call.args[1].type != "integer" or (wild & negated(index.empty)).any():
        return opened(call, args)
    most = np.maximum(np.abs(index.low), np.abs(index.high))
    least = np.where(zero, 1, np.minimum(np.abs(index.low), np.abs(index.high)))
    reached = (least <= elements.longest) & (most > 0)
    elements = _written(elements, index, first=1) or elements
    found = _picked(call, args, elements, reached, most > elements.shortest)
    possible = uniform(both(occupied(args[0].values), both(zero, negated(index.empty))))
    return Spec(found.values, found.null, either(found.fail, possible))  # 0 fails in every mode


def _value(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the value of a key of a map; null where the key is missing."""
    entries, kind = as_map(args[0].values), key_type(call.args[0].type)
    same, differ = _compared(call, kind, _inner(entries.keys, kind), args[1])
    found = only_where(_inner(entries.values, call.type), same)
    missing = either(uniform(entries.keys.bare), differ)
    return strict(args, Outcome(found.values, either(found.null, missing)))


def _alike(one: str, other: str) -> bool:
    """Return whether two types are equal in any spelling."""
    return one == other or (spark_type(one) == spark_type(other) and "<" not in one)


def _contains(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return whether a value is in a list: null if it is not, but the list has a null."""
    elements, kind = as_list(args[0].values), element_type(call.args[0].type)
    element = _inner(elements, kind)
    _, differ = _compared(call, kind, element, args[1])
    found = (_compared(call, kind, one, args[1])[0] for one in elements.members or (element,))
    same, false = reduce(either, found), either(uniform(elements.bare), differ)
    return strict(args, Outcome(Bools(same, false), element.null))


def _compared(call: Call, kind: str, element: Spec, other: Spec) -> tuple[Flags, Flags]:
    """Return where an element or key may equal, and may differ from, the second argument."""
    if _alike(kind, call.args[1].type):
        return may_be_equal(element, other), may_differ(element, other)
    some = both(occupied(element.values), occupied(other.values))
    return some, some


def _position(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the position of a value in a list, counted from 1; 0 where it is missing."""
    elements, kind = as_list(args[0].values), element_type(call.args[0].type)
    same, _ = _compared(call, kind, _inner(elements, kind), args[1])
    high = np.where(same, elements.longest, 0)
    return strict(args, Outcome(Numbers(np.zeros_like(high), high)))


def _overlap(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    lists = [as_list(spec.values) for spec in args]
    kinds = [element_type(arg.type) for arg in call.args]
    one, other = (_inner(known, kind) for known, kind in zip(lists, kinds, strict=True))
    true = both(occupied(one.values), occupied(other.values))
    if _alike(*kinds):
        pairs = product(lists[0].members or (one,), lists[1].members or (other,))
        true = reduce(either, (may_be_equal(*pair) for pair in pairs))
    return strict(args, Outcome(Bools(true, YES), either(one.null, other.null)))


def _size(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the length of a list or map; for null it is null, or -1 by an option."""
    (arg,) = args
    counted = arg.values.keys if isinstance(arg.values, Entries) else as_list(arg.values)
    found = strict(args, Outcome(Numbers(counted.shortest, counted.longest)))
    if call.option("of_null") != "-1":
        return found
    nothing = gate(exactly(-1, "integer").values, arg.null)
    return Spec(hull(found.values, nothing), NO, found.fail)


def _extreme(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the least or greatest element that is not null; null where there is none."""
    elements = as_list(args[0].values)
    found = _inner(elements, call.type)
    return strict(args, Outcome(found.values, either(uniform(elements.bare), found.null)))


def _constructed(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a list of the arguments."""
    length = np.array([len(args)])
    members = tuple(Spec(arg.values, arg.null) for arg in args)
    nothing = Spec(none_of(everything(element_type(call.type))))
    first: Spec | None = members[0] if members else nothing
    element = reduce(union, members[1:], first)
    fail = reduce(either, (arg.fail for arg in args), NO)
    return Spec(Elements(NO, lambda: element, length, length, members), NO, fail)


def _map_part(part: Callable[[Entries], Elements]) -> Callable[..., Spec]:
    """Return the transfer of the keys or the values of a map, as a list."""

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        return strict(args, Outcome(part(as_map(args[0].values))))

    return transfer


def _map_entries(entries: Entries) -> Elements:
    keys, values = entries.keys, entries.values

    def element() -> Spec:
        return Spec(Record(NO, lambda ordinal: (keys, values)[ordinal].element()))

    return Elements(NO, element, keys.shortest, keys.longest)


def _fields(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the lists of one field of lists of structs."""
    elements, ordinal = as_list(args[0].values), call.args[1]
    place = ordinal.value if isinstance(ordinal, Literal) else None

    def element() -> Spec | None:
        spec = elements.element()
        record = spec.values if spec is not None else None
        if spec is None or not isinstance(record, Record) or not isinstance(place, int):
            return None
        found = record.child(place)
        return None if found is None else Spec(found.values, either(found.null, spec.null))

    found = Elements(NO, element, elements.shortest, elements.longest)
    return strict(args[:1], Outcome(found))


def _distinct(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    elements = as_list(args[0].values)
    least: Bounds = np.minimum(elements.shortest, 1)
    return strict(args, Outcome(Elements(NO, elements.element, least, elements.longest)))


def _sorted(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    elements = as_list(args[0].values)
    found = Elements(NO, elements.element, elements.shortest, elements.longest)
    return strict(args, Outcome(found))


# Functions with a lambda: its body is an argument, in which `element(list)` stands for the
# variable. So the body is evaluated on all elements of the part at once.


def _element(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return what the variable of a lambda may be, without errors and nulls of the list."""
    elements = as_list(args[0].values)
    return only_where(_inner(elements, call.type), uniform(occupied(args[0].values)))


def _index(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the positions of elements, counted from 0: the second variable of a lambda."""
    elements = as_list(args[0].values)
    last = np.maximum(elements.longest - 1, 0)
    some = both(elements.some, occupied(args[0].values))
    return Spec(Numbers(np.zeros_like(last), last, uniform(negated(some))))


def _tested(args: Sequence[Spec]) -> tuple[Elements, Bools, Flags]:
    """Return the list, where its elements pass and fail the test, and where it may be null."""
    lists, body = args
    elements = as_list(lists.values)
    some = uniform(elements.some)
    test = body.values if isinstance(body.values, Bools) else Bools(YES, YES)
    return elements, Bools(both(test.true, some), both(test.false, some)), both(body.null, some)


def _exists(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return whether a test is true for an element: null if not, but null for one."""
    lists, body = args
    elements, test, unknown = _tested(args)
    three = call.option("logic") != "two"
    false = either(test.false, uniform(elements.bare))
    values = Bools(test.true, false if three else either(false, unknown))
    fail = both(body.fail, uniform(elements.some))
    return strict([lists], Outcome(values, unknown if three else NO, fail))


def _forall(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return whether a test is true for every element: null if false for none, but null for one."""
    lists, body = args
    elements, test, unknown = _tested(args)
    values = Bools(either(test.true, uniform(elements.bare)), test.false)
    return strict([lists], Outcome(values, unknown, both(body.fail, uniform(elements.some))))


def _filter(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the lists of the elements that pass a test."""
    lists, body = args
    elements, test, unknown = _tested(args)
    longest = np.where(test.true, elements.longest, 0)
    shortest = np.where(either(test.false, unknown), 0, elements.shortest)
    found = Elements(NO, elements.element, shortest, longest)
    return strict([lists], Outcome(found, fail=both(body.fail, uniform(elements.some))))


def _transform(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the lists of a lambda's results on the elements."""
    lists, body = args
    elements = as_list(lists.values)
    made = Spec(body.values, body.null)
    found = Elements(NO, lambda: made, elements.shortest, elements.longest)
    return strict([lists], Outcome(found, fail=both(body.fail, uniform(elements.some))))


_ONE, _TWO = (1, 1), (2, 2)
_TEST: Final = "the test, on the range of the elements"
ENTRIES: Final = (
    Entry(
        "get_array_item",
        "list, index",
        _TWO,
        _item,
        "an element; null or an error beyond",
        passes=True,
    ),
    Entry(
        "element_at",
        "list or map, index or key",
        _TWO,
        _element_at,
        "an element, or a value",
        passes=True,
    ),
    Entry(
        "get_map_value", "map, key", _TWO, _value, "a value, if the key is in range", passes=True
    ),
    Entry("array_contains", "list, value", _TWO, _contains, "as equality with the elements"),
    Entry("array_position", "list, value", _TWO, _position, "0 where no element is equal"),
    Entry("arrays_overlap", "left, right", _TWO, _overlap, "where elements may be equal"),
    Entry("size", "list or map", _ONE, _size, "the lengths"),
    Entry("array_min", "list", _ONE, _extreme, "the range of the elements", passes=True),
    Entry("array_max", "list", _ONE, _extreme, "the range of the elements", passes=True),
    Entry("create_array", "x, ...", (0, None), _constructed, "its elements, its length"),
    Entry("map_keys", "map", _ONE, _map_part(lambda m: m.keys), "the keys as a list"),
    Entry("map_values", "map", _ONE, _map_part(lambda m: m.values), "the values as a list"),
    Entry("map_entries", "map", _ONE, _map_part(_map_entries), "a list of structs"),
    Entry("get_array_struct_fields", "list, ordinal", _TWO, _fields, "a field of all elements"),
    Entry("array_distinct", "list", _ONE, _distinct, "the same elements"),
    Entry("sort_array", "list, ascending", _TWO, _sorted, "the same elements"),
    Entry("exists", "list, test", _TWO, _exists, _TEST),
    Entry("forall", "list, test", _TWO, _forall, _TEST),
    Entry("filter", "list, test", _TWO, _filter, "the same elements, as many as may pass"),
    Entry("transform", "list, body", _TWO, _transform, "what the body makes of the elements"),
    Entry("element", "list", _ONE, _element, "the variable of a lambda: any element", passes=True),
    Entry("element_index", "list", _ONE, _index, "the second variable: places below the length"),
)
