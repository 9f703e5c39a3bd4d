"""Every type can be ingested from text, JSON and Arrow; what is no value is bad, and alone."""

from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.values.view import to_view
from strata.ingest.twin import Unreadable, from_json, from_python
from strata.ingest.values.cast import Cast, NumberText, from_arrow, from_objects, from_text
from strata.model.types import ColumnType, Kind, parse_type
from tests.support.values import arrays, every_type, plain, same

UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
RANGE = {"lower_inclusive": True, "upper_inclusive": False, "empty": False}
EMPTY = dict.fromkeys(("lower", "upper")) | dict.fromkeys(RANGE, False) | {"empty": True}
NINES = "9" * 39
RIGHTS = {"grantee": 1, "grantor": 2, "mode": 3}


def ends(lower: Any, upper: Any, **flags: bool) -> dict[str, Any]:
    return {"lower": lower, "upper": upper, **RANGE, **flags}


def shaped(vals: list[Any], *dims: tuple[int, int]) -> dict[str, Any]:
    return {"dims": [{"lower_bound": low, "length": n} for low, n in dims], "vals": vals}


def span(months: int, days: int, micros: int) -> dict[str, int]:
    return {"months": months, "days": days, "micros": micros}


def acl(grantee: Any, grantor: Any, mode: int) -> dict[str, Any]:
    return {"grantee": grantee, "grantor": grantor, "mode": Decimal(mode)}


