"""Statistics that are missing, mistyped or senseless open the range; they never close it."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.decide.specs import PartSpecs
from strata.expr.nodes import Column
from strata.expr.spec import Bools, Json, Numbers, Spec, Texts, everything, occupied
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats.wire import JSON_PATH, scalar_type

KINDS = {
    1: ("int16", "short"),
    2: ("int32", "integer"),
    3: ("int64", "long"),
    4: ("float32", "float"),
    5: ("float64", "double"),
    6: ("numeric(10,2)", "decimal(10,2)"),
    7: ("numeric(38,0)", "decimal(38,0)"),
    8: ("date", "date"),
    9: ("timestamp", "timestamp_ntz"),
    10: ("timestamptz", "timestamp"),
    11: ("string", "string"),
    12: ("bytes", "binary"),
    13: ("bool", "boolean"),
    14: ("jsonb", "string"),
}
RELATION = Relation(
    0, tuple(Declared(i, f"c{i}", parse_type(k)) for i, (k, _) in KINDS.items()), (1,), (1,)
)
JS = Column(14, "c14", "string")


def _spec(column_id: int, stats: pa.Table, **changes: Any) -> Spec:
    column = Column(column_id, f"c{column_id}", changes.get("type", KINDS[column_id][1]))
    specs = PartSpecs(stats, changes.get("relation", RELATION), changes.get("quarantine", ()))
    return specs.at(slice(0, stats.num_rows)).column(column)


def _table(column_id: int, *rows: dict[str, Any] | None, count: int | None = 10) -> pa.Table:
    kind = scalar_type(RELATION.by_id[column_id].type)
    counts = pa.array([count] * len(rows), pa.int64())
    return pa.table({"rows": counts, f"s.{column_id}": pa.array(rows, kind)})


def _is_open(spec: Spec, kind: str) -> bool:
    full, values = everything(kind), spec.values
    if isinstance(full, Numbers) and isinstance(values, Numbers):
        ends = values.low == full.low, values.high == full.high
        return bool(all(end.all() for end in ends) and not values.empty.any() and spec.null.all())
    if isinstance(values, Texts):
        ends_open = all(b is None or b.null_count == len(b) for b in (values.low, values.high))
        return bool(ends_open and not values.empty.any() and spec.null.all())
    assert isinstance(values, Bools)
    return bool(values.true.all() and values.false.all() and spec.null.all())


@pytest.mark.parametrize("column_id", [i for i in KINDS if i != 14])
def test_no_statistics_open_a_column_of_every_type(column_id: int) -> None:
    kind = KINDS[column_id][1]
    other = pa.table({"rows": [10], f"s.{column_id}": pa.array([{"nulls": "x", "low": "x"}])})
    plain = pa.table({"rows": [10], f"s.{column_id}": [5]})

    assert _is_open(_spec(column_id, pa.table({"rows": [10]})), kind)
    assert _is_open(_spec(column_id, _table(column_id, None)), kind)
    assert _is_open(_spec(column_id, _table(column_id, {}, count=None)), kind)
    assert _is_open(_spec(column_id, other), kind)
    assert _is_open(_spec(column_id, plain), kind)
    known = _table(column_id, {"nulls": 0})
    assert _is_open(_spec(column_id, known, quarantine=(str(column_id),)), kind)


@pytest.mark.parametrize(
    ("column_id", "low", "high", "ends"),
    [
        (1, -5, 7, (-5, 7)),
        (2, -5, 7, (-5, 7)),
        (3, -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        (4, 0.5, 1.5, (0.5, 1.5)),
        (6, Decimal("-1.50"), Decimal("2.25"), (-150, 225)),
        (7, Decimal(-(10**37)), Decimal(10**37 + 1), (-(10**37), 10**37 + 1)),
        (8, date(1970, 1, 2), date(1970, 1, 3), (1, 2)),
    ],
)
def test_bounds_are_read_exactly(
    column_id: int, low: object, high: object, ends: tuple[object, object]
) -> None:
    rows = [{"nulls": 0, "nans": 0, "low": low, "high": high}] * 3
    spec = _spec(column_id, _table(column_id, *rows).slice(1, 2))

    assert isinstance(spec.values, Numbers)
    assert (spec.values.low.tolist(), spec.values.high.tolist()) == ([ends[0]] * 2, [ends[1]] * 2)
    assert not spec.null.any()


def test_inverted_bounds_are_unknown_and_never_empty() -> None:
    for column_id, low, high in ((2, 5, 1), (5, 5.0, 1.0), (11, "b", "a"), (13, True, False)):
        row = {"nulls": 0, "nans": 0, "low": low, "high": high}
        spec = _spec(column_id, _table(column_id, row))

        assert occupied(spec.values).all()
        assert _is_open(Spec(spec.values, np.array([True])), KINDS[column_id][1])


def test_only_matching_counts_prove_that_there_is_no_value() -> None:
    def empty(**row: object) -> bool:
        return not occupied(_spec(2, _table(2, row)).values)[0]

    assert empty(nulls=10)
    assert not empty(nulls=9)
    assert not empty(nulls=11)
    assert not empty(nulls=None)
    assert not empty(nulls=-10)


def test_a_part_of_nan_and_null_has_no_number() -> None:
    values = _spec(5, _table(5, {"nulls": 4, "nans": 6}, {"nulls": 4, "nans": 5})).values

    assert isinstance(values, Numbers)
    assert values.empty.tolist() == [True, False]
    assert np.broadcast_to(values.nan, 2).tolist() == [True, True]


def test_a_column_of_another_type_or_an_unknown_id_is_open() -> None:
    stats = _table(2, {"nulls": 0, "low": 1, "high": 2})

    assert _is_open(_spec(2, stats, type="long"), "long")
    assert _is_open(_spec(2, stats, type="string"), "string")
    bare = Relation(0, (Declared(1, "c1", parse_type("int16")),), (1,), (1,))
    assert _is_open(_spec(2, stats, relation=bare), "integer")


def test_bounds_of_another_arrow_type_are_not_read() -> None:
    kind = pa.struct([("nulls", pa.int64()), ("low", pa.int64()), ("high", pa.int64())])
    stats = pa.table({"rows": [10], "s.2": pa.array([{"nulls": 0, "low": 1, "high": 2}], kind)})
    values = _spec(2, stats).values

    assert isinstance(values, Numbers)
    assert (values.low[0], values.high[0]) == (-(2**31), 2**31 - 1)


def test_a_chosen_few_parts_are_read_like_all() -> None:
    rows = [{"nulls": 0, "low": str(i), "high": str(i)} for i in range(5)]
    view = PartSpecs(_table(11, *rows), RELATION, ()).at(np.array([4, 1]))
    values = view.column(Column(11, "c11", "string")).values

    assert isinstance(values, Texts)
    assert values.low.to_pylist() == [b"4", b"1"]


# JSON paths.


def _paths(**paths: Sequence[dict[str, Any] | None]) -> pa.Table:
    count = len(next(iter(paths.values())))
    found = {name.replace("_", "."): pa.array(v, JSON_PATH) for name, v in paths.items()}
    named = {f"s.14${'' if name == 'root' else '.' + name}": v for name, v in found.items()}
    counted = pa.array([{"nulls": 0}] * count)
    return pa.table({"rows": [10] * count, "s.14": counted, **named})


def _at(stats: pa.Table, *keys: str) -> Spec:
    spec = PartSpecs(stats, RELATION, ()).at(slice(0, stats.num_rows)).column(JS)
    for key in keys:
        assert isinstance(spec.values, Json)
        spec = spec.values.child(key)
    return spec


NO_VALUES = dict.fromkeys(("json_nulls", "bools", "trues", "numbers", "strings", "lists"), 0)
MAPS = NO_VALUES | {"present": 10, "maps": 10}


def test_an_unknown_path_is_absent_only_under_a_complete_ancestor() -> None:
    stats = _paths(root=[MAPS | {"complete": True}, MAPS | {"complete": False}, MAPS, None])
    spec = _at(stats, "a")

    assert np.broadcast_to(occupied(spec.values), 4).tolist() == [False, True, True, True]
    assert np.broadcast_to(spec.null, 4).tolist() == [True] * 4
    deeper = _at(stats, "a", "b")
    assert np.broadcast_to(occupied(deeper.values), 4).tolist() == [False, True, True, True]


def test_the_nearest_known_ancestor_decides() -> None:
    whole = MAPS | {"complete": True}
    stats = _paths(root=[whole, whole], a=[MAPS | {"complete": False}, None])

    assert np.broadcast_to(occupied(_at(stats, "a", "b").values), 2).tolist() == [True, False]


def test_a_path_may_be_null_unless_it_is_in_every_row() -> None:
    numbers = NO_VALUES | {"maps": 0, "present": 10, "numbers": 10, "num_low": 1.0}
    stats = _paths(
        root=[MAPS] * 4,
        n=[
            numbers,
            numbers | {"present": 9},
            numbers | {"json_nulls": 1},
            numbers | {"present": None},
        ],
    )

    assert np.broadcast_to(_at(stats, "n").null, 4).tolist() == [False, True, True, True]


def test_counts_that_are_missing_leave_a_kind_possible() -> None:
    values = _at(_paths(root=[{"present": 10}]), "a").values

    assert isinstance(values, Json)
    assert values.true[0]
    assert values.lists[0]
    assert values.maps[0]
    assert occupied(values.numbers)[0]
    assert not values.strings.empty[0]


def test_the_document_itself_is_null_as_counted() -> None:
    spec = _at(_paths(root=[MAPS]))

    assert not spec.null.any()
    assert isinstance(spec.values, Json)
    assert spec.values.quoted


@pytest.mark.parametrize(
    ("nulls", "nans", "nothing_else"),
    [(0, 10, True), (10, 0, True), (4, 6, True), (0, 9, False), (11, -1, False), (-1, 11, False)],
)
def test_a_part_holds_no_number_where_nulls_and_nans_are_all_of_it(
    nulls: int, nans: int, nothing_else: bool
) -> None:
    """Counts that cannot be are no proof."""
    spec = _spec(5, _table(5, {"nulls": nulls, "nans": nans}))

    assert isinstance(spec.values, Numbers)
    assert bool(spec.values.empty[0]) == nothing_else


@pytest.mark.parametrize("lost", ["num_low", "num_high", "str_low", "str_high"])
def test_a_json_path_without_one_of_its_ends_is_open(lost: str) -> None:
    row = NO_VALUES | {
        "present": 10,
        "maps": 0,
        "numbers": 5,
        "num_low": 1.0,
        "num_high": 2.0,
        "strings": 5,
        "str_low": "a",
        "str_high": "b",
    }
    shape = pa.struct([field for field in JSON_PATH if field.name != lost])
    stats = _paths(root=[MAPS]).append_column("s.14$.a", pa.array([row], shape))

    values = _at(stats, "a").values
    assert isinstance(values, Json)
    number, text = values.numbers, values.strings
    assert (number.low[0], number.high[0]) == ((-np.inf, np.inf) if "num" in lost else (1, 2))
    assert (text.low is None, text.high is None) == (("str" in lost),) * 2


def test_a_path_of_nothing_but_true_is_never_false() -> None:
    """What is no true among the truth values is a false."""
    rows = [NO_VALUES | {"present": 10, "bools": 3, "trues": trues} for trues in (3, 2, 0)]
    values = _at(_paths(root=[MAPS] * 3, a=rows), "a").values

    assert isinstance(values, Json)
    assert np.broadcast_to(values.true, 3).tolist() == [True, True, False]
    assert np.broadcast_to(values.false, 3).tolist() == [False, True, True]
