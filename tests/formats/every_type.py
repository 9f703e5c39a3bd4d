"""One column of every type, with the values at its edges: never edited once files exist.

`VALUES` are JSON values as tests/formats/logical.py explains; expected.json holds the same.
"""

from typing import Any, Final

import pyarrow as pa

from strata.format.columns import updates_schema
from strata.format.encodings import arrow_type
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from tests.formats.logical import stored

MAX64: Final = 2**64 - 1
NINES: Final = "9" * 39
# For each type some values; they are repeated up to ROWS - 1 rows, then comes null.
ROWS: Final = 8
TYPES: Final[dict[str, list[Any]]] = {
    "string": ["", "a", "é😀\ud7ff\ue000\U0010ffff", "x" * 300],
    "bool": [True, False],
    "int16": [0, -1, 32767, -32768],
    "int32": [0, -1, 2**31 - 1, -(2**31)],
    "int64": [0, -1, 2**63 - 1, -(2**63)],
    "uint8": [0, 1, 127, 128, 255],
    "uint16": [0, 1, 2**15, 2**16 - 1],
    "uint32": [0, 1, 2**31, 2**32 - 1],
    "uint64": [0, 1, 2**63, MAX64],
    "oid": [0, 1, 2**31, 2**32 - 1],
    "mz_timestamp": [0, 1_700_000_000_000, MAX64],
    "float32": [0.0, -1.5, "Infinity", "-Infinity", "NaN", 2.0**-149],
    "float64": [0.0, -1.5, "Infinity", "-Infinity", "NaN", 5e-324, 1.7976931348623157e308],
    "numeric(38,9)": ["0.000000000", "-1.500000000", f"{'9' * 29}.{'9' * 9}", "0.000000001"],
    "numeric": ["0", "-101", "1E+3", "1E-39", NINES, f"-{'9' * 19}.{'9' * 20}", "NaN"],
    "date": [0, 1, -1, -719_162, 2_932_896, 2**31 - 1, -(2**31)],
    "time": [[0, 0], [3661, 0], [86_399, 999_999_999], [86_399, 1_999_999_999]],
    "timestamp": [0, -1, 1_719_750_601_000_000, 2**63 - 1, -(2**63)],
    "timestamptz": [0, -1, 1_719_750_601_000_005, 2**63 - 1, -(2**63)],
    "interval": [
        [0, 0, 0], [1, 1, 0], [-1, 30, -1], [2**31 - 1, 2**31 - 1, 2**63 - 1],
        [-(2**31), -(2**31), -(2**63)],
    ],
    "interval day to second": [0, -1, 86_400_000_000, 2**63 - 1, -(2**63)],
    "interval year to month": [0, -1, 12, 2**31 - 1, -(2**31)],
    "char(5)": ["", "a", "äbcde"],
    "varchar(5)": ["", "a ", "äbcde"],
    "bytes": ["", "00ff", "6162" * 20, "ff" * 9],
    "jsonb": ["null", '{"a":1,"b":[true,{}]}', "0.1", '"é"', "123456789012345678901234567890"],
    "uuid": [
        "00000000-0000-0000-0000-000000000000", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
    "aclitem": [[1, 2, 0xE000030F], [0, 2**32 - 1, 0], [0, 0, MAX64]],
    "mz_aclitem": [["u1", "u2", 0xE000030F], ["s1", "g18", 0], ["p", f"u{MAX64}", MAX64]],
    "list<int32>": [[], [1], [None], [-1, None, 2**31 - 1]],
    "list<list<string>>": [[], [None], [[]], [["a", None], [], ["b" * 40]]],
    "array<int64>": [
        {"dims": [], "vals": []}, {"dims": [[1, 2]], "vals": [7, None]},
        {"dims": [[-3, 2], [0, 2]], "vals": [1, 2, 3, -4]},
    ],
    "array<uuid>": [
        {"dims": [[1, 1]], "vals": ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]},
        {"dims": [], "vals": []},
    ],
    "int2vector": [
        {"dims": [], "vals": []}, {"dims": [[0, 3]], "vals": [1, -32768, 32767]},
    ],
    "map<int64>": [[], [["", 0]], [["a", 1], ["é", None]]],
    "map<numeric>": [[["a", "1E+3"], ["b", None], ["c", "-Infinity"]], []],
    "record<lat: float64, a.b: list<int32>, odd `name`: record<deep: time>, none: record<>>": [
        [1.5, [1, None], [[5, 6]], []], [None, None, None, None], ["NaN", [], [None], None],
    ],
    "record<>": [[]],
    "range<int32>": [
        [1, 10, True, False, False], [None, 10, False, False, False],
        [1, None, True, False, False], [None, None, False, False, False],
        [None, None, False, False, True],
    ],
    "range<numeric>": [
        ["-1.5", "1E+3", True, True, False], ["0", None, False, False, False],
        [None, None, False, False, True],
    ],
    "range<timestamptz>": [[0, 1, False, True, False], [None, -1, False, True, False]],
    "list<map<record<at: timestamptz, who: mz_aclitem>>>": [
        [[["x", [0, ["u1", "p", 1]]]], [], None], [], [[["x", None], ["y", [None, None]]]],
    ],
}  # fmt: skip
RELATION: Final = Relation(
    2,
    tuple(Column(i, f"c{i}", parse_type(t)) for i, t in enumerate(TYPES, 1)),
    key=(3, 1, 16, 27),
    order=(),
)
TIMES: Final = [-5, 0, 1, 7, 999, 999, 999, 999]
DIFFS: Final = [1, -1, 1, 3, -3, 1, 2**40, -(2**40)]


def values() -> dict[str, list[Any]]:
    """Return the JSON values of each column, by column id, and t and d."""
    columns: dict[str, list[Any]] = {}
    for column, some in zip(RELATION.columns, TYPES.values(), strict=True):
        columns[str(column.id)] = [some[i % len(some)] for i in range(ROWS - 1)] + [None]
    return {**columns, "t": TIMES, "d": DIFFS}


def updates() -> pa.Table:
    """Return the same as updates."""
    schema = updates_schema(RELATION)
    arrays = [
        pa.array(
            [stored(v, column.type) for v in values()[str(column.id)]], arrow_type(column.type)
        )
        for column in RELATION.columns
    ]
    arrays += [pa.array(TIMES, pa.int64()), pa.array(DIFFS, pa.int64())]
    return pa.Table.from_arrays(arrays, schema=schema)
