"""Functions of single texts, as `strata.expr.functions.exact_texts` evaluates them."""

from collections.abc import Iterator

_TEXTS = ("s", "s2", "stamp", "get_json_object(js, '$.s')", "get_json_object(js, '$.m')")


def points() -> Iterator[tuple[str, str]]:
    """Yield calls whose result is exact for each text by itself."""
    for x in _TEXTS:
        yield from _pieces(x)
        yield from _changed(x)
        yield from _splits(x)
        yield from _expressions(x)
        yield from _read(x)
    for number in ("i", "l", "sh"):
        yield "cast", f"cast({number} as string)"
        yield "concat", f"concat('n', cast({number} as string))"


def _pieces(x: str) -> Iterator[tuple[str, str]]:
    for start, length in ((1, 2), (2, 1), (-2, 5), (-1, 1), (0, 3), (-5, 3), (3, 0), (-3, 2)):
        yield "substring", f"substr({x}, {start}, {length})"
    yield "substring", f"right({x}, 2)"
    yield "substring", f"substr({x}, -3)"
    for pattern in ("%b", "%b%", "_b%", "a\\\\%%", "%-%-%", "%0_", "__", "%%"):
        yield "like", f"{x} like '{pattern}'"
    yield "like", f"{x} ilike '%AB%'"
    for part in ("'b'", "'a'", "''", "'-'", "'\\uffff'", "'5'"):
        yield "contains", f"contains({x}, {part})"
        yield "ends_with", f"endswith({x}, {part})"
        yield "starts_with", f"startswith({x}, {part})"
        yield "string_instr", f"instr({x}, {part})"
        yield "string_locate", f"locate({part}, {x})"
        yield "string_locate", f"position({part} in {x})"
        yield "string_replace", f"replace({x}, {part}, 'xy')"
        yield "string_trim", f"trim(both {part} from {x})"
        yield "string_trim_left", f"trim(leading {part} from {x})"
        yield "string_trim_right", f"trim(trailing {part} from {x})"
        for count in (1, 2, -1, -2):
            yield "substring_index", f"substring_index({x}, {part}, {count})"
            yield "split_part", f"split_part({x}, {part}, {count})"
    yield "string_locate", f"locate('b', {x}, 2)"


def _changed(x: str) -> Iterator[tuple[str, str]]:
    for name, function in (
        ("upper", "upper"),
        ("lower", "lower"),
        ("init_cap", "initcap"),
        ("length", "length"),
        ("octet_length", "octet_length"),
        ("bit_length", "bit_length"),
        ("ascii", "ascii"),
        ("reverse", "reverse"),
        ("string_trim", "trim"),
        ("string_trim_left", "ltrim"),
        ("string_trim_right", "rtrim"),
    ):
        yield name, f"{function}({x})"
    yield "init_cap", f"initcap(concat('ab ', {x}, ' cD  e'))"
    yield "lower", f"lower(concat('TITI-', {x}, '-ABCDEFGHIJKLMNOPQRSTUVWXYZ'))"
    yield "concat", f"concat({x}, '-', {x})"
    yield "concat_ws", f"concat_ws('-', {x}, 'b', s2)"
    yield "concat_ws", f"concat_ws({x}, 'a', 'b')"
    yield "string_translate", f"translate({x}, 'ab-', 'xy')"
    yield "string_translate", f"translate({x}, 'aab5', 'b')"


def _splits(x: str) -> Iterator[tuple[str, str]]:
    for pattern in ("-", " ", "a", "ab", "\\\\.", "b-"):
        for limit in (-1, 0, 2):
            yield "string_split", f"get(split({x}, '{pattern}', {limit}), 0)"
            yield "string_split", f"get(split({x}, '{pattern}', {limit}), 1)"
            yield "string_split", f"size(split({x}, '{pattern}', {limit}))"
        yield "get_array_item", f"split({x}, '{pattern}')[1]"
        yield "element_at", f"element_at(split({x}, '{pattern}'), 2)"
        yield "array_contains", f"array_contains(split({x}, '{pattern}'), 'b')"


def _expressions(x: str) -> Iterator[tuple[str, str]]:
    for pattern in (
        "^a",
        "b$",
        "a|b",
        "[0-9]+",
        "^[a-z]+$",
        "(a)(b)?",
        "\\\\d-\\\\d",
        "[^a]",
        "a.?b",
        "^$",
        "k[0-9]|-",
        "x*b",
    ):
        yield "rlike", f"{x} rlike '{pattern}'"
        yield "reg_exp_extract", f"regexp_extract({x}, '{pattern}', 0)"
        yield "reg_exp_replace", f"regexp_replace({x}, '{pattern}', 'x')"
    yield "reg_exp_extract", f"regexp_extract({x}, '([a-z])([0-9])?', 2)"


def _read(x: str) -> Iterator[tuple[str, str]]:
    for kind in (
        "int",
        "bigint",
        "smallint",
        "double",
        "decimal(10,2)",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
        "float",
    ):
        yield "cast", f"cast({x} as {kind})"
        yield "cast", f"try_cast({x} as {kind})"
        yield "cast", f"try_cast(substr({x}, 1, 10) as {kind})"


def paths() -> Iterator[tuple[str, str]]:
    """Yield paths of JSON with an index, and dates made of fields."""
    for path in (
        "$.a[0]",
        "$.a[1].x",
        "$.o[0]",
        "$.s[0]",
        "$.none[0]",
        "$.m[0]",
        "$[\\'a\\'][1]",
        "$.a[7]",
    ):
        yield "get_json_object", f"get_json_object(js, '{path}')"
        yield "get_json_object", f"get_json_object(js, '{path}') is null"
        yield "get_json_object", f"get_json_object(get_json_object(js, '$.doc'), '{path}')"
    for fields in (
        "year(day), month(day), 1",
        "year(ts), month(ts), 28",
        "year(day), month(day2), 31",
        "year(day), 2, day(day)",
        "year(day), month(day), 30",
        "1999, month(day), day(day)",
        "year(day), i, 5",
        "year(day), 12, sh",
    ):
        yield "make_date", f"make_date({fields})"
    for x in ("s", "stamp", "substr(stamp, 1, 8)", "get_json_object(js, '$.s')"):
        for pair in ("'-', '/'", "'a', 'z'", "'2', '~'", "'é', 'e'", "'k', 'é'"):
            yield "string_replace", f"replace({x}, {pair})"
            yield "string_translate", f"translate({x}, {pair})"
        yield "string_translate", f"translate({x}, 'ka2-', 'xyz/')"
        yield "string_translate", f"translate({x}, 'aa', 'bc')"
