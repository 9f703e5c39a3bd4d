"""The compiled scanner says of any text what the fold says, and refuses what the fold refuses."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from math import inf, nextafter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.kernels.floats import LEAST, MOST, about
from strata.kernels.json_number import MARGIN
from strata.stats.json_bounds import MAX_PATHS
from strata.stats.json_scan import Scanner
from strata.stats.wire import Path
from tests.support.facts import NUMBERS, TEXTS, canonical
from tests.twins.json_fold import all_paths, fold_texts, parse

KEYS = ["a", "b", "c", "", "last_at", "it's", "é", "n.m", 'q"', "b\\", "\n", "\x00", "𝄞", "a" * 50]
SPELT = [  # numbers as nobody would write them, at the borders of what is exact
    "-0", "-0.0", "0e5", "-0E-0", "1e22", "1E+23", "1e-22", "9007199254740993", "0.1e1", "1.50",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "8999999999999999999", "9000000000000000000",
    "1234567890123456789", "-1234567890123456789", "12345678901234567890", "0.1234567890123456789",
    "9007199254740993.0", "1.7976931348623157e308", "4.9e-324", "2.2250738585072014e-308", "1e-400",
    "0.30000000000000004", "123456789012345678e-5", "1e280", "1e281", "1e-300", "1e-301", "5e-1",
    "0." + "0" * 30 + "1", "1" + "0" * 30, "8.41e21", "179769313486231580793e289", "1e99999999999",
    "1e-99999999999999999999", "0e99999999999999999999",
]  # fmt: skip
SLIPS = [
    "", '"', "\\", ",", ":", "{", "}", "[", "]", "1", "-", ".", "e", "+", " ", "\n", "n", "\t",
    "\x1e", "}{", "\x00", "\ufeff", "é", "\\u00e9", "\\ud83d", "\\ude00", "tru", "nulls",
]  # fmt: skip


class Spelt(str):
    """A number as it stands in the text."""

    __slots__ = ()


def documents() -> st.SearchStrategy[Any]:
    leaf = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(NUMBERS),
        st.sampled_from(TEXTS),
        st.text(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(SPELT).map(Spelt),
        st.decimals(allow_nan=False, allow_infinity=False).map(lambda d: Spelt(str(d).lower())),
    )
    keys = st.sampled_from(KEYS) | st.text(max_size=3)
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=12,
    )


def spell(value: Any, draw: Any) -> str:
    """Return JSON text with white space, escapes and repeated keys here and there."""
    gap = lambda: draw(st.sampled_from(["", "", "", " ", "\n\t", "\r "]))
    if isinstance(value, dict):
        pairs = [*value.items()]
        if pairs and draw(st.integers(0, 20)) == 0:
            pairs.append(pairs[0])
        inside = [f"{gap()}{_quoted(k, draw)}{gap()}:{spell(v, draw)}" for k, v in pairs]
        return gap() + "{" + (",".join(inside) or gap()) + gap() + "}" + gap()
    if isinstance(value, list):
        return gap() + "[" + ",".join(spell(v, draw) for v in value) + gap() + "]" + gap()
    if isinstance(value, Spelt):
        return str(value)
    return gap() + (_quoted(value, draw) if isinstance(value, str) else json.dumps(value)) + gap()


def _quoted(text: str, draw: Any) -> str:
    way = draw(st.integers(0, 5))
    if way == 0:
        units = text.encode("utf-16-be").hex(" ", 2).split()
        return '"' + "".join(f"\\u{unit}" for unit in units) + '"'
    return json.dumps(text, ensure_ascii=way == 1).replace("/", "\\/" if way == 2 else "/")


def said(fields: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(("num_low", "num_high", "str_low", "str_high")), **fields}


def check(texts: list[bytes], array: pa.Array | None = None) -> None:
    """Compare both ways on the same texts, refusals included."""
    try:
        slow = fold_texts(texts)
    except ValueError:
        slow = None
    if array is None:
        array = pa.Array.from_buffers(
            pa.string(), len(texts), pa.array(texts, pa.binary()).buffers()
        )
    assert scanned([array]) == (slow and {path: said(fields) for path, fields in slow.items()})


def scanned(arrays: list[pa.Array]) -> dict[Path, dict[str, Any]] | None:
    scanner = Scanner()
    try:
        for array in arrays:
            scanner.add(array)
        (found,) = scanner.finish()
    except ValueError:
        return None
    return {path: said(fields) for path, fields in found.items()}


@given(st.lists(documents(), max_size=6), st.data())
def test_any_document_is_read_alike_however_it_is_spelt(values: list[Any], data: Any) -> None:
    check([spell(value, data.draw).encode() for value in values])


@given(st.lists(st.sampled_from(SPELT), min_size=1, max_size=4))
def test_numbers_are_rounded_alike(numbers: list[str]) -> None:
    check([f'{{"n":{number},"l":[{number}]}}'.encode() for number in numbers])


@given(st.lists(documents(), min_size=1, max_size=3), st.integers(0), st.sampled_from(SLIPS))
@example(["x"], 1, "\x1f")
def test_a_slip_in_a_text_is_not_read_over(values: list[Any], place: int, slip: str) -> None:
    whole = "\x1e".join(canonical(plain(v)) for v in values)  # one slip anywhere, borders included
    place %= len(whole)
    changed = whole[:place] + slip + whole[place + 1 :]
    check([text.encode() for text in changed.split("\x1e")])


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


@given(st.lists(st.binary(max_size=12) | st.text('{}[]",:1e.-+ntaf\\u0 ').map(str.encode)))
@example([b'"\xff"'])
@example([b'"\xed\xa0\x80"'])  # a surrogate
@example([b'{"\xc0\xaf":1}'])
@example([b'"\xc3', b'\xa9"'])
def test_bytes_that_are_no_text_are_refused_alike(texts: list[bytes]) -> None:
    check(texts)
    for text in texts:
        check([text])


@given(st.lists(documents(), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_slices_and_pieces_are_the_whole(values: list[Any], start: int, cut: int) -> None:
    texts = [canonical(plain(v)).encode() for v in values]
    whole = pa.array(texts, pa.binary()).cast(pa.large_string() if cut % 2 else pa.string())

    check(texts[start:], whole.slice(start))
    assert scanned([whole.slice(0, cut), whole.slice(cut)]) == scanned([whole])


WAYS = st.lists(st.sampled_from("abcdxyz"), min_size=1, max_size=3).map(tuple)


@given(
    wide=st.integers(200, 330),
    ways=st.lists(WAYS, max_size=40),
    classes=st.lists(
        st.sets(st.sampled_from("abcdxyz") | st.integers(0, 330).map(lambda n: f"k{n}")), max_size=2
    ),
    behind=st.sets(st.integers(0, 330).map(lambda n: (f"k{n}",)), max_size=200),
)
def test_the_paths_that_come_first_and_last_are_those_of_the_twin(
    wide: int, ways: list[Path], classes: list[set[str]], behind: set[Path]
) -> None:
    document: dict[str, Any] = {f"k{n}": n for n in range(wide)}
    for way in ways:
        here = document
        for key in way[:-1]:
            here = here.setdefault(key, {})
        here.setdefault(way[-1], {"n": len(way)})
    text = canonical(document).encode()

    first = [lambda path, wanted=wanted: path[-1] in wanted for wanted in classes]
    scanner = Scanner(first=first, last=behind)
    scanner.add(pa.array([text], pa.binary()).cast(pa.string()))
    (found,) = scanner.finish()
    expected = fold_texts([text], first, behind)
    assert scanner.paths == len(all_paths([parse(text)]))
    assert {path: said(fields) for path, fields in found.items()} == {
        path: said(fields) for path, fields in expected.items()
    }
    assert len(found) <= MAX_PATHS


def test_trees_that_outgrow_their_arrays_keep_what_they_hold() -> None:
    rng = range(3000)
    texts = [
        canonical({f"k{i % 700}": i, "t": {f"x{i % 1500}": "v" * (i % 130)}, "n": i + 0.1}).encode()
        for i in rng
    ]
    texts.append(canonical({"s": "ab" * 5000, "long": [{f"j{i}": 2**70 for i in rng}]}).encode())

    check(texts)


def test_a_tree_too_large_is_begun_anew_and_nothing_is_lost() -> None:
    texts = pa.array([canonical({"n": i, f"k{i}": None}) for i in range(2000)])
    scanner = Scanner(max_nodes=800)

    scanner.add(texts)
    parts = scanner.finish()

    assert len(parts) > 2
    assert scanner.paths is None  # nobody knows which are the same ones
    assert sum(part[("n",)]["integers"] for part in parts) == 2000
    assert max(part[("n",)]["num_high"] for part in parts) == 1999


def test_many_odd_numbers_leave_their_extremes() -> None:
    numbers = [b"%d" % (2**64 - 5000 + i) for i in range(3000)] + [b"1e-310"]

    check([b'{"n":%s}' % number for number in numbers])


@pytest.mark.parametrize("text", ["[" * 399 + "]" * 399, "[" * 400 + "]" * 400, '{"a":' * 399])
def test_nesting_has_the_same_limit(text: str) -> None:
    check([text.encode()])


@pytest.mark.parametrize("size", [39_999, 40_000])
def test_names_have_the_same_limit(size: int) -> None:
    check([b'{"' + b"k" * size + b'":1}'])
    check([b'{"\\u0041' + b"k" * (size - 1) + b'":1}'])


@pytest.mark.parametrize("size", [899, 900])
def test_numbers_have_the_same_limit(size: int) -> None:
    check([b"1." + b"1" * (size - 2)])


def test_offsets_that_leave_the_text_are_refused() -> None:
    for offsets in ([0, 5, 3], [0, -1, 3]):  # Arrow looks at the first and the last
        borders = pa.array(offsets, pa.int32()).buffers()[1]
        texts = pa.Array.from_buffers(pa.string(), 2, [None, borders, pa.py_buffer(b"123")])
        assert scanned([texts]) is None


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_scanner_stays_inside_its_arrays(variable: str, tmp_path: Any) -> None:
    """As Python, or compiled with checks, an index beyond an array is an error."""
    tests = ["read_alike_however", "slip", "no_text", "rounded_alike", "limit"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    command += ["-W", "ignore::RuntimeWarning", "-k", " or ".join(tests)]
    environment = {**os.environ, variable: "1", "NUMBA_CACHE_DIR": str(tmp_path), "CI": "1"}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 40])
@pytest.mark.parametrize("text", [b"12345", b'"a"', b'{"key":1}', b'{"a key of some length":"x"}'])
def test_a_text_ends_where_its_row_ends(text: bytes, rows: int) -> None:
    """Words reach into the rows behind, and the last rows are read from a copy."""
    check([text] * rows)
    check([*[text] * rows, text[:-1], text])


def test_a_bound_met_again_changes_nothing_and_a_smaller_one_does() -> None:
    words = ["", "\x00", "a", "a\x00", "abcdefgh", "abcdefgi", "abcdefgh\x00", "b", "é" * 60]
    for first in words:
        check([json.dumps(word).encode() for word in (first, first, *words, *reversed(words))])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
@example([1e-300, 5e-324, -5e-324, 1.7976931348623157e308])
def test_reals_near_a_bound_are_read_exactly(values: list[float]) -> None:
    near = [nextafter(value, way) for value in values for way in (-inf, inf)]
    check([repr(value).encode() for value in (*values, *near) if abs(value) < inf])


@given(st.integers(1, 2**63 - 1), st.integers(LEAST, MOST - 19))
def test_what_a_number_is_about_is_well_inside_the_margin(digits: int, exponent: int) -> None:
    exact = digits * Fraction(10) ** exponent
    assert abs(Fraction(about(digits, exponent)) - exact) <= exact * Fraction(MARGIN) / 2
