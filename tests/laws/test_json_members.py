"""Law: JSON lines that are read as a table give what reading them one by one gives.

Lines are drawn as texts: odd blanks, repeated and escaped keys, values of all kinds, some broken.
"""

import random
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.readers.json_members import members_of
from strata.ingest.readers.json_table import WORDS, read_table
from strata.ingest.readers.jsonl import _elements, one_by_one, read_objects
from strata.ingest.readers.objects import read_array, read_lines
from strata.ingest.readers.source import RawFile
from strata.kernels.json_members import misleads
from strata.model.types import ColumnType, parse_type
from tests.support.sizes import tries

TYPES = {"a": "int64", "s": "string", "j": "jsonb", "k": "jsonb", "t": "timestamptz"}
KEYS = ('"a"', '"s"', '"j"', '"k"', '"t"')
ODD_KEYS = (
    '"A"', '" j"', '"\\u006a"', '"x"', '"y"', '"é"', '""', '"op"', '"after"', '"a b"', '"j\\n"',
)  # fmt: skip
VALUES = {
    '"a"': ("1", "-5", "null", " 7 ", "1.0", '"1"', "9223372036854775808"),
    '"s"': ('"x"', '""', "null", '"\\u00e9"', '"\\ud83d\\ude00"', '"é}{,"', '"\\ud800"', "5"),
    '"t"': ('"2020-01-01T00:00:00Z"', "null", '"2020-01-01"', '"x"'),
}
JSON = (
    "null", " null ", "true", "1", "1.50", "1e3", "-0", "-0.0", "12345678901234567890", '"x"', '""',
    '"a\\"}b"', "{}", "[]", "[ ]", '{"b" : 1 , "a":[1,{"c":"}"}]}', '{"a":1,"a":2}', '["\\\\"]',
    '{"\\u0061":1}', "[1,2,\t3]", "1e400", "0.1", '"\\ud800"', '{"k":"\\u0000"}', '{"é":"\u2028"}',
    "[[[[1]]]]", '{"a":{"b":null}}', '"null"', "nullx", "tru", "[1,]", '{"a"}', "{'a':1}", "NaN",
    "01", "1.", "[" * 300 + "]" * 300,
)  # fmt: skip
ENDS = ("\n", "\n", "\n", "\r\n", "\n\n", " \n")
SPOILT = ("}", "{}", " null", "x", ",", '"', "{")


def line(draw: random.Random, odd: float) -> str:
    """Return one line, odd with some probability."""
    keys = list(KEYS)
    if draw.random() < 0.3:
        draw.shuffle(keys)
    if draw.random() < 0.3:
        keys = keys[: draw.randint(0, 4)]
    if draw.random() < 0.3:
        keys.insert(draw.randint(0, len(keys)), draw.choice(ODD_KEYS[3:5]))
    if draw.random() < odd:
        keys.insert(draw.randint(0, len(keys)), draw.choice((*ODD_KEYS, *KEYS)))
    few = JSON[:21]
    blank = draw.choice(("", "", " ", "\t"))
    members = []
    for key in keys:
        known = VALUES.get(key, JSON if draw.random() < odd else few)
        value = draw.choice(known if draw.random() < odd else known[:3])
        members.append(f"{blank}{key}{blank}:{blank}{value}{blank}")
    text = "{" + ",".join(members) + "}"
    return text + draw.choice(SPOILT) if draw.random() < odd / 2 else text


def nulls_of_same(
    fast: RawFile, slow: RawFile, types: Mapping[str, ColumnType], data: bytes
) -> int:
    """Assert that both hold the same rows, in the same places; return how many nulls they have."""
    assert (fast.count, list(slow.malformed)) == (slow.count, []), data
    nulls = 0
    for name, kind in types.items():
        a, b = (raw.convert(raw.columns[name], kind) for raw in (fast, slow))
        assert a.values.to_pylist() == b.values.to_pylist(), (name, data)
        assert a.bad.tolist() == b.bad.tolist(), (name, data)
        nulls += a.values.null_count
    rows = np.arange(fast.count)
    assert fast.locate(rows) == slow.locate(rows)
    return nulls


