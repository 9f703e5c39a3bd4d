"""Expressions of intervals and of pieces of texts: part of `tests/spark/signatures.py`."""

from collections.abc import Iterator

_DAY_TIME = ("ts - ts2", "tn - tn2", "make_dt_interval(sh, sh2, 0, 0)")
_YEAR_MONTH = ("make_ym_interval(sh, sh2)", "make_ym_interval(0, i)")


def intervals() -> Iterator[tuple[str, str]]:
    for args in ("i, i2, 0, 0", "sh, sh2, 5, 1.5", "0, 0, sh, sh2", "1, 2, 3, d", "i, 0, 0, 0"):
        yield "make_dt_interval", f"make_dt_interval({args})"
    yield "make_dt_interval", "ts + make_dt_interval(sh)"
    # Arrow has no such intervals: they are seen by what they are compared with, and taken apart.
    for args in ("sh, sh2", "i, i2", "i, 0", "0, i"):
        for other in ("'0-0'", "'8-3'", "'-83-4'", "'2000-0'"):
            interval = f"make_ym_interval({args})"
            yield "make_ym_interval", f"{interval} >= interval {other} year to month"
            yield "make_ym_interval", f"{interval} <= interval {other} year to month"
    yield "make_ym_interval", "day + make_ym_interval(0, sh)"
    for number in ("i", "sh", "-3", "d"):
        yield "multiply_dt_interval", f"(ts - ts2) * {number}"
        factors = ["make_ym_interval(sh, 0)"]
        if number != "-3":  # a constant product is folded
            yield "multiply_dt_interval", f"interval '1' hour * {number}"
            factors.append("interval '1-1' year to month")
        for factor in factors:
            yield "multiply_ym_interval", f"extract(year from {factor} * {number})"
            yield "multiply_ym_interval", f"{factor} * {number} < interval '8-3' year to month"
            yield "multiply_ym_interval", f"{factor} * {number} > interval '8-3' year to month"
    yield "multiply_dt_interval", "ts + interval '1' second * sh"
    yield from _parts()
    yield from _numbers()


def _parts() -> Iterator[tuple[str, str]]:
    for interval in _DAY_TIME:
        for part in ("hour", "minute", "second"):
            yield f"interval_{part}s", f"extract({part} from {interval})"
    for interval in _YEAR_MONTH:
        for part in ("year", "month"):
            yield f"interval_{part}s", f"extract({part} from {interval})"
    for pattern in ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "dd.MM.yyyy", "nonsense"):
        yield "unix_timestamp", f"unix_timestamp(stamp, '{pattern}')"
        yield "unix_timestamp", f"to_unix_timestamp(date_format(ts, '{pattern}'), '{pattern}')"
    yield "unix_timestamp", "unix_timestamp(stamp, s)"


def _numbers() -> Iterator[tuple[str, str]]:
    for edges in (
        "0D, 10D, 5",
        "-100D, 100D, 7",
        "10D, 0D, 5",
        "0D, 1e-300, 3",
        "d2, 10D, 5",
        "-1e308, 1e308, 4",
        "0D, 10D, l",
        "0D, 10D, 0",
    ):
        yield "width_bucket", f"width_bucket(d, {edges})"
    yield "width_bucket", "width_bucket(i, 0, 100, 10)"
    yield "width_bucket", "width_bucket(ts - ts2, interval '0' day, interval '9' day, 9)"
    for name in ("tan", "cot", "sec", "csc", "asin", "acos", "sinh", "cosh", "asinh", "acosh",
                 "atanh"):  # fmt: skip
        yield name, f"{name}(d)"
        yield name, f"{name}(i)"
    yield "atan2", "atan2(d, d2)"
    yield "atan2", "atan2(f, i)"
    for document in ("js", "s", "get_json_object(js, '$.o')"):
        yield "json_object_keys", f"json_object_keys({document})[0] is null"
        yield "json_object_keys", f"size(json_object_keys({document}))"


