"""The row codec on chosen bytes: golden vectors, and everything that must be refused."""

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.format.rowcodec.fields import MAX_DEPTH
from strata.kernels import WARM
from strata.model.types import ColumnType, Field, Kind, parse_type
from tests.support import values
from tests.support.plain import TYPES, plain, to_array
from tests.support.values import number
from tests.unit.format.rowcodec.proto import Row

NUMERIC0 = parse_type("numeric(38,0)")
TIMESTAMP = parse_type("timestamp")
INT64 = parse_type("int64")
STRING = parse_type("string")


def span(low: int | None, high: int | None, ends: str, *, empty: bool = False) -> dict[str, object]:
    """Return a range as a plain value."""
    return {
        "lower": low,
        "upper": high,
        "lower_inclusive": "[" in ends,
        "upper_inclusive": "]" in ends,
        "empty": empty,
    }


# (type, physical value, the datum's bytes): the system that this one follows writes these.
GOLDEN = [
    ("numeric(38,0)", -101, "c20104 0a02101d"),
    ("timestamp", 3661 * 10**6, "92010c 0a05 08b20f 1001 1203 08cd1c"),
    ("bool", 0, "0802"),
    ("bool", 1, "0803"),
    ("int64", None, "0801"),
    ("int64", 0, "2000"),
    ("int16", -1, "10ffffffffffffffffff01"),
    ("int32", 300, "18ac02"),
    ("float64", 0x3FF0000000000000, "31000000000000f03f"),
    ("float32", 0x3F800000, "2d0000803f"),
    ("date", -719_162, "820104 0801 1001"),
    ("date", -719_163, "820103 10ee02"),  # the last day of year 0: the year itself is left out
    ("timestamptz", 0, "9a0109 0a05 08b20f 1001 1200"),
    ("string", b"", "4200"),
    ("bytes", b"ab", "3a026162"),
    ("jsonb", b"{}", "42027b7d"),
    ("numeric(10,2)", 0, "c20105 0a010c 1002"),
]

ALL_MODES = "00000000e000030f"
# (type, plain value as in tests.support.values, the datum's bytes).
GOLDEN_PLAIN = [
    ("interval", bytes.fromhex("80000001 80000001 8000000000000000"), "a20104 08011001"),
    ("interval", bytes.fromhex("7fffffff 80000000 8000000000000000"),
     "a2010b 08ffffffffffffffffff01"),
    ("time", bytes.fromhex("00000e4d 00000000"), "8a0103 08cd1c"),
    ("aclitem", bytes.fromhex(f"00000001 00000002 {ALL_MODES}"),
     "8a020c 08011002 1a06088f8680800e"),
    ("mz_aclitem",
     bytes.fromhex(f"0000012c0000000000000001 0000012c0000000000000002 {ALL_MODES}"),
     "820210 0a021001 12021002 1a06088f8680800e"),
    ("mz_aclitem", bytes.fromhex("00000064" + "00" * 8 + "00000190" + "00" * 16),
     "82020a 0a020800 12021a00 1a00"),  # system role 0, public, no rights
    ("numeric", number("-101"), "c20104 0a02101d"),
    ("numeric", number("1500"), "c2010f 0a02015c 10feffffffffffffffff01"),
    ("numeric", number("0"), "c20103 0a010c"),
    ("numeric", number("-Infinity"), "0807"),
    ("numeric", number("NaN"), "0808"),
    ("uint8", 255, "d801ff01"),
    ("uint16", 0, "e00100"),
    ("oid", 2**32 - 1, "d001ffffffff0f"),
    ("uint64", 2**64 - 1, "e801ffffffffffffffffff01"),
    ("mz_timestamp", 1, "f00101"),
    ("interval day to second", -1, "a2010b 18ffffffffffffffffff01"),
    ("interval year to month", 14, "a20102 080e"),
    ("uuid", bytes(range(16)), "ca0110 000102030405060708090a0b0c0d0e0f"),
    ("list<int32>", [1, None], "b20108 0a021801 0a020801"),
    ("list<int32>", [], "b20100"),
    ("record<>", {"_": None}, "b20100"),
    ("record<a: bool>", {"a": True}, "b20104 0a020803"),
    ("map<int32>", [("", 1), ("k", None)], "ba010f 0a04 12021801 0a07 0a016b 12020801"),
    ("array<int32>", {"dims": [], "vals": []}, "aa0102 0a00"),
    ("array<int32>", {"dims": [{"lower_bound": 0, "length": 1}], "vals": [7]},
     "aa010a 0a04 0a021807 12021001"),
    ("range<int32>", span(1, 5, "["), "fa010c 0a0a 0801 12021801 22021805"),
    ("range<int32>", span(None, 5, ""), "fa0106 0a04 22021805"),
    ("range<int32>", span(None, None, ""), "fa0102 0a00"),
    ("range<int32>", span(None, None, "", empty=True), "fa0100"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "value", "datum"), GOLDEN_PLAIN)