READABLE: list[tuple[str, str, Any]] = [
    ("uint8", "255", 255),
    ("uint64", str(2**64 - 1), Decimal(2**64 - 1)),
    ("mz_timestamp", "0", Decimal(0)),
    ("numeric", " 1.50 ", {"approx": 1.5, "text": "1.5"}),
    ("numeric", NINES, {"approx": 1e39, "text": NINES}),
    ("numeric", "1e-39", {"approx": 1e-39, "text": "0." + "0" * 38 + "1"}),
    ("numeric", "-inf", {"approx": float("-inf"), "text": "-Infinity"}),
    ("time", "23:59:60.5", "23:59:60.500000000"),
    ("time", "9:05", "09:05:00.000000000"),
    ("uuid", UUID.upper(), UUID),
    ("uuid", "{" + UUID.replace("-", "") + "}", UUID),
    ("interval", "1 mon 2 days 03:04:05", span(1, 2, 11_045_000_000)),
    ("interval", "-1 days +02:03:00", span(0, -1, 7_380_000_000)),
    ("interval", "P1Y2M3DT4H5M6.7S", span(14, 3, 14_706_700_000)),
    ("interval", "-P1Y2M3DT4H", span(-14, -3, -14_400_000_000)),
    ("interval", "@ 1 year 1 mon ago", span(-13, 0, 0)),
    ("interval", '{"months": 1, "micros": -5}', span(1, 0, -5)),
    ("interval day to second", "1 02:00:00", timedelta(days=1, hours=2)),
    ("interval day to second", "INTERVAL '-1 02:00:00' DAY TO SECOND", -timedelta(1, 7200)),
    ("interval year to month", "-1-2", -14),
    ("interval year to month", "INTERVAL '1-2' YEAR TO MONTH", 14),
    ("char(3)", "ab ", "ab"),
    ("varchar(2)", "é ", "é "),
    ("aclitem", "1=ar/2", acl(1, 2, 3)),
    ("aclitem", "=r/2", acl(0, 2, 2)),
    ("aclitem", '{"grantee": 1, "grantor": 2, "mode": 18446744073709551615}', acl(1, 2, 2**64 - 1)),
    ("mz_aclitem", "u1=r/s2", acl("u1", "s2", 2)),
    ("mz_aclitem", "=U/p", acl("p", "p", 256)),
    ("list<int32>", "{1,NULL, -2}", [1, None, -2]),
    ("list<int32>", "[1, null]", [1, None]),
    ("list<string>", '{"a,b","c\\"d",e f,"NULL",}', ["a,b", 'c"d', "e f", "NULL", ""]),
    ("list<list<bool>>", "{{t,f},{}}", [[True, False], []]),
    ("array<int32>", "{{1,2},{3,4}}", shaped([1, 2, 3, 4], (1, 2), (1, 2))),
    ("array<int32>", "[0:1]={1,2}", shaped([1, 2], (0, 2))),
    ("array<int32>", "[[1],[2]]", shaped([1, 2], (1, 2), (1, 1))),
    ("array<int32>", '{"dims":[{"lower_bound":-3,"length":1}],"vals":[7]}', shaped([7], (-3, 1))),
    ("array<int32>", "{}", shaped([])),
    ("int2vector", "1 2", shaped([1, 2], (0, 2))),
    ("map<int64>", '{b=>2,"a b"=>NULL}', [("a b", None), ("b", 2)]),
    ("map<int64>", '{"b":2,"a":null}', [("a", None), ("b", 2)]),
    ("record<a: int32, b: list<string>>", '(1,"{x,""y z""}")', {"a": 1, "b": ["x", "y z"]}),
    ("record<a: int32, b: jsonb>", '{"b":{"n":1e2},"c":0}', {"a": None, "b": '{"n":100.0}'}),
    ("record<>", "()", {"_": None}),
    ("range<int32>", "[1,5)", ends(1, 5)),
    ("range<int32>", "(1,3]", ends(2, 4)),
    ("range<int32>", "[1,1)", EMPTY),
    ("range<int32>", "empty", EMPTY),
    ("range<float64>", "(,5]", ends(None, 5.0, lower_inclusive=False, upper_inclusive=True)),
    ("range<date>", '["2020-01-01",)', ends(date(2020, 1, 1), None)),
    ("range<numeric(4,2)>", '{"lower":1.5}', ends(Decimal("1.50"), None)),
    ("list<range<int32>>", '{"[1,3)",empty}', [ends(1, 3), EMPTY]),
]
UNREADABLE: list[tuple[str, str]] = [
    ("uint8", "256"),
    ("uint64", "-1"),
    ("numeric", NINES + "1"),
    ("numeric", "1,5"),
    ("time", "24:00"),
    ("time", "10:60:00"),
    ("uuid", UUID[:-1]),
    ("interval", "5"),
    ("interval", "1.5 mons"),
    ("interval", "0.0000001 s"),
    ("interval", "3000000000 days"),
    ("interval", '{"months": 1.5}'),
    ("interval day to second", "1 mon"),
    ("interval year to month", "1 mon 1 day"),
    ("char(3)", "abcd"),
    ("varchar(2)", "ab "),
    ("aclitem", "u1=r/2"),
    ("aclitem", "1=q/2"),
    ("aclitem", '{"grantee": 1, "grantor": 2}'),
    ("mz_aclitem", "1=r/u2"),
    ("list<int32>", "{1,x}"),
    ("list<int32>", "{1"),
    ("list<int32>", '["1", {}]'),
    ("list<string>", '["\\ud800"]'),
    ("array<int32>", "{{1},{2,3}}"),
    ("array<int32>", "[0:5]={1,2}"),
    ("array<int32>", '{"dims":[{"lower_bound":1,"length":2}],"vals":[7]}'),
    ("array<int32>", '{"dims":[{"length":1}],"vals":[7]}'),
    ("array<int32>", '{"dims":[{"lower_bound":1,"length":0}],"vals":[]}'),
    ("array<int32>", "[99999999999999999999:99999999999999999999]={1}"),
    ("int2vector", "1 70000"),
    ("map<int64>", '{"a":"x"}'),
    ("map<int64>", "[1]"),
    ("record<a: int32, b: list<string>>", "(1)"),
    ("record<a: int32, b: list<string>>", '{"a":1.5}'),
    ("record<a: int32, b: list<string>>", '{"A":1}'),
    ("record<a: int32, b: list<string>>", '{"a":1," b":null}'),
    ("list<record<a: record<b: int32>>>", '[{"a":{"b":1}},{"a":{"B":1}}]'),
    ("range<int32>", "[5,1]"),
    ("range<int32>", "[1,2147483647]"),
    ("range<int32>", "[1]"),
    ("range<float64>", "[NaN,1]"),
    ("range<numeric>", "[1e30,-1]"),
    ("range<int32>", '{"lower":1,"empty":"no"}'),
]