def pieces() -> Iterator[tuple[str, str]]:
    for text in ("s", "stamp", "get_json_object(js, '$.s')", "concat('iX', s)", "concat('xIy', s)"):
        for name in ("upper", "lower"):
            yield name, f"{name}({text})"
            yield name, f"{name}({text}) like 'a%'"
    yield "lower", "stamp ilike '2024%'"
    for delimiter in ("-", "b", "é", " ", "a%"):
        for text in ("s", "stamp"):
            yield "substring_index", f"substring_index({text}, '{delimiter}', 1)"
            yield "split_part", f"split_part({text}, '{delimiter}', 1)"
    yield from _matches()
    yield from _places()
    yield from _shared()
    for number in ("2", "-1", "0", "i"):
        yield "split_part", f"split_part(stamp, '-', {number})"
    yield "split_part", "split_part(s, s2, 1)"
    yield "substring_index", "substring_index(s, s2, 1)"
    yield "substring_index", "substring_index(s, 'a', -1)"


def _shared() -> Iterator[tuple[str, str]]:
    """Yield pieces of texts that may begin alike."""
    json = "get_json_object(js, '$.when')"
    for text in ("concat('a-b-', s)", "concat('é, x, ', s)", "stamp", "st.inner.s", "when", json):
        for delimiter in ("-", ", ", "--"):
            for number in ("1", "2", "3"):
                yield "string_split", f"get(split({text}, '{delimiter}'), {number})"
                yield "get_array_item", f"split({text}, '{delimiter}')[{number}]"
                yield "element_at", f"element_at(split({text}, '{delimiter}'), {number})"
                yield "split_part", f"split_part({text}, '{delimiter}', {number})"
                yield "substring_index", f"substring_index({text}, '{delimiter}', {number})"
            yield "string_split", f"size(split({text}, '{delimiter}'))"
            yield "string_split", f"array_contains(split({text}, '{delimiter}'), 'b')"


def _matches() -> Iterator[tuple[str, str]]:
    for pattern in ("-", "[-: ]", "", "(a|b)+", "[", "b"):
        yield "string_split", f"split(stamp, '{pattern}')[0]"
        yield "string_split", f"size(split(s, '{pattern}', 2))"
        yield "reg_exp_extract_all", f"regexp_count(s, '{pattern}')"
        yield "reg_exp_in_str", f"regexp_instr(s, '{pattern}')"
        yield "reg_exp_replace", f"regexp_replace(s, '{pattern}', 'x')"
    yield "string_split", "split(s, s2)[0]"
    yield "reg_exp_replace", "regexp_replace(s, 'a', '$2')"
    yield "reg_exp_replace", "regexp_replace(s, 'a', s2)"
    for group in ("0", "1", "2", "-1", "i"):
        yield "reg_exp_extract", f"regexp_extract(stamp, '([0-9]+)-', {group})"
        yield "reg_exp_extract_all", f"regexp_extract_all(stamp, '([0-9]+)-', {group})[0]"
    yield "reg_exp_extract", "regexp_substr(s, 'a')"


def _places() -> Iterator[tuple[str, str]]:
    for start in ("1", "2", "0", "i"):
        yield "string_locate", f"locate('a', s, {start})"
    yield "string_locate", "position('b', s)"
    yield "string_locate", "locate(s2, s)"
    for count in ("2", "0", "-1", "sh"):
        yield "string_repeat", f"repeat(s, {count})"
        yield "string_space", f"concat(s, space({count}))"
    yield "string_space", "space(sh)"
    yield "string_space", "space(nullif(sh, sh))"
    for number in ("i", "l", "sh"):
        yield "chr", f"chr({number})"
    yield "bit_length", "bit_length(s)"
    yield "bit_length", "bit_length(stamp)"
    for start in ("2", "-1", "sh"):
        yield "overlay", f"overlay(s placing 'xy' from {start})"
        yield "overlay", f"overlay(s placing s2 from {start} for 1)"
    for arguments in ("'-', s, s2", "s, s2, stamp", "'-', ls", "'-', s, ls, null", "s"):
        yield "concat_ws", f"concat_ws({arguments})"
