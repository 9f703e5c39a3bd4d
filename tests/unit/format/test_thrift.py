"""Structs of Thrift: every kind comes back, and what is too deep or cut short is no struct."""

import pytest

from strata.errors import Corrupt
from strata.format.thrift import (
    BINARY,
    BYTE,
    DEEPEST,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    ThriftList,
    ThriftStruct,
    read_struct,
    write_struct,
)

EVERY: ThriftStruct = {
    1: (TRUE, True),
    2: (FALSE, False),
    3: (BYTE, 200),
    19: (I16, -(2**15)),  # a step of more than 15
    20: (I32, 2**31 - 1),
    -5: (I64, -(2**63)),
    21: (I64, 2**63 - 1),
    22: (DOUBLE, -1.5),
    23: (BINARY, b""),
    24: (BINARY, b"x" * 300),
    25: (LIST, ThriftList(I32, list(range(-7, 7)))),
    26: (LIST, ThriftList(BINARY, [b"a"] * 15)),  # the length of a long list follows its head
    27: (SET, ThriftList(TRUE, [True, False])),
    28: (STRUCT, {1: (STRUCT, {}), 7: (LIST, ThriftList(STRUCT, [{}, {2: (I16, 0)}]))}),
}


def test_every_kind_comes_back() -> None:
    data = write_struct(EVERY)

    assert read_struct(data) == EVERY
    assert read_struct(data + b"what follows") == EVERY


def test_what_is_cut_short_is_no_struct() -> None:
    data = write_struct(EVERY)
    for end in range(len(data)):
        with pytest.raises(Corrupt, match="no struct of Thrift"):
            read_struct(data[:end])


@pytest.mark.parametrize("kind", [STRUCT, LIST])
def test_nothing_lies_deeper_than_footers_need(kind: int) -> None:
    """Each byte is a struct in the first field of the one around it, or a list of one list."""
    inside, most = bytes([1 << 4 | kind]), DEEPEST
    with pytest.raises(Corrupt, match="no struct of Thrift") as caught:
        read_struct(inside * (most + 1) + bytes(2 * most))
    assert "too deep" in caught.value.details["reason"]
    with pytest.raises(Corrupt, match="no struct of Thrift"):
        read_struct(inside * 100_000)

    found = read_struct(inside * most + bytes(2 * most))
    depth = 0
    while found:
        value = found[1][1] if isinstance(found, dict) else found.items[0]
        found, depth = value, depth + 1
        if isinstance(found, ThriftList) and not found.items:
            break
    assert depth == most


def test_a_list_claims_no_more_than_there_is() -> None:
    with pytest.raises(Corrupt, match="longer than the rest"):
        read_struct(bytes([1 << 4 | LIST, 15 << 4 | I32, 0xFF, 0xFF, 0xFF, 0x7F]))