def seen(cast: Cast, kind: str) -> list[Any]:
    """Return a column as readers see it; it must be a sound one, with its bad values null."""
    cast.values.validate(full=True)
    assert not cast.values.is_valid().to_numpy(zero_copy_only=False)[cast.bad].any()
    return to_view(cast.values, parse_type(kind)).to_pylist()


@pytest.mark.parametrize(("kind", "text", "value"), READABLE)
def test_text_is_read(kind: str, text: str, value: object) -> None:
    cast = from_text(pa.array([None, text]), parse_type(kind))

    assert cast.bad.tolist() == []
    assert seen(cast, kind) == [None, value]


@pytest.mark.parametrize(("kind", "text"), UNREADABLE)
def test_text_that_is_no_value_is_bad_and_its_neighbours_are_not(kind: str, text: str) -> None:
    good = next((t for k, t, _ in READABLE if k == kind), None)

    cast = from_text(pa.array([good, text, None, good, text], pa.string()), parse_type(kind))

    assert cast.bad.tolist() == [1, 4]
    assert seen(cast, kind)[0] == seen(cast, kind)[3]
    assert (seen(cast, kind)[0] is None) == (good is None)


KINDS = sorted({kind for kind, _, _ in READABLE})


@given(st.sampled_from(KINDS), st.data())
def test_a_value_is_judged_alone(kind: str, data: st.DataObject) -> None:
    """The slow twin converts one value at a time, texts and objects alike."""
    target = parse_type(kind)
    pool = [text for _, text, _ in READABLE] + [text for _, text in UNREADABLE] + [None]
    texts = data.draw(st.lists(st.sampled_from(pool), max_size=6))

    agree(
        from_text(pa.array(texts, pa.string()), target),
        [from_text(pa.array([text], pa.string()), target) for text in texts],
        kind,
    )
    agree(from_objects(texts, target), [from_objects([text], target) for text in texts], kind)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "1", "a=>1", "{1}", "1 mon", "[1,2)"])
    | st.sampled_from([NumberText("1e2"), NumberText("7")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "lower", "empty", "dims", "vals", "months", "mode"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(every_type()), st.lists(JSON, max_size=5))
def test_any_json_value_is_read_or_bad(target: ColumnType, values: list[Any]) -> None:
    whole = from_objects(values, target)

    agree(whole, [from_objects([value], target) for value in values], str(target))
    nothing = [n for n, value in enumerate(seen(whole, str(target))) if value is None]
    assert nothing == [n for n, v in enumerate(values) if v is None or n in whole.bad.tolist()]


def agree(whole: Cast, alone: Sequence[Cast], kind: str) -> None:
    assert repr(seen(whole, kind)) == repr([seen(cast, kind)[0] for cast in alone])
    assert whole.bad.tolist() == [n for n, cast in enumerate(alone) if len(cast.bad)]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("uint64", NumberText(str(2**64 - 1)), Decimal(2**64 - 1)),
        ("numeric", NumberText("0." + "1" * 39), {"approx": 1 / 9, "text": "0." + "1" * 39}),
        ("numeric", 2**63, {"approx": 2.0**63, "text": str(2**63)}),
        ("interval", {"days": -3}, span(0, -3, 0)),
        ("aclitem", {"grantee": 1, "grantor": 2, "mode": 3.0}, acl(1, 2, 3)),
        ("mz_aclitem", {"grantee": "u1", "grantor": "p", "mode": 3}, acl("u1", "p", 3)),
        ("list<numeric>", [NumberText("1e-3"), None], [{"approx": 0.001, "text": "0.001"}, None]),
        ("array<int32>", [[1, 2], [3, 4]], shaped([1, 2, 3, 4], (1, 2), (1, 2))),
        ("array<list<int32>>", [[1, 2], [3]], shaped([[1, 2], [3]], (1, 2))),
        ("array<jsonb>", [[1], {"a": 2}], shaped(["[1]", '{"a":2}'], (1, 2))),
        ("record<a: int32>", {"A": 1, "a": 2, "a ": 3}, {"a": 2}),
        ("map<record<a: int32>>", {"k": {"a": 1}, "": {}}, [("", {"a": None}), ("k", {"a": 1})]),
        (
            "record<a.b: int32, r: range<int64>>",
            {"a.b": 1, "r": "[1,2)"},
            {"a.b": 1, "r": ends(1, 2)},
        ),
        ("range<uuid>", {"lower": UUID, "upper_inclusive": True}, ends(UUID, None)),
    ],
)
def test_json_values_are_read(kind: str, value: object, read: object) -> None:
    cast = from_objects([value, None], parse_type(kind))

    assert cast.bad.tolist() == []
    assert seen(cast, kind) == [read, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("interval", 5),
        ("interval day to second", 5),
        ("uuid", {"a": 1}),
        ("time", 36_000),
        ("list<string>", [1]),
        ("list<int32>", {"a": 1}),
        ("map<int32>", [["a", 1]]),
        ("record<a: int32>", [1]),
        ("mz_aclitem", {"grantee": "q1", "grantor": "p", "mode": 3}),
        ("array<int32>", [[1], 2]),
    ],
)
def test_a_json_value_of_another_type_is_bad(kind: str, value: object) -> None:
    assert from_objects([value, None], parse_type(kind)).bad.tolist() == [0]


