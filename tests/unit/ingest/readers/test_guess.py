"""The types that are proposed for columns of Arrow: one for each way to hold the same values."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.ingest.readers.guess import guess_arrow, type_of_texts
from strata.ingest.values.cast import Cast, from_arrow, from_text
from strata.model.types import ColumnType, parse_type


@pytest.mark.parametrize(
    ("kinds", "proposed"),
    [
        ((pa.string(), pa.large_string(), pa.string_view()), "string"),
        ((pa.binary(), pa.large_binary(), pa.binary_view()), "bytes"),
        ((pa.list_(pa.string_view()), pa.large_list(pa.string())), "list<string>"),
        ((pa.timestamp("us"), pa.timestamp("ns")), "timestamp"),
        ((pa.struct({"a": pa.int64()}), None), "jsonb"),
    ],
)
def test_ways_to_hold_the_same_values(kinds: tuple[pa.DataType | None, ...], proposed: str) -> None:
    assert {guess_arrow(kind) for kind in kinds} == {proposed}


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (pa.uuid(), "uuid"),
        (pa.json_(), "jsonb"),
        (pa.bool8(), "bool"),
        (pa.binary(7), "bytes"),
        (pa.date64(), "date"),
        (pa.duration("ms"), "interval day to second"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.decimal256(76, 3), "numeric"),
        (pa.decimal128(3, 5), "numeric"),
        (pa.decimal128(5, -2), "numeric"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int16()), "int16"),
        (pa.map_(pa.large_string(), pa.int8()), "map<int16>"),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), "list<string>"),
    ],
)
def test_an_arrow_type_is_proposed_as_a_type_that_takes_its_values(
    kind: pa.DataType, declared: str
) -> None:
    assert guess_arrow(kind) == declared
    assert not len(from_arrow(pa.nulls(2, kind), parse_type(declared)).bad)


def test_runs_and_one_byte_truths_are_their_values() -> None:
    runs = pc.run_end_encode(pa.array([5, 5, None, 7], pa.int32()))
    assert from_arrow(runs[1:], parse_type("int64")).values.to_pylist() == [5, None, 7]
    truths = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, None, -3], pa.int8()))
    cast = from_arrow(truths, parse_type("bool"))
    assert (cast.values.to_pylist(), len(cast.bad)) == ([False, True, None, True], 0)


def test_a_type_is_given_up_at_the_first_texts_that_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: Counter[str] = Counter()

    def counted(texts: pa.Array, kind: ColumnType) -> Cast:
        looked[str(kind)] += len(texts)
        return from_text(texts, kind)

    monkeypatch.setattr("strata.ingest.readers.guess.from_text", counted)

    assert type_of_texts(pa.array([f"word {n}" for n in range(20_000)])) == "string"
    assert set(looked.values()) == {1}
    late = pa.array([*map(str, range(4_000)), *(f"w{n}" for n in range(16_000))])
    assert type_of_texts(late) == "string"
    assert looked["int64"] < 8_000
    assert type_of_texts(pa.array([*["5"] * 20_000, "5.5"])) == "float64"
