"""The row codec over every type: as protobuf writes it, back again, and never a wrong value."""

import subprocess
import sys
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.format.rowcodec.decode import decode_batch
from strata.format.rowcodec.objects import from_objects
from strata.format.rowcodec.scalar import decode_row
from strata.model.types import ColumnType, parse_type
from tests.support.sizes import few_a_type
from tests.support.values import arrays, columns, every_type, nullable, plain, same, to_array
from tests.unit.format.rowcodec.proto import Row, encode_plain

TYPES = every_type()
SOME_TYPES = st.lists(st.sampled_from(TYPES), min_size=1, max_size=3)
# Where protobuf's reading, written again, has the bytes of ours: nothing canonical about them.
EXACT = [
    parse_type(text)
    for text in (
        "int32",
        "uint64",
        "float64",
        "string",
        "interval",
        "list<int64>",
        "record<a: int16, b: list<string>>",
        "range<int32>",
        "list<uuid>",
    )
]
UNKNOWN = [b"\xf8\x3f\x05", b"\xfa\x3f\x02ab", b"\xfd\x3f1234", b"\xf9\x3f12345678"]


def damaged(data: st.DataObject, row: bytes) -> bytes:
    """Draw a row with some bytes cut out, put in or changed."""
    bad = bytearray(row)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(bad) - 1, 0)))
        bad[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    return bytes(bad[: data.draw(st.integers(len(bad) - 2, len(bad) + 2).map(abs))])


def same_arrays(left: pa.Array, right: pa.Array) -> bool:
    return left.type == right.type and same(plain(left), plain(right))


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@few_a_type
@given(data=st.data())
def test_every_type_is_written_as_protobuf_does_and_read_by_both_decoders(
    column_type: ColumnType, data: st.DataObject
) -> None:
    array = data.draw(arrays(column_type))

    rows = encode_rows([array], [column_type])
    [fast], odd = decode_batch(rows, [column_type], [0])
    slow = [decode_row(row, [column_type])[0] for row in rows.to_pylist()]

    assert rows.to_pylist() == [encode_plain([value], [column_type]) for value in plain(array)]
    assert not odd.any(), "the fast decoder must know what the encoder writes"
    fast.validate(full=True)
    assert same_arrays(fast, array)
    assert same_arrays(from_objects(slow, column_type), array)


@given(st.data())
def test_rows_of_several_types_come_back(data: st.DataObject) -> None:
    types = data.draw(SOME_TYPES)
    cells = [data.draw(columns(t)) for t in types]
    count = min(map(len, cells))
    made = [to_array(c[:count], t) for c, t in zip(cells, types, strict=True)]

    rows = encode_rows(made, types, rows=count)

    assert all(map(same_arrays, decode_rows(rows, types), made))


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@few_a_type
@given(data=st.data())
def test_both_decoders_agree_on_damaged_rows(column_type: ColumnType, data: st.DataObject) -> None:
    good = encode_plain(plain(data.draw(arrays(column_type)))[:1] or [None], [column_type])
    bad = damaged(data, good)
    between = pa.array([good, bad, good], pa.binary())

    slow: list[Any] = []
    for row in (good, bad, good):
        with suppress(Corrupt):
            slow += decode_row(row, [column_type])
    if len(slow) < 3:
        with pytest.raises(Corrupt) as caught:
            decode_rows(between, [column_type])
        assert caught.value.details["row"] == 1
        return
    [fast] = decode_rows(between, [column_type])

    fast.validate(full=True)
    assert same_arrays(fast, from_objects(slow, column_type))


@pytest.mark.parametrize("column_type", EXACT, ids=str)
@few_a_type
@given(data=st.data())
def test_damaged_rows_are_corrupt_or_mean_what_protobuf_reads(
    column_type: ColumnType, data: st.DataObject
) -> None:
    good = encode_plain(plain(data.draw(arrays(column_type)))[:1] or [None], [column_type])
    bad = damaged(data, good)
    try:
        [array] = decode_rows(pa.array([bad], pa.binary()), [column_type])
    except Corrupt:
        return

    read = Row.FromString(bad)
    read.DiscardUnknownFields()
    assert encode_plain(plain(array), [column_type]) == read.SerializeToString(deterministic=True)


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@few_a_type
@given(data=st.data())
def test_unknown_fields_are_skipped_in_every_message(
    column_type: ColumnType, data: st.DataObject
) -> None:
    array = to_array([data.draw(nullable(column_type))], column_type)
    message = Row.FromString(encode_plain(plain(array), [column_type]))
    _add_unknown(message, data.draw(st.sampled_from(UNKNOWN)))

    [decoded] = decode_rows(pa.array([message.SerializeToString()], pa.binary()), [column_type])

    assert same_arrays(decoded, array)


def _add_unknown(message: Any, field: bytes) -> None:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in value if descriptor.is_repeated else [value]:
                _add_unknown(inner, field)
    message.MergeFromString(field)


SCRIPT = """
import random, sys, hashlib
import pyarrow as pa
from strata.errors import Corrupt
from strata.format.rowcodec.codec import encode_rows
from strata.format.rowcodec.decode import decode_batch
from tests.unit.format.rowcodec.test_codec import samples
digest = hashlib.sha256()
random.seed(7)
for column_type, array in samples():
    rows = encode_rows([array], [column_type]).to_pylist()
    for row in list(rows):
        for _ in range(12):
            bad = bytearray(row)
            for _ in range(random.randint(1, 2)):
                bad[random.randrange(len(bad))] = random.choice([0, 1, 8, 10, 18, 127, 128, 255])
            rows.append(bytes(bad[: random.randint(0, len(bad) + 9)]))
    [values], odd = decode_batch(pa.array(rows, pa.binary()), [column_type], [0])
    digest.update(repr((rows, odd.tolist())).encode())
    kept = values.filter(pa.array(~odd))
    digest.update(repr(kept.to_pylist()).encode() if not pa.types.is_temporal(kept.type)
                  else repr(kept.cast(pa.int64() if kept.type.bit_width == 64 else pa.int32())
                            .to_pylist()).encode())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_the_same_kernels_as_python_do_the_same_and_stay_inside_their_arrays() -> None:
    """Python raises IndexError where compiled code would read what is behind an array."""
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT],
            env={"PATH": "", "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": "."},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for disabled in ("0", "1")
    ]

    assert found[0] == found[1] != ""
