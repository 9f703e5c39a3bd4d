"""Expressions over one wide table, at least one for every function of the registry.

The columns are those of `tests/spark/ranges.py`. A signature is checked with each session
setting; the front end translates it, so its mapping is checked as well.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.spark.signatures_lists import arrays, lambdas, lists, structs
from tests.spark.signatures_members import members
from tests.spark.signatures_pieces import intervals, pieces
from tests.spark.signatures_points import paths, points
from tests.spark.signatures_times import dates, formats, timestamps

INTEGERS = ("sh", "i", "i2", "l", "l2")
NUMBERS = (*INTEGERS, "f", "d", "dec", "wide")
_PAIRS = (("i", "i2"), ("l", "l2"), ("d", "d2"), ("f", "f2"), ("dec", "dec2"), ("wide", "wide2"))
_COMPARED = (*_PAIRS, ("day", "day2"), ("ts", "ts2"), ("tn", "tn2"), ("s", "s2"), ("b", "b2"))

_CONSTANTS = {
    "i": "5",
    "l": "-3L",
    "d": "0.5D",
    "f": "float(2)",
    "dec": "1.25BD",
    "day": "date'2024-02-29'",
    "ts": "timestamp'2024-03-10 07:00:00'",
    "tn": "timestamp_ntz'2024-03-10 02:30:00'",
    "s": "'ab'",
    "b": "true",
}


def _comparisons() -> Iterator[tuple[str, str]]:
    names = {
        "equal_to": "=",
        "equal_null_safe": "<=>",
        "less_than": "<",
        "less_than_or_equal": "<=",
        "greater_than": ">",
        "greater_than_or_equal": ">=",
    }
    for name, sign in names.items():
        for a, b in _COMPARED:
            yield name, f"{a} {sign} {b}"
        for a, constant in _CONSTANTS.items():
            yield name, f"{a} {sign} {constant}"
        yield name, f"d {sign} double('NaN')"
        yield name, f"get_json_object(js, '$.s') {sign} 'k'"
        yield name, f"get_json_object(js, '$.n') {sign} '10'"
        yield name, f"js {sign} '[1]'"
    yield "in", "i in (1, 5, -7)"
    yield "in", "i in (1, 5, null)"
    yield "in", "i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, -2147483648)"
    yield "in", "l in (i, l2, 7)"
    yield "in", "d in (0D, -0D, double('NaN'))"
    yield "in", "s in ('ab', 'b', s2)"
    yield "in", "dec in (1.25, 3)"
    yield "in", "day in (date'2024-02-29', day2)"


def _logic() -> Iterator[tuple[str, str]]:
    yield "and", "b and b2"
    yield "and", "i > 0 and l / i > 2 and b"
    yield "and", "i = 0 and 1 / i > 2"
    yield "or", "b or b2"
    yield "or", "i = 0 or 1 / i > 2"
    yield "or", "b or 1 / i > 2"
    yield "not", "not b"
    yield "not", "not (i < i2)"
    for column in (*NUMBERS, "day", "ts", "s", "b", "js"):
        yield "is_null", f"{column} is null"
        yield "is_not_null", f"{column} is not null"
    yield "is_null", "get_json_object(js, '$.n') is null"
    yield "is_not_null", "i + i2 is not null"
    yield "is_nan", "isnan(d)"
    yield "is_nan", "isnan(f)"
    for a, b in _COMPARED:
        yield "if", f"if({a} < {b}, {a}, {b})"
        yield "case_when", f"case when {a} is null then {b} when {a} > {b} then {a} end"
        yield "coalesce", f"coalesce({a}, {b})"
    for a, b in (*_PAIRS, ("s", "s2"), ("day", "day2"), ("ts", "ts2"), ("b", "b2")):
        yield "greatest", f"greatest({a}, {b})"
        yield "least", f"least({a}, {b})"
    yield "greatest", "greatest(i, i2, 3)"
    yield "least", "least(d, d2, 0D)"
    yield "if", "if(b, i, i2)"
    yield "if", "if(b and b2, get_json_object(js, '$.s'), s)"
    yield "case_when", "case when b then i when i > 0 then i2 else 7 end"
    yield "case_when", "case when i = 0 then 0 else 10 div i end"
    yield "case_when", "case when b then i else 10 div i2 end"
    yield "coalesce", "coalesce(b, b2, false)"
    yield "coalesce", "coalesce(get_json_object(js, '$.n'), s)"


def _arithmetic() -> Iterator[tuple[str, str]]:
    signs = {
        "add": "+",
        "subtract": "-",
        "multiply": "*",
        "divide": "/",
        "remainder": "%",
    }
    for name, sign in signs.items():
        for a, b in (*_PAIRS, ("sh", "sh2"), ("sh", "i"), ("i", "l"), ("i", "d"), ("dec", "i")):
            yield name, f"{a} {sign} {b}"
        for a in NUMBERS:
            yield name, f"{a} {sign} 3"
            yield name, f"-7 {sign} {a}"
    for a, b in (("i", "i2"), ("l", "l2"), ("dec", "dec2"), ("d", "d2")):
        yield "pmod", f"pmod({a}, {b})"
        yield "pmod", f"pmod({a}, 7)"
        yield "pmod", f"pmod({a}, -7)"
    yield "pmod", "pmod(sh, sh2)"
    for a, b in (("i", "i2"), ("l", "l2"), ("l", "3"), ("dec", "dec2")):
        yield "integral_divide", f"{a} div {b}"
        yield "integral_divide", f"try_divide({a}, {b})"
    for a, b in (("i", "i2"), ("l", "l2"), ("d", "d2"), ("dec", "dec2")):
        yield "add", f"try_add({a}, {b})"
        yield "subtract", f"try_subtract({a}, {b})"
        yield "multiply", f"try_multiply({a}, {b})"
        yield "divide", f"try_divide({a}, {b})"
    for a in NUMBERS:
        yield "unary_minus", f"-{a}"
        yield "abs", f"abs({a})"
        yield "floor", f"floor({a})"
        yield "ceil", f"ceil({a})"
        for scale in (0, 1, 2, -1, -2):
            yield "round", f"round({a}, {scale})"
    yield "signum", "signum(d)"
    yield "signum", "signum(i)"


def _casts() -> Iterator[tuple[str, str]]:
    targets = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)")
    for a in (*NUMBERS, "b"):
        for target in (*targets, "decimal(38,10)", "decimal(3,1)", "string", "boolean"):
            yield "cast", f"cast({a} as {target})"
    yield from _casts_of_times()
    yield from _casts_of_text()


def _casts_of_times() -> Iterator[tuple[str, str]]:
    for a in ("i", "l", "d", "dec"):
        yield "cast", f"try_cast({a} as tinyint)"
        yield "cast", f"try_cast({a} as decimal(4,1))"
    for a in ("day", "ts", "tn"):
        for target in ("date", "timestamp", "timestamp_ntz", "string"):
            yield "cast", f"cast({a} as {target})"
    for target in ("bigint", "int", "double"):
        yield "cast", f"cast(ts as {target})"
    for a in ("i", "l", "sh", "d"):
        yield "cast", f"cast({a} as timestamp)"
        yield "cast", f"try_cast({a} as timestamp)"
    yield "cast", "cast(cast(d as float) as timestamp)"
    yield "cast", "cast(l / 1000 as timestamp)"


def _casts_of_text() -> Iterator[tuple[str, str]]:
    paths = ("n", "s", "m", "b", "a", "o", "o.x", "big", "none")
    targets = ("int", "bigint", "double", "float", "decimal(12,3)", "boolean", "date")
    for number, path in enumerate(paths):
        for place, target in enumerate(targets):
            verb = "cast" if (number + place) % 2 else "try_cast"
            yield "cast", f"{verb}(get_json_object(js, '$.{path}') as {target})"
    for target in ("int", "double", "date", "timestamp", "boolean", "binary"):
        yield "cast", f"cast(s as {target})"
    for target in ("date", "timestamp", "timestamp_ntz"):
        for text in ("s", "stamp", "get_json_object(js, '$.s')"):
            yield "cast", f"try_cast({text} as {target})"
        for verb in ("cast", "try_cast"):
            yield "cast", f"{verb}(when as {target})"
            yield "cast", f"{verb}(get_json_object(js, '$.when') as {target})"
    narrow = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date")
    for target in (*narrow, "decimal(4,1)", "decimal(12,3)", "decimal(18,0)", "decimal(38,10)"):
        for verb in ("cast", "try_cast"):
            yield "cast", f"{verb}(fig as {target})"
            yield "cast", f"{verb}(get_json_object(js, '$.fig') as {target})"


def _texts() -> Iterator[tuple[str, str]]:
    for prefix in ("a", "ab", "", "\uffff", "é"):
        yield "starts_with", f"startswith(s, '{prefix}')"
        yield "like", f"s like '{prefix}%'"
        yield "like", f"s like '{prefix}'"
        yield "like", f"s like '{prefix}_%b'"
        yield "concat", f"concat('{prefix}', s)"
    yield "starts_with", "startswith(s, s2)"
    yield "like", "s like s2"
    yield "like", "s like 'a!%%' escape '!'"
    yield "like", "s like 'a!' escape '!'"
    yield "like", "s like '%!' escape '!'"
    yield "like", "s like 'a!b%' escape '!'"
    yield "like", "get_json_object(js, '$.s') like 'k%'"
    yield "ends_with", "endswith(s, 'b')"
    yield "contains", "contains(s, 'b')"
    for count in (0, 1, 2, -1, 100):
        yield "substring", f"substring(s, 1, {count})"
        yield "substring", f"substring(s, 0, {count})"
    yield "substring", "left(s, 2)"
    yield "substring", "substring(s, 2, 1)"
    yield "substring", "substring(s, 1, i)"
    yield "concat", "concat(s, 'x')"
    yield "concat", "concat('a', s, s2)"
    yield "concat", "concat(s, s2)"
    yield "upper", "upper(s)"
    yield "lower", "lower(s)"
    yield "string_trim", "trim(s)"
    yield "length", "length(s)"
    for path in (
        "$.n", "$.s", "$.m", "$.b", "$.a", "$.o", "$.o.x", "$['o']['x']", "$.o.x.y", "$.none",
        "$.big", "$.a[0]", "$.a.x", "$", "$.*", "n", "$.doc", "$.['n']", "$. n",
    ):  # fmt: skip
        quoted = path.replace("'", "\\'")
        yield "get_json_object", f"get_json_object(js, '{quoted}')"
    yield "get_json_object", "get_json_object(get_json_object(js, '$.o'), '$.x')"
    yield "get_json_object", "get_json_object(get_json_object(js, '$.doc'), '$.n')"
    yield "get_json_object", "get_json_object(s, '$.n')"
    yield "get_struct_field", "named_struct('x', i).x"
    for field in ("i", "inner.d", "inner.s", "day"):
        yield "get_struct_field", f"st.{field}"
    yield "get_struct_field", "st.i + 1"
    yield "get_struct_field", "st.inner.s = 'a'"
    yield "get_struct_field", "coalesce(st.inner.d, 0.5D)"
    yield "get_struct_field", "st.inner is null"
    yield "get_struct_field", "if(b, st, named_struct('i', 1, 'inner', st.inner, 'day', day)).i"


def _maths() -> Iterator[tuple[str, str]]:
    names = {
        "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "expm1": "expm1", "rint": "rint",
        "to_degrees": "degrees", "to_radians": "radians", "atan": "atan", "tanh": "tanh",
        "log": "ln", "log10": "log10", "log2": "log2", "log1p": "log1p", "sin": "sin",
        "cos": "cos",
    }  # fmt: skip
    for name, function in names.items():
        for argument in ("d", "f") if name in ("log", "sqrt") else ("d",):
            yield name, f"{function}({argument})"
    for base in ("2D", "10D", "1.5D", "0.5D", "1D", "-1D"):
        yield "logarithm", f"log({base}, d)"
    yield "logarithm", "log(d, d2)"
    for power in ("2D", "3D", "0.5D", "0D", "-1D", "1e300D"):
        yield "pow", f"pow(d, {power})"
        yield "pow", f"power(abs(i), {power})"
    yield "pow", "pow(d, d2)"
    yield "hypot", "hypot(d, d2)"
    yield "nanvl", "nanvl(d, d2)"
    yield "nanvl", "nanvl(d, 0D)"
    yield "nanvl", "nanvl(f, f2)"
    yield "nanvl", "nanvl(d, 1D / i)"
    yield "nanvl", "nanvl(d, 1D / (i - i))"
    yield "multiply", "d * double('Infinity')"
    yield "multiply", "double('-Infinity') * (d - 0.5D)"
    for a in NUMBERS:
        for scale in (0, 1, -2):
            yield "bround", f"bround({a}, {scale})"


def _bits() -> Iterator[tuple[str, str]]:
    for a, b in (("i", "i2"), ("l", "l2"), ("i", "7"), ("l", "-8L"), ("sh", "sh2"), ("i", "l")):
        yield "bitwise_and", f"{a} & {b}"
        yield "bitwise_or", f"{a} | {b}"
        yield "bitwise_xor", f"{a} ^ {b}"
    for a in INTEGERS:
        yield "bitwise_not", f"~{a}"
        yield "bit_count", f"bit_count({a})"
    yield "bit_count", "bit_count(b)"
    for a in ("i", "l", "sh"):
        for places in (0, 1, 33, 63):
            yield "shift_left", f"shiftleft({a}, {places})"
            yield "shift_right", f"shiftright({a}, {places})"
            yield "shift_right_unsigned", f"shiftrightunsigned({a}, {places})"
        for name in ("left", "right", "rightunsigned"):
            yield f"shift_{name.replace('tun', 't_un')}", f"shift{name}({a}, i2)"


def _totals() -> Iterator[tuple[str, str]]:
    for part in ("", "'ab' from "):
        yield "string_trim", f"trim({part}s)"
        yield "string_trim_left", f"trim(leading {part}s)" if part else "ltrim(s)"
        yield "string_trim_right", f"trim(trailing {part}s)" if part else "rtrim(s)"
    unary = {
        "init_cap": "initcap",
        "reverse": "reverse",
        "hex": "hex",
        "sound_ex": "soundex",
        "md5": "md5",
        "sha1": "sha1",
        "crc32": "crc32",
        "ascii": "ascii",
        "octet_length": "octet_length",
    }
    for name, function in unary.items():
        yield name, f"{function}(s)"
        yield name, f"{function}(get_json_object(js, '$.s'))"
    yield "hex", "hex(l)"
    for name in ("string_replace", "string_translate"):
        function = name.removeprefix("string_")
        yield name, f"{function}(s, 'a', 'b')"
        yield name, f"{function}(s, s2, 'b')"
    yield "substring_index", "substring_index(s, 'a', 1)"
    yield "substring_index", "substring_index(s, 'b', i)"
    for name in ("lpad", "rpad"):
        for length in ("3", "-1", "0", "sh"):
            yield f"string_{name}", f"{name}(s, {length}, 'xy')"
        yield f"string_{name}", f"{name}(s, 4)"
    for bits in (0, 224, 256, 384, 512, 7):
        yield "sha2", f"sha2(s, {bits})"
    yield "sha2", "sha2(s, i)"
    for other in ("s2", "'a'", "null"):
        yield "string_instr", f"instr(s, {other})"
        yield "find_in_set", f"find_in_set(s, {other})"
        yield "levenshtein", f"levenshtein(s, {other})"


def _hashes() -> Iterator[tuple[str, str]]:
    for name, function in (("murmur3_hash", "hash"), ("xx_hash64", "xxhash64")):
        yield name, f"{function}(s, i, d)"
        yield name, f"pmod({function}(l), 8)"
    for pattern in ("^a", "^ab?", "^ab*c", "^a|b", "b$", "^(a|b)+$", "^a{0}b", "(?i)^A", "^A", "[",
                    "^é", "^a.", ""):  # fmt: skip
        yield "rlike", f"s rlike '{pattern}'"
    yield "rlike", "rlike(get_json_object(js, '$.s'), '^k1')"
    yield "rlike", "s rlike s2"
    yield "like", "s ilike 'A%'"
    yield "like", "s ilike 'A!%%' escape '!'"
    yield "like", "s ilike s2"
    yield "like", "s like any ('a%', 'b%')"
    yield "like", "s like all ('a%', '%b')"
    yield "like", "s not like any ('a%', 'b')"
    yield "like", "s not like all ('a%', 'b')"
    yield "starts_with", "startswith(stamp, '2024-0')"


def _variants() -> Iterator[tuple[str, str]]:
    paths = ("$.n", "$.s", "$.m", "$.b", "$.a", "$.o", "$.o.x", "$.none", "$.big", "$.a[0]", "$")
    targets = ("int", "bigint", "tinyint", "double", "float", "string", "boolean", "decimal(12,3)",
               "date", "timestamp")  # fmt: skip
    for number, path in enumerate(paths):
        document = "try_parse_json(js)" if number % 2 else "parse_json(js)"
        found = f"variant_get({document}, '{path}')"
        yield "variant_get", f"{found} is null"
        yield "is_variant_null", f"is_variant_null({found})"
        for target in (targets[number % 5], targets[number % 5 + 5]):
            yield "variant_get", f"variant_get({document}, '{path}', '{target}')"
            yield "variant_get", f"try_variant_get({document}, '{path}', '{target}')"
            yield "cast", f"cast({found} as {target})"
            yield "cast", f"try_cast({found} as {target})"
    for target in targets:
        yield "variant_get", f"try_variant_get(try_parse_json(js), '$.n', '{target}')"
        yield "variant_get", f"try_variant_get(try_parse_json(js), '$.m', '{target}')"
    for document in ("parse_json(js)", "try_parse_json(js)", "try_parse_json(s)"):
        yield "parse_json", f"{document} is not null"
        yield "parse_json", f"is_variant_null({document})"
    for target in targets:
        yield "variant_get", f"variant_get(parse_json(js), '$.fig', '{target}')"
        yield "variant_get", f"try_variant_get(parse_json(js), '$.when', '{target}')"
        yield "cast", f"parse_json(js):fig::{target}"
    for target in ("date", "timestamp", "timestamp_ntz"):
        yield "variant_get", f"variant_get(parse_json(js), '$.when', '{target}')"
        yield "cast", f"parse_json(js):when::{target}"
    yield "parse_json", "parse_json(js):o.x::int"
    yield "parse_json", "parse_json(get_json_object(js, '$.doc')):n::int"
    yield "parse_json", "if(b, parse_json(js), try_parse_json(s)):n::int"
    schemas = {
        "n int, s string": ("n", "s"),
        "n bigint, b boolean, m string": ("n", "b", "m"),
        "n double, o struct<x: smallint, y: string>": ("n", "o.x", "o.y", "o"),
        "big decimal(12,3), a string, n date": ("big", "a", "n"),
        "n float, none int, `o` string": ("n", "none", "o"),
        "a array<int>, doc string": ("a[0]", "doc"),
        "_corrupt_record string, n int": ("n", "_corrupt_record"),
    }
    for schema, names in schemas.items():
        for name in names:
            yield "from_json", f"from_json(js, '{schema}').{name}"
    yield "from_json", "from_json(s, 'n int').n"
    yield "from_json", "from_json(js, 'n int') is null"
    yield "from_json", "from_json(js, 'n int', map('mode', 'FAILFAST')).n"
    yield "from_json", "from_json(js, 'map<string,string>')['n']"
    yield "json_array_length", "json_array_length(js)"
    yield "json_array_length", "json_array_length(get_json_object(js, '$.a'))"


def signatures() -> Mapping[str, tuple[str, ...]]:
    """Return the expressions of each registry function."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for subject in (
        _comparisons, _logic, _arithmetic, _maths, _bits, _casts, dates, timestamps, formats,
        _texts, _totals, _hashes, _variants, lists, lambdas, arrays, structs,
        intervals, pieces, members, paths, points,
    ):  # fmt: skip
        for name, sql in subject():
            found[name][sql] = None
    return {name: tuple(texts) for name, texts in found.items()}
