"""Rows that strangers write: for each format, files with rows that nobody can store."""

import io
from collections.abc import Mapping
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

DEPTHS: Final = (200, 250, 253, 254, 255, 256, 300, 900, 1000, 1023, 1024, 1025, 100_000)
BIG: Final = 10_000_000


def deep(depth: int, inner: bytes = b"") -> bytes:
    return b"[" * depth + inner + b"]" * depth


# JSON texts of a value; whether a column takes them is the column's business, raising is not.
VALUES: Final[Mapping[str, bytes]] = {
    **{f"deep-{depth}": deep(depth) for depth in DEPTHS},
    **{f"deep-number-{depth}": deep(depth, b"1.00000000000000000000") for depth in DEPTHS},
    **{f"deep-object-{d}": b'{"a":' * d + b"1" + b"}" * d for d in DEPTHS},
    "half": rb'"\ud800"',
    "other half": rb'"a\udfffb"',
    "half key": rb'{"\ud800":1}',
    "nul": rb'"a\u0000b"',
    "nul byte": b'"a\x00b"',
    "control": b'"a\x1b[31m\x07b"',
    "escaped control": rb'"\u001b[31m\u0007\u2028\u202e"',
    "large": b'"' + b"x" * BIG + b'"',
    "large list": b"[" + b"1," * (BIG // 10) + b"1]",
    "digits": b"7" * 5000,
    "digits text": b'"' + b"7" * 5000 + b'"',
    "fraction": b"0." + b"7" * 5000,
    "exponent": b"1e999999999",
    "small exponent": b"1e-999999999",
    "long exponent": b"1.0000000000000000000000e999999999",
    "exponent text": b'"1e999999999"',
    "small exponent text": b'"1e-999999999"',
    "small exponents": b"1e-40",
    "digits of small exponent": b'"1e-' + b"9" * 5000 + b'"',
    "digits of exponent": b'"1e' + b"9" * 5000 + b'"',
    "twice": b'{"a":1,"a":[2],"a":{}}',
    "no utf-8": b'"a\xff\xfeb"',
    "half utf-8": b'"\xed\xa0\x80"',
    "bom": b'"\xef\xbb\xbf"',
    "return": b'"a\rb"',
    "days": b'"999999999 days"',
    "years": b'"P999999999999Y"',
    "far": b'"99999-01-01"',
    "before": b'"-4713-01-01T00:00:00"',
    "nan": b"NaN",
    "empty": b"",
    "true": b"true",
    "object": b'{"dims":[{"lower_bound":1,"length":99999999999}],"vals":[]}',
}
KINDS: Final = (
    "int16", "int64", "uint64", "float32", "float64", "numeric", "numeric(10,2)", "string",
    "char(3)", "varchar(5)", "bytes", "bool", "date", "time", "timestamp", "timestamptz",
    "interval", "interval day to second", "interval year to month", "uuid", "jsonb",
    "list<int32>", "array<string>", "map<string>", "record<a: int32>", "range<int32>",
    "list<jsonb>", "oid", "mz_timestamp",
    "int2vector",
)  # fmt: skip


def arrow_columns() -> dict[str, pa.Array]:
    """Return columns of one bad row in the middle of three, by name."""

    def of(kind: pa.DataType, good: Any, bad: Any) -> pa.Array:
        return pa.array([good, bad, good], kind)

    far = 2**62
    found = {
        f"timestamp-{unit}-{zone}-{sign}": pa.array([0, sign * far, 0], pa.int64()).view(
            pa.timestamp(unit, zone)
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Pacific/Apia", "+23:59")
        for sign in (1, -1)
    }
    found |= {
        f"date-{sign}": pa.array([0, sign * 2**31 - (sign > 0), 0], pa.int32()).view(pa.date32())
        for sign in (1, -1)
    }
    found |= {
        f"date64-{sign}": pa.array([0, sign * far, 0], pa.int64()).view(pa.date64())
        for sign in (1, -1)
    }
    found |= {
        f"time-{unit}": pa.array([0, far, -1], pa.int64()).view(pa.time64(unit))
        for unit in ("us", "ns")
    }
    found |= {
        f"duration-{unit}": pa.array([0, far, -far], pa.int64()).view(pa.duration(unit))
        for unit in ("s", "ms", "us", "ns")
    }
    found["time32"] = pa.array([0, 2**31 - 1, -1], pa.int32()).view(pa.time32("s"))
    found["decimal256"] = pa.array([1, 10**75, None], pa.decimal256(76, 0))
    pairs = pa.map_(pa.string(), pa.timestamp("s"))
    found["map twice"] = of(pairs, [("a", 0)], [("a", 0), ("a", far)])
    found["list of far"] = of(pa.list_(pa.timestamp("s")), [0], [far, None])
    found["struct of far"] = of(pa.struct([("a", pa.timestamp("s"))]), {"a": 0}, {"a": far})
    found["binary"] = of(pa.binary(), b"a", b"\xff\x00\xfe")
    data = pa.py_buffer(b"a\xff\xfe")
    offsets = pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]))
    found["no utf-8"] = pa.Array.from_buffers(pa.string(), 3, [None, offsets, data])
    found["float"] = pa.array([1.5, float("nan"), float("-inf")])
    found["half float"] = pa.array([1.5, float("nan"), 2.0], pa.float16())
    found["null"] = pa.nulls(3)
    found["dictionary"] = pa.array(["a", "b", "a"]).dictionary_encode()
    found["interval"] = pa.array(
        [(1, 2, 3), (2**31 - 1, 2**31 - 1, 2**63 - 1), None], pa.month_day_nano_interval()
    )
    return found


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def orc(table: pa.Table) -> bytes:
    out = io.BytesIO()
    po.write_table(table, out)
    return out.getvalue()


def avro(kind: Any, values: list[Any], codec: str = "null") -> bytes:
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": kind}]
    schema = {"type": "record", "name": "r", "fields": fields}
    out = io.BytesIO()
    rows = [{"id": n, "v": value} for n, value in enumerate(values)]
    fastavro.writer(out, schema, rows, codec=codec)
    return out.getvalue()