def test_bytes_of_every_type_are_those_of_the_golden_vectors(
    declared: str, value: object, datum: str
) -> None:
    column_type = parse_type(declared)
    wanted = bytes.fromhex(datum.replace(" ", ""))
    array = values.to_array([value], column_type)

    rows = encode_rows([array], [column_type])

    assert rows.to_pylist() == [b"\x0a" + bytes([len(wanted)]) + wanted]
    [back] = decode_rows(rows, [column_type])
    assert values.same(values.plain(back), [value])


def samples() -> Iterator[tuple[ColumnType, pa.Array]]:
    """Yield the golden values by type, with a null."""
    found: dict[str, list[object]] = {}
    for declared, value, _ in GOLDEN_PLAIN:
        found.setdefault(declared, [None]).append(value)
    for declared, cells in found.items():
        yield parse_type(declared), values.to_array(cells, parse_type(declared))


@pytest.mark.parametrize(("declared", "value", "datum"), GOLDEN)
def test_bytes_are_those_of_the_golden_vectors(
    declared: str, value: int | bytes | None, datum: str
) -> None:
    column_type = parse_type(declared)
    wanted = bytes.fromhex(datum.replace(" ", ""))

    [row] = encode_rows([to_array([value], column_type)], [column_type]).to_pylist()

    assert row == b"\x0a" + bytes([len(wanted)]) + wanted


def rows_of(*rows: bytes | str) -> pa.Array:
    return pa.array(
        [bytes.fromhex(r.replace(" ", "")) if isinstance(r, str) else r for r in rows], pa.binary()
    )


# (type, the row's bytes, a word of the reason)
DAMAGED = [
    ("int64", "", "wrong number"),
    ("int64", "0a022001 0a022001", "wrong number"),
    ("int64", "0a03 2001", "longer than the row"),
    ("int64", "0a", "ends inside"),
    ("int64", "0affffffffffffffffff01 2001", "longer than the row"),
    ("int64", "0a02 2080", "ends inside"),
    ("int64", "0a0c 20ffffffffffffffffffff01", "more than 10 bytes"),
    ("int64", "0a0b 20ffffffffffffffffff02", "longer than 64 bits"),
    ("int64", "0a02 1801", "does not hold"),
    ("int64", "0a00", "empty"),
    ("int64", "0a02 0802", "does not fit"),
    ("int64", "0a02 2301", "unknown wire type"),
    ("int16", "0a04 1080 8002", "16 bits"),
    ("bool", "0a02 0804", "does not fit"),
    ("float64", "0a05 3100000000", "longer than the row"),
    ("float64", "0a02 3001", "wire type"),
    ("string", "0a04 4202 c3 28", "UTF-8"),
    ("string", "0a04 42ff 6162", "longer than the row"),
    ("date", "0a07 820104 0801 1000", "no day"),
    ("date", "0a09 820106 08e70f 10ee02", "no day"),  # 2023 has no day 366
    ("timestamp", "0a10 92010d 0a05 08b20f 1001 1204 0880a305", "no time of day"),
    ("timestamp", "0a0e 92010b 0a05 08b20f 1001 1202 1001", "finer than a microsecond"),
    ("numeric(10,2)", "0a08 c20105 0a01ac 1002", "packed decimal"),
    ("numeric(10,2)", "0a08 c20105 0a0101 1002", "packed decimal"),
    ("numeric(1,0)", "0a07 c20104 0a02012c", "does not fit"),
    ("numeric(10,2)", "0a08 c20105 0a011c 1003", "does not fit"),
    ("uint8", "0a04 d8018002", "8 bits"),
    ("uint64", "0a03 e80180", "ends inside"),
    ("numeric", "0a02 0809", "does not fit"),  # an enum value of a later version
    ("int64", "0a02 0804", "does not fit"),
    ("numeric", "0a1a c20117 0a15" + "11" * 20 + "1c", "41 digits"),
    ("uuid", "0a04 ca010161", "1 bytes"),
    ("time", "0a08 8a0105 0880a30510", "ends inside"),
    ("time", "0a07 8a0104 0880a305", "secs out of range"),
    ("interval day to second", "0a05 a201020801", "do not fit"),
    ("interval year to month", "0a05 a201021801", "do not fit"),
    ("mz_aclitem", "0a0b 820208 0a00 12021002 1a00", "unknown kind"),
    ("list<int32>", "0a07 b20104 0a022001", "does not hold"),
    ("list<int32>", "0a06 b20103 0a0218", "longer than the row"),
    ("record<a: bool>", "0a03 b20100", "a record of 0"),
    ("map<int32>", "0a13 ba0110 0a06 0a0012021801 0a06 0a0012021802", "twice"),
    ("map<int32>", "0a08 ba0105 0a03 0a016b", "no value"),
    ("map<int32>", "0a0c ba0109 0a07 0a01ff 12021801", "UTF-8"),
    ("array<int32>", "0a0b aa0108 0a04 0a021807 1200", "dimensions"),
    ("array<int32>", "0a09 aa0106 0a04 0a021807", "dimensions"),
    ("array<int32>", "0a0f aa010c 0a00 12020801 120408011003", "dimensions"),  # 0 by 3 cells
    ("range<int32>", "0a0b fa0108 0a06 0801 12020801", "null"),
    ("numeric(10,2)", "0a02 0808", "does not fit"),  # NaN has no place in a decimal
]


