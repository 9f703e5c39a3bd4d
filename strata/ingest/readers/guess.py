"""Proposes column types, from the values or from the schema of a file."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.ingest.values.cast import NumberText, from_text
from strata.ingest.values.nested_arrow import LISTS
from strata.model.types import parse_type

ROWS: Final = 20_000  # of each file that a proposal is based on
UNKNOWN: Final = ""  # the type of nulls only
INTEGER: Final = re.compile(r"-?\d+")
NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")  # as Spark writes them among floats
MOST_DIGITS: Final = 38  # of a numeric with a precision
_AT_ONCE: Final = 1024  # texts that are read at once, to see whether a type fits
TRIED: Final = ("bool", "int64", "float64", "date", "timestamp", "timestamptz", "uuid")  # in order
NOT: Final = {  # texts that fit a type but were hardly meant so
    "bool": r"^\s*[01]\s*$",
    "int64": r"^\s*[+-]?0\d",  # 007 is not the number 7
    "float64": r"^\s*(?:[+-]?0\d|\+\d+\s*$)",  # nor is +4930 a number
    "uuid": r"^\s*[0-9a-fA-F]{32}\s*$",  # the digest of a file has as many digits
}
NUMBER_TYPES: Final = ("int64", "float64", "numeric", f"numeric({MOST_DIGITS},0)")
WHOLE: Final = f"numeric({MOST_DIGITS},0)"
LONG_INTEGERS: Final = "int64, some beyond float64"  # until all files are known
WHOLE_NUMBER: Final = r"^\s*-?\d+\s*$"
LONG_NUMBER: Final = r"^\s*[+-]?(?:\d\.?){16,}"  # a float64 may not hold it
FLOAT_DIGITS: Final = 17  # that programs write at most

Guess = tuple[str, bool]  # type, and whether there are nulls


def guess_texts(values: pa.Array) -> Guess:
    """Return the type of texts."""
    found = type_of_texts(values)
    if found == "int64" and not _float_holds(values.drop_null()):
        found = LONG_INTEGERS
    return found or UNKNOWN, found is None or bool(values.null_count)


def without_words(texts: pa.ChunkedArray, words: Collection[str]) -> pa.Array:
    """Return texts with these words replaced by null."""
    values = texts.combine_chunks().cast(pa.string())
    return pc.if_else(pc.is_in(values, pa.array(sorted(words), pa.string())), None, values)


def type_of_texts(values: pa.Array) -> str | None:
    """Return the first type that all texts can be read as, `string` if none, None without any."""
    some = values.drop_null()
    if not len(some):
        return None
    for name in TRIED:
        if name in NOT and pc.any(pc.match_substring_regex(some, NOT[name])).as_py():
            continue
        if _all_read(some, name):
            return _exact(some) if name == "float64" else name
    if pc.all(pc.match_substring_regex(some, r"^\s*[\[{]")).as_py() and _all_read(some, "jsonb"):
        return "jsonb"
    return "string"


def _exact(texts: pa.Array) -> str:
    """Return the type for texts that are floats: another one where numbers lose digits."""
    if not pc.all(pc.match_substring_regex(texts, WHOLE_NUMBER)).as_py() and _float_holds(texts):
        return "float64"
    return next((name for name in (WHOLE, "numeric") if _all_read(texts, name)), "string")


def _float_holds(texts: pa.Array) -> bool:
    """Return whether a float64 holds each long number among texts."""
    long = texts.filter(pc.match_substring_regex(texts, LONG_NUMBER)).to_pylist()
    return all(map(_is_held, long))


def _is_held(text: str) -> bool:
    """Return whether a number is that of a float64.

    So is each that has no more digits than programs write of one, unless it is written as an
    integer.
    """
    number = Decimal(text)
    if number == Decimal(float(text)):
        return True
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= FLOAT_DIGITS and not INTEGER.fullmatch(text.strip())


def _all_read(texts: pa.Array, name: str) -> bool:
    """Return whether all texts can be read as a type.

    Cost: texts behind the first few that cannot be read are not looked at.
    """
    kind, start, count = parse_type(name), 0, 1
    while start < len(texts):
        if len(from_text(texts.slice(start, count), kind).bad):
            return False
        start, count = start + count, min(4 * count, _AT_ONCE)
    return True


def guess_values(values: Sequence[object]) -> Guess:
    """Return the type of JSON values."""
    some = [value for value in values if value is not None]
    nulls = len(some) < len(values)
    kinds = {type(value) for value in some}
    if str in kinds and kinds & {int, float, NumberText}:
        kinds = {float if value in NO_NUMBERS else type(value) for value in some}
    if not some:
        return UNKNOWN, True
    if kinds == {bool}:
        return "bool", nulls
    if kinds == {int}:
        return _of_integers(some), nulls
    if kinds <= {int, float}:
        return "float64", nulls
    if kinds <= {int, float, NumberText}:
        return _of_numbers(some), nulls
    if kinds == {str}:
        found = type_of_texts(pa.array(some, pa.string()))
        # JSON has numbers of its own: text that looks like one was meant as text
        return (found if found in ("date", "timestamp", "timestamptz", "uuid") else "string"), nulls
    return "jsonb", nulls


def _of_numbers(some: Sequence[Any]) -> str:
    """Return the type that holds numbers when some are kept as text."""
    if all(type(value) is int or INTEGER.fullmatch(str(value)) for value in some):
        small = all(-(2**63) <= int(value) < 2**63 for value in some)
        return _of_integers(some) if small else _numeric_or_json(some)
    texts = [str(value) for value in some if type(value) is NumberText]
    held = all(map(_is_held, texts))
    held = held and _all_read(pa.array(texts, pa.string()), "float64")  # 1e-400 is not
    return "float64" if held else _numeric_or_json(some)


def _of_integers(some: Sequence[Any]) -> str:
    exact = all(int(float(value)) == int(value) for value in some)
    return "int64" if exact else LONG_INTEGERS


def _numeric_or_json(some: Sequence[Any]) -> str:
    """Return the type that keeps all digits of numbers."""
    texts = pa.array([str(value) for value in some], pa.string())
    return "numeric" if _all_read(texts, "numeric") else "jsonb"


_ARROW: Final[Mapping[str, str]] = {
    "bool": "bool", "int8": "int16", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "halffloat": "float32", "float": "float32", "double": "float64", "string": "string",
    "large_string": "string", "string_view": "string", "binary": "bytes", "large_binary": "bytes",
    "binary_view": "bytes", "date32[day]": "date", "date64[ms]": "date",
}  # fmt: skip


_WRITTEN: Final = ("date", "timestamp", "timestamptz")  # a text of one is a text of the next
_NUMBERS: Final = frozenset(
    {"numeric", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_EXTENSIONS: Final = {"arrow.uuid": "uuid", "arrow.json": "jsonb", "arrow.bool8": "bool"}
_CHECKED: Final[Sequence[tuple[Callable[[pa.DataType], bool], str]]] = (
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_time, "time"),
    (pa.types.is_interval, "interval"),
    (pa.types.is_duration, "interval day to second"),
)
_NO_JSON: Final[Sequence[Callable[[pa.DataType], bool]]] = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_duration,
    pa.types.is_interval,
)


def guess_arrow(kind: pa.DataType | None, *, records: bool = False) -> str:
    """Return the declared type that holds every value of an Arrow type.

    `records`: structs are records, also those that JSON may hold.
    """
    again = partial(guess_arrow, records=records)
    if kind is None:
        return "jsonb"
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSIONS.get(kind.extension_name) or again(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return again(kind.value_type)
    if any(is_kind(kind) for is_kind in LISTS):
        return f"list<{again(kind.value_type)}>"
    if pa.types.is_map(kind) and guess_arrow(kind.key_type) == "string":
        return f"map<{again(kind.item_type)}>"
    if pa.types.is_struct(kind) and (records or _beyond_json(kind)):
        return _record(kind, again)
    return _ARROW.get(str(kind)) or _guess_flat(kind)


def has_no_form(kind: pa.DataType) -> bool:
    """Return whether neither JSON nor a record holds the values of a struct, here or inside."""
    if pa.types.is_struct(kind) and _beyond_json(kind) and guess_arrow(kind) == "jsonb":
        return True
    return any(has_no_form(kind.field(n).type) for n in range(kind.num_fields))


def _beyond_json(kind: pa.DataType) -> bool:
    """Return whether a nested type has values inside that JSON has no form for."""
    inner = [kind.field(n).type for n in range(kind.num_fields)]
    return any(any(is_kind(one) for is_kind in _NO_JSON) or _beyond_json(one) for one in inner)


def _record(kind: pa.DataType, guess: Callable[[pa.DataType], str]) -> str:
    """Return the type of a struct field by field; jsonb, if its names cannot be written so."""
    fields = ", ".join(
        f"{kind.field(n).name}: {guess(kind.field(n).type)}" for n in range(kind.num_fields)
    )
    try:
        found = parse_type(f"record<{fields}>")
    except InvalidRequest:
        return "jsonb"
    names = [kind.field(n).name for n in range(kind.num_fields)]
    return str(found) if [field.name for field in found.fields] == names else "jsonb"


def _guess_flat(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_decimal(kind):
        fits = kind.precision <= MOST_DIGITS and 0 <= kind.scale <= kind.precision
        return f"numeric({kind.precision},{kind.scale})" if fits else "numeric"
    return next((name for is_kind, name in _CHECKED if is_kind(kind)), "jsonb")


def common_type(a: Guess, b: Guess, untyped: str = "string") -> Guess:
    """Return the type that holds the values of two files.

    `untyped`: the type that holds values of any types. `final_type` has to see the last one.
    """
    nulls = a[1] or b[1]
    if a[0] == b[0] or UNKNOWN in (a[0], b[0]):
        return a[0] or b[0], nulls
    kinds = {a[0], b[0]}
    if kinds == {LONG_INTEGERS, "int64"}:
        return LONG_INTEGERS, nulls
    if LONG_INTEGERS in kinds:
        (other,) = kinds - {LONG_INTEGERS}
        return common_type((WHOLE, nulls), (other, nulls), untyped)
    if kinds <= set(_WRITTEN):
        return max(kinds, key=_WRITTEN.index), nulls
    if kinds == {"date", "timestamp"}:
        return "timestamp", nulls
    numbers = {kind.partition("(")[0] for kind in kinds}
    if numbers <= _NUMBERS:
        return _number_type(kinds), nulls
    return (untyped if "jsonb" in kinds or numbers & (_NUMBERS | {"bool"}) else "string"), nulls


def final_type(guess: Guess) -> Guess:
    """Return the type of a column after all files."""
    return ("int64", guess[1]) if guess[0] == LONG_INTEGERS else guess


def _number_type(kinds: Collection[str]) -> str:
    """Return the type that holds the numbers of several types.

    >>> _number_type({"int16", "uint16"}), _number_type({"int64", "uint64"})
    ('int32', 'numeric')
    """
    if any(kind.startswith("numeric") for kind in kinds):
        return WHOLE if {kind for kind in kinds if "int" not in kind} == {WHOLE} else "numeric"
    if {"float32", "float64"} & set(kinds):
        return "float64"
    bits = {kind: int(kind.removeprefix("u").removeprefix("int")) for kind in kinds}
    if all(kind.startswith("uint") for kind in kinds):
        return f"uint{max(bits.values())}"
    needed = max(2 * n if kind.startswith("uint") else n for kind, n in bits.items())
    return f"int{needed}" if needed <= 64 else "numeric"
