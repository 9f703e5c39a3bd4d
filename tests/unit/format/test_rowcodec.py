"""The row codec on chosen bytes: golden vectors, and everything that must be refused."""

import pyarrow as pa
import pytest

from strata.errors import Corrupt
from strata.format.rowcodec import decode_rows, encode_rows
from strata.model.types import ColumnType, parse_type
from tests.unit.format.proto import Row
from tests.unit.format.values import TYPES, plain, to_array

NUMERIC0 = parse_type("numeric(38,0)")
TIMESTAMP = parse_type("timestamp")
INT64 = parse_type("int64")
STRING = parse_type("string")

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
    assert caught.value.details.get("column", "price") == "price"


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
        to_array([1, None], INT64), to_array([b"x", b"y"], STRING), to_array([5, 6], TIMESTAMP),
    ]  # fmt: skip
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