@pytest.mark.parametrize(("declared", "row", "reason"), DAMAGED)
def test_a_damaged_row_is_corrupt_and_says_where_and_why(
    declared: str, row: str, reason: str
) -> None:
    column_type = parse_type(declared)
    good = encode_rows([to_array([None], column_type)], [column_type])[0].as_py()
    rows = rows_of(good, good, row)

    with pytest.raises(Corrupt, match=reason) as caught:
        decode_rows(rows, [column_type], names=["price"], first_row=100)

    assert caught.value.details["row"] == 102
    of_value = caught.value.message == "a value cannot be decoded"
    assert caught.value.details.get("column") == ("price" if of_value else None)


def test_a_value_that_cannot_be_read_is_named_by_its_column() -> None:
    good = encode_rows([to_array([1], INT64)] * 2, [INT64, INT64])[0].as_py()
    rows = rows_of(good, good.removesuffix(b"\x0a\x02\x20\x01") + b"\x0a\x02\x18\x01")

    for names, column in ((["id", "price"], "price"), (None, 1)):
        with pytest.raises(Corrupt, match="a value cannot be decoded") as caught:
            decode_rows(rows, [INT64, INT64], names=names, first_row=100)
        assert (caught.value.details["row"], caught.value.details["column"]) == (101, column)


def test_a_null_row_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="null"):
        decode_rows(pa.array([b"", None], pa.binary()), [])


@pytest.mark.parametrize(
    ("declared", "row", "value"),
    [
        ("int64", "0a03 208100", 1),  # a number longer than needed
        ("int64", "0a04 2001 2002", 2),  # of several values the last counts
        ("int64", "0a04 0801 2002", 2),
        ("int64", "12016f 0a022002", 2),  # an unknown field of the row
        ("date", "0a08 820105 1001 08b20f", 0),  # fields in another order
        ("timestamp", "0a0c 920109 0a05 08b20f 1001 1200", 0),
        ("timestamp", "0a0a 920107 0a05 08b20f 1001", 0),  # no time: midnight
        ("numeric(10,2)", "0a08 c20105 0a012f 1001", 20),  # another scale, another plus sign
        ("numeric(10,2)", "0a06 c20103 0a011c", 100),
    ],
)
def test_what_other_protobuf_writers_may_write_is_read(declared: str, row: str, value: int) -> None:
    column_type = parse_type(declared)

    [array] = decode_rows(rows_of(row), [column_type])

    assert array == to_array([value], column_type)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("0a08 c20105 0a0301500c", "1500"),  # zeros at its end, no scale
        ("0a0a c20107 0a0301500d 1002", "-15"),
        ("0a07 c20104 0a02000c", "0"),
        ("0a08 c20105 0a010d 1002", "0"),  # without a sign
        ("0a0a c20107 0a0301050f 1005", "0.0105"),
        ("12016f 0a020806", "Infinity"),  # an unknown field of the row
        ("12016f 0a020807", "-Infinity"),
        ("12016f 0a020808", "NaN"),
    ],
)
def test_a_number_without_a_precision_is_read_from_any_spelling(row: str, text: str) -> None:
    unbounded = parse_type("numeric")

    [array] = decode_rows(rows_of(row), [unbounded])

    assert values.same(values.plain(array), [number(text)])


def test_a_row_in_another_form_leaves_its_numbers_as_they_are() -> None:
    """The second row has a longer spelling of 1 than needed; its numbers are spelt as usual."""
    unbounded = parse_type("numeric")
    ones = to_array([1, 1, 1], INT64)
    numbers = values.to_array([number("1500"), number("-0.25"), None], unbounded)
    usual = encode_rows([ones, numbers], [INT64, unbounded]).to_pylist()
    usual[1] = b"\x0a\x03\x20\x81\x00" + usual[1].removeprefix(b"\x0a\x02\x20\x01")

    assert decode_rows(rows_of(*usual), [INT64, unbounded]) == [ones, numbers]