def test_json_that_is_nested_too_deeply_is_bad() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]

    assert from_objects([deep, [1]], parse_type("jsonb")).bad.tolist() == [0]


@given(st.sampled_from(every_type()).flatmap(lambda t: st.tuples(st.just(t), arrays(t))))
def test_what_readers_see_can_be_ingested_again(drawn: tuple[ColumnType, pa.Array]) -> None:
    """Parquet files that `strata read --out` or Spark wrote."""
    target, stored = drawn

    for given_ in (stored, to_view(stored, target)):
        cast = from_arrow(given_, target)

        kept = [n for n in range(len(stored)) if n not in set(cast.bad.tolist())]
        assert kept == list(range(len(stored))) or holds_times(target)
        rows = pa.array(kept, pa.int64())
        assert cast.values.type == stored.type
        assert same(plain(cast.values.take(rows)), plain(stored.take(rows)))


def holds_times(target: ColumnType) -> bool:
    """Tell whether a value may lie outside of the years that ingest takes."""
    inner = [field.type for field in target.fields] + ([target.element] if target.element else [])
    times = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    return target.kind in times or any(holds_times(t) for t in inner)


VIEWS = pa.array(["a", None, "b"], pa.string_view())
CODED = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.uint32()), VIEWS)
# A HUGEINT of DuckDB, which Arrow has as a decimal of 38 digits: its opposite exceeds 128 bits.
HUGE = ((-(2**127)).to_bytes(16, "little", signed=True), (5).to_bytes(16, "little"))
LEAST = pa.Array.from_buffers(pa.decimal128(38, 0), 2, [None, pa.py_buffer(b"".join(HUGE))])
ARROW: list[tuple[str, pa.Array, list[Any], list[int]]] = [
    ("uint8", pa.array([1, 300, -1]), [1, None, None], [1, 2]),
    ("numeric", pa.array([1.5, float("nan")]),
     [{"approx": 1.5, "text": "1.5"}, {"approx": float("nan"), "text": "NaN"}], []),
    ("numeric", pa.array([Decimal("1.50")]), [{"approx": 1.5, "text": "1.5"}], []),
    ("time", pa.array([time(1, 2, 3, 5)]), ["01:02:03.000005000"], []),
    ("uuid", pa.array([b"a" * 16], pa.uuid()), ["61616161-6161-6161-6161-616161616161"], []),
    ("interval", pa.array([pa.MonthDayNano([1, 2, 3000]), pa.MonthDayNano([1, 2, 3])]),
     [span(1, 2, 3), None], [1]),
    ("interval day to second", pa.array([5, None]), [timedelta(microseconds=5), None], []),
    ("interval year to month", pa.array([5]), [5], []),
    ("list<int16>", pa.array([[9], [1, 2**20], None, [3]], pa.large_list(pa.int64())).slice(1),
     [None, None, [3]], [0]),
    ("list<int32>", pa.array([1]), [None], [0]),
    ("map<int32>", pa.array([[("z", 0)], [("b", 1), ("a", 2)], [("a", 1), ("a", 2)]],
     pa.map_(pa.string(), pa.int64())).slice(1), [[("a", 2), ("b", 1)], None], [1]),
    ("map<int32>", pa.array([[(1, 2)], None], pa.map_(pa.int32(), pa.int32())), [None, None], [0]),
    ("jsonb", pa.array([[("b", 1), ("a", None)], [("a", 1), ("a", 2)], []],
     pa.map_(pa.string(), pa.int64())), ['{"a":null,"b":1}', None, "{}"], [1]),
    ("jsonb", pa.array([[(1, 2)], None], pa.map_(pa.int32(), pa.int32())), [None, None], [0]),
    ("array<int32>", pa.array([[1, 2], [], None]), [shaped([1, 2], (1, 2)), shaped([]), None], []),
    ("record<a: int16, b: uuid>", pa.array([{"a": 1, "c": 5}, {"a": 10**5, "c": 5}]),
     [{"a": 1, "b": None}, None], [1]),
    ("record<a: int16>", pa.array([{"A": 1}, None]), [None, None], [0]),
    ("record<a: int16>", pa.array([{"A": 1, "a": 2}]), [{"a": 2}], []),
    ("record<a: int16>", pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
     [None], [0]),
    ("list<record<a: int16>>", pa.array([[{"a ": 1}], [], None]), [None, [], None], [0]),
    ("range<int32>", pa.array([{"lower": 1, "upper": 2}, {"lower": 5, "upper": 1}]),
     [ends(1, 2), None], [1]),
    ("range<date>", pa.array(["[2020-01-01,)"]), [ends(date(2020, 1, 1), None)], []),
    ("string", CODED, ["b", None, "a"], []),
    ("bytes", CODED, [b"b", None, b"a"], []),
    ("list<string>", pa.ListArray.from_arrays([0, 2, 3], CODED), [["b", None], ["a"]], []),
    ("string", pa.RunEndEncodedArray.from_arrays([2, 3, 5], VIEWS).slice(1, 3), ["a", None, "b"],
     []),
    ("map<int32>", pa.array([[(b"b", 1)], [(b"\xff", 1)]], pa.map_(pa.binary(), pa.int64())),
     [[("b", 1)], None], [1]),
    ("numeric(38,0)", LEAST, [None, Decimal(5)], [0]),
    ("numeric(38,10)", LEAST, [None, Decimal("5.0000000000")], [0]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "column", "values", "bad"), ARROW)
