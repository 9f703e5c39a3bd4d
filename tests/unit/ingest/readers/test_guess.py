"""The types that are proposed for columns of Arrow: one for each way to hold the same values."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.ingest.readers.guess import (
    common_type,
    guess_arrow,
    guess_values,
    type_of_texts,
)
from strata.ingest.readers.infer import infer
from strata.ingest.values.cast import Cast, NumberText, from_arrow, from_text
from strata.model.types import ColumnType, parse_type
from tests.unit.ingest.test_engine import World


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


@pytest.mark.parametrize(
    ("texts", "meant"),
    [
        ([" 007", "8"], "string"),
        (["+4930123", "+4940"], "string"),
        (["+1.5", "-2"], "float64"),
        (["9007199254740993", "1.5"], "numeric"),
        (["123456789012345678901", "123456789012345678902"], "numeric(38,0)"),
        (["9223372036854775808", "1"], "numeric(38,0)"),
        (["1000000000000005632", "1e3"], "float64"),
        (["3045526335.6783798271", "1.5"], "numeric"),
        (["-1.234567890123456789e5"], "numeric"),
        (["0.30000000000000004", "0.10000000000000001", "0.5"], "float64"),
        (["5540163.3000000000000000"], "float64"),
        (["5.746959780486155e+299", "-1.0400054162416159E+299", "1e-07"], "float64"),
        (["0.1000000000000000055511151231257827021181583404541015625"], "float64"),
        (["1" * 40, "2"], "string"),
        (["d41d8cd98f00b204e9800998ecf8427e"], "string"),
        (["550E8400-E29B-41D4-A716-446655440000"], "uuid"),
    ],
)
def test_no_text_loses_digits_or_letters_by_its_type(texts: list[str], meant: str) -> None:
    assert type_of_texts(pa.array(texts)) == meant


def test_what_spark_writes_for_no_number_is_a_float_among_floats() -> None:
    assert guess_values([1.5, "NaN", None]) == ("float64", True)
    assert guess_values([7, "-Infinity", "Infinity"]) == ("float64", False)
    assert guess_values([1.5, "nan"]) == guess_values([1.5, "NaN", "x"]) == ("jsonb", False)
    assert guess_values([NumberText("4.6312928195794285e+299"), 0.5]) == ("float64", False)
    assert guess_values([NumberText("12345678901234567890.5"), 0.5]) == ("numeric", False)
    assert guess_values([NumberText("1.5"), "NaN"]) == ("float64", False)
    assert guess_values([NumberText("12345678901234567890.5"), "NaN"]) == ("numeric", False)
    assert guess_values([True, "NaN"]) == ("jsonb", False)
    assert guess_values(["NaN", "Infinity"]) == ("string", False)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("int64", "float64", "float64"),
        ("int32", "int64", "int64"),
        ("uint16", "uint8", "uint16"),
        ("uint32", "int16", "int64"),
        ("uint64", "int64", "numeric"),
        ("float32", "float64", "float64"),
        ("numeric(38,0)", "int64", "numeric(38,0)"),
        ("numeric(10,2)", "numeric(12,3)", "numeric"),
        ("numeric", "float64", "numeric"),
        ("date", "timestamptz", "timestamptz"),
        ("bool", "int64", "jsonb"),
        ("int64", "string", "jsonb"),
        ("date", "string", "string"),
        ("uuid", "string", "string"),
        ("list<int64>", "int64", "jsonb"),
    ],
)
def test_the_type_for_values_of_two_files(one: str, other: str, both: str) -> None:
    for a, b in ((one, other), (other, one)):
        assert common_type((a, False), (b, True), "jsonb") == (both, True)
    assert common_type(("jsonb", False), ("string", False), "string") == ("string", False)


LONG = "9007199254740993"  # no float64 equals it


@pytest.mark.parametrize(
    ("texts", "together"),
    [
        ([LONG, "0.5"], "numeric"),
        (["0.5", LONG], "numeric"),
        ([LONG, "7"], "int64"),
        (["7", LONG, "8"], "int64"),
        (["7", LONG, "8", "0.5"], "numeric"),
        ([LONG, "9223372036854775808"], "numeric(38,0)"),
        (["9007199254740992", "0.5"], "float64"),
        ([LONG, "a"], None),
        ([LONG, ""], "int64"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_whole_numbers_of_one_file_keep_their_digits_beside_fractions_of_another(
    tmp_path: Path, kind: str, texts: list[str], together: str | None
) -> None:
    """They became the nearest float64, and in one file they did not."""
    for number, text in enumerate(texts):
        value = text if text[:1].isdigit() else f'"{text}"' if text else "null"
        line = f'{{"n": 1, "x": {value}}}\n' if kind == "jsonl" else f"n,x\n1,{text}\n"
        (tmp_path / f"{number}.{kind}").write_text(line)
    world = World(tmp_path / "world")

    found = infer(world.settings, "new", str(tmp_path))

    wanted = together or ("string" if kind == "csv" else "jsonb")
    if kind == "jsonl" and wanted.startswith("numeric"):
        wanted = "numeric"
    assert [c["type"] for c in found.declaration["columns"]] == ["int64", wanted]


@pytest.mark.parametrize("numbers", [["1e-400"], ["1e400", "0.5"], ["1", "-1E+999"]])
def test_numbers_of_json_beyond_floats_are_proposed_as_what_holds_them(
    tmp_path: Path, numbers: list[str]
) -> None:
    world = World(tmp_path)
    world.put("x.jsonl", "".join(f'{{"x": {one}}}\n' for one in numbers))

    [column] = infer(world.settings, "new", "x.jsonl").declaration["columns"]

    assert column["type"] == "numeric"