def test_a_leap_second_is_the_next_second() -> None:
    # 23:59:59 and 1,500,000,000 ns, as chrono writes it.
    message = Row()
    moment = message.datums.add().timestamp
    moment.date.year, moment.date.ordinal = 1970, 1
    moment.time.secs, moment.time.frac = 86_399, 1_500_000_000

    [array] = decode_rows(rows_of(message.SerializeToString()), [TIMESTAMP])

    assert plain(array) == [86_400 * 10**6 + 500_000]


def test_only_wanted_columns_come_back_in_the_order_asked_for() -> None:
    types = [INT64, STRING, TIMESTAMP]
    arrays = [
        to_array([1, None], INT64),
        to_array([b"x", b"y"], STRING),
        to_array([5, 6], TIMESTAMP),
    ]
    rows = encode_rows(arrays, types)

    assert decode_rows(rows, types, wanted=[2, 0]) == [arrays[2], arrays[0]]
    assert decode_rows(rows, types, wanted=[]) == []


def test_rows_without_columns_are_empty() -> None:
    rows = encode_rows([], [], rows=3)
    assert rows.to_pylist() == [b"", b"", b""]
    assert decode_rows(rows, []) == []


@pytest.mark.parametrize("column_type", TYPES, ids=str)
def test_no_rows_are_no_values_of_the_right_type(column_type: ColumnType) -> None:
    array = to_array([], column_type)
    rows = encode_rows([array], [column_type])
    assert decode_rows(rows, [column_type]) == [array]


def test_batches_meet_without_a_seam() -> None:
    count = 20_000
    arrays = [
        pa.array(range(count), pa.int64()),
        pa.array([f"{i}" * (i % 40) for i in range(count)]),
    ]
    types = [INT64, STRING]
    sliced = [array.slice(3, count - 5) for array in arrays]

    assert decode_rows(encode_rows(sliced, types), types) == sliced


def test_a_type_nested_deeper_than_protobuf_reads_is_refused() -> None:
    fits = parse_type("map<" * (MAX_DEPTH - 1) + "range<date>" + ">" * (MAX_DEPTH - 1))
    deep = ColumnType(Kind.LIST, element=fits)
    array = values.to_array([None], fits)

    assert decode_rows(encode_rows([array], [fits]), [fits]) == [array]
    with pytest.raises(InvalidRequest, match="too deeply"):
        encode_rows([values.to_array([None], deep)], [deep])


def test_records_inside_each_other_are_counted_too() -> None:
    nested = ColumnType(Kind.BOOL)
    for _ in range(MAX_DEPTH):
        nested = ColumnType(Kind.RECORD, fields=(Field("a", nested),))
    deeper = ColumnType(Kind.RECORD, fields=(Field("a", nested),))

    assert decode_rows(pa.array([], pa.binary()), [nested])
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        decode_rows(pa.array([], pa.binary()), [deeper])
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        encode_rows([pa.nulls(1, pa.bool_())], [deeper])


def test_an_empty_key_may_be_written_or_left_out_and_entries_may_come_in_any_order() -> None:
    kind = parse_type("map<int32>")
    rows = rows_of(
        "0a09 ba0106 0a04 12021801",
        "0a0b ba0108 0a06 0a00 12021801",
        "0a14 ba0111 0a07 0a0162 12021802 0a06 0a00 12021801",
    )

    [array] = decode_rows(rows, [kind])

    assert values.plain(array) == [[("", 1)], [("", 1)], [("", 1), ("b", 2)]]


def test_the_compiler_is_not_loaded_until_a_row_is_encoded() -> None:
    script = "import sys, strata.format.part, strata.cli.app; print('numba' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert found.stdout == "False\n"


def test_every_kernel_is_on_the_list_of_what_is_compiled_ahead() -> None:
    script = f"""
import importlib, inspect
for name in {WARM!r}:
    module, function = name.split(":")
    getattr(importlib.import_module(module), function)()
from strata.kernels import digits, row_read, row_times, row_write
for module in (digits, row_read, row_times, row_write):
    for name, kernel in vars(module).items():
        here = getattr(kernel, "__module__", None) == module.__name__
        if here and hasattr(kernel, "py_func") and not name.startswith("_"):
            print(name, len(kernel.signatures))
"""
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    counts = dict(line.split() for line in found.stdout.splitlines())
    assert len(counts) > 30
    assert not {name for name, count in counts.items() if count != "1"}