def test_arrow_columns_are_read(
    kind: str, column: pa.Array, values: list[Any], bad: list[int]
) -> None:
    cast = from_arrow(column, parse_type(kind))

    assert repr(seen(cast, kind)) == repr(values)
    assert cast.bad.tolist() == bad


@pytest.mark.parametrize(
    ("kind", "good", "more"),
    [
        ("interval", {"days": 1}, {"days": 1, "hours": 3}),
        ("range<int32>", {"lower": 1}, {"lower": 1, "end": 5}),
        ("aclitem", RIGHTS, {**RIGHTS, "by": 4}),
    ],
)  # fmt: skip
def test_an_object_with_a_field_that_its_type_lacks_is_refused(
    kind: str, good: dict[str, int], more: dict[str, int]
) -> None:
    """Its other fields alone would be another value: a day, and not a day and three hours."""
    target = parse_type(kind)
    names, texts = [{"v": good}, {"v": more}], [orjson.dumps(v).decode() for v in (good, more)]
    structs = [pa.Table.from_pylist([row])["v"].combine_chunks() for row in names]

    assert from_objects([good, more], target).bad.tolist() == [1]
    assert from_text(pa.array(texts), target).bad.tolist() == [1]
    assert [from_arrow(struct, target).bad.tolist() for struct in structs] == [[], [0]]
    assert from_json(good, target) is not None
    with pytest.raises(Unreadable, match="field"):
        from_json(more, target)
    with pytest.raises(Unreadable, match="field"):
        from_python(more, structs[1].type, target)