def test_a_table_of_lines_holds_what_its_objects_hold() -> None:
    draw = random.Random(62)
    types = {name: parse_type(kind) for name, kind in TYPES.items()}
    tables = nulls = 0
    for _ in range(tries(1500, 20_000)):
        odd = draw.choice((0.0, 0.0, 0.02, 0.1))
        count = draw.choice((1, 2, 3, 300))
        text = "".join(line(draw, odd / count**0.5) + draw.choice(ENDS) for _ in range(count))
        data = text.encode("utf-8", "surrogatepass")
        optional = draw.choice(((), (), (), ("j",), ("s", "k")))
        file = SourceFile("x", "x", len(data), piece=FileRange(0, len(data), 7, data=data))

        fast = read_objects(file, data, list(TYPES), optional, types)

        if fast is None:
            continue
        slow = one_by_one(file, read_lines(file, data), list(TYPES), optional)
        tables += 1
        assert not any(any(lacks) for lacks in slow.lacking.values()), text
        nulls += nulls_of_same(fast, slow, types, data)
    assert tables > 200
    assert nulls


def test_a_table_of_elements_holds_what_the_array_holds() -> None:
    draw = random.Random(63)
    types = {name: parse_type(kind) for name, kind in TYPES.items()}
    tables = refused = 0
    for _ in range(tries(1500, 20_000)):
        odd = draw.choice((0.0, 0.0, 0.02, 0.1))
        count = draw.choice((1, 2, 3, 200))
        items = [line(draw, odd / count**0.5) for _ in range(count)]
        if draw.random() < odd:
            items.insert(draw.randint(0, count), draw.choice(("", "null", "[]", " ", "1", "{},")))
        gap = draw.choice((",", ", ", ",\n", "\r\n,\n\n"))
        if draw.random() < 0.2:
            items = [item.replace(",", ",\n ") for item in items]  # as people lay them out
        ends = ("]",) * 12 + ("", "] ", "]]", "],", "]x", "\n]\n", '"]')
        text = draw.choice(("[",) * 12 + ("", " [\n", "[[", "{", "x[")) + gap.join(items)
        data = (text + draw.choice(ends)).encode("utf-8", "surrogatepass")
        file = SourceFile("x", "x", len(data), piece=FileRange(0, len(data), 7, data=data))

        fast = _elements(file, data, list(TYPES), (), types)

        if fast is None:
            refused += 1
            continue
        slow = one_by_one(file, read_array(file, data), list(TYPES), ())
        tables += 1
        nulls_of_same(fast, slow, types, data)
    assert tables > 200
    assert refused > 200


MISLEADING = re.compile(rb"\}[ \t\r]*null|[:,\[][ \t\r]*-?(?:NaN|Infinity|Inf)(?:[,}\] \t\r\n]|\Z)")


def test_what_arrow_takes_for_json_is_seen() -> None:
    draw = random.Random(64)
    words = (b"NaN", b"Inf", b"Infinity", b"inity", b"null", b"nul", b"-", b"}", b"]", b"[", b":",
             b",", b" ", b"\t", b"\r", b"\n", b'"', b"1")  # fmt: skip
    seen = [0, 0]
    for _ in range(tries(3000, 100_000)):
        text = b"".join(draw.choices(words, k=draw.randint(0, 6)))
        found = misleads(np.frombuffer(text, np.uint8), *WORDS)
        assert found == (MISLEADING.search(text) is not None), text
        seen[found] += 1
    assert min(seen) > 100
    assert read_table(b'{"a":1,"x":NaN}\n', pa.schema({"a": pa.int64()}), others=True) is None


def test_members_are_found_where_they_stand() -> None:
    data = b' { "j" : {"a":"}"} , "x":1,"s":null}\n{"y":[1,"]"],"s":"j"}\n'
    found = members_of(data, ["j", "s", "gone"])
    assert found is not None
    assert found.texts("j").to_pylist() == ['{"a":"}"}', None]
    assert found.texts("s").to_pylist() == [None, '"j"']
    assert found.keys == {"j", "s", "x", "y"}
    assert (found.begins[1] >= 0).tolist() == [True, True]
    assert found.lines(["s"]) == b'{"s":null}\n{"s":"j"}\n'
    assert found.lines(["gone"]) == b"{}\n{}\n"
    for broken in (b'{"j":1,"j":2}', b'{"\\u006a":1}', b'{"j":1} x', b'{"j":1', b"[1]", b'{"j"}'):
        assert members_of(broken, ["j"]) is None
