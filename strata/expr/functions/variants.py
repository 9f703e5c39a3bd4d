"""Variants and `from_json`: the statistics of a JSON path, read as another type.

Parsing a document does not fail if statistics could read it. A missing key gives null; a JSON null
is a non-null variant, but its casts are null.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from strata.expr import bounds as exact
from strata.expr.elements import Elements
from strata.expr.entry import Context, Entry, Outcome, literal, opened, strict
from strata.expr.functions.formats import moments_read
from strata.expr.functions.json import parse_path
from strata.expr.functions.shapes import decimals_around, shaped_numbers
from strata.expr.members import printed, whole_members
from strata.expr.nodes import Call
from strata.expr.records import Record
from strata.expr.shapes import shape_of
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import (
    NO,
    YES,
    Anything,
    Bools,
    Flags,
    Json,
    Numbers,
    Spec,
    Texts,
    Values,
    as_texts,
    both,
    either,
    everything,
    gate,
    hull,
    integers,
    negated,
    occupied,
    uniform,
)


@dataclass(frozen=True, slots=True)
class Variant(Anything):
    """Variants of JSON documents.

    `inside`: their kinds of JSON, null for a JSON null; None where nothing is known.
    """

    inside: Spec | None = None


def _variant(args: Sequence[Spec], inside: Spec | None, null: Flags, fail: Flags) -> Spec:
    found = strict(args, Outcome(Anything(), null, fail))
    return Spec(Variant(negated(occupied(found.values)), inside), found.null, found.fail)


def _parse_json(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    values = args[0].values
    inside = values.whole() if isinstance(values, Json) and values.whole is not None else None
    unread = YES if inside is None else _may_be_anything(inside)
    if call.option("ansi", "ansi") == "ansi":
        return _variant(args, inside, NO, unread)
    return _variant(args, inside, unread, NO)


def _may_be_anything(spec: Spec) -> Flags:
    """Return where a document may be of every kind; there it may also be invalid JSON."""
    values = spec.values
    assert isinstance(values, Json)
    kinds = values.true & values.false & values.lists & values.maps & spec.null
    return uniform(kinds & occupied(values.numbers) & negated(values.strings.empty))


def _variant_get(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the value at a constant path, as a variant or cast to the type of the call."""
    path, values = literal(call, 1), args[0].values
    keys = parse_path(path.value) if path is not None and isinstance(path.value, str) else None
    spec = values.inside if isinstance(values, Variant) else None
    for key in keys or ():
        found = spec.values if spec is not None else None
        spec = found.child(key) if isinstance(found, Json) else None
    if keys is None or spec is None or not isinstance(spec.values, Json):
        return opened(call, args, fail=call.type != "variant")
    if call.type == "variant":
        return _variant(args, spec, spec.null, NO)
    values, failing = _read(call, spec.values)
    return strict(args, _mode(call, values, spec.null, failing))


def from_variant(call: Call, args: Sequence[Spec]) -> Spec:
    """Return the values that variants cast to; null for a JSON null."""
    values = args[0].values
    inside = values.inside if isinstance(values, Variant) else None
    if inside is None or not isinstance(inside.values, Json):
        return opened(call, args)
    read, failing = _read(call, inside.values)
    return strict(args, _mode(call, read, inside.null, failing))


def _mode(call: Call, values: Values, null: Flags, failing: Flags) -> Outcome:
    # A cast of a variant fails in legacy mode, too; `try_variant_get` arrives as legacy.
    mode = call.option("ansi", "ansi")
    tries = mode == "try" or (mode == "legacy" and call.function == "variant_get")
    return Outcome(values, either(null, failing), NO if tries else failing)


def _read(call: Call, values: Json) -> tuple[Values, Flags]:
    """Return the values of the call's type that variants cast to, and where it may fail."""
    kind, full = spark_type(call.type), everything(call.type)
    nested, strings = values.lists | values.maps, negated(values.strings.empty)
    if kind.name == "string":
        return printed(values), NO
    if isinstance(full, Bools):
        some = occupied(values.numbers) | strings
        read = Bools(values.true | some, values.false | some)
        return read, nested | strings
    shape = shape_of(replace(values, quoted=False))
    if kind.name in ("date", "timestamp", "timestamp_ntz") and shape is not None:
        return moments_read(call, as_texts(replace(values, quoted=False)), shape)
    if not isinstance(full, Numbers) or not _is_number(kind):
        return full, YES
    numbers, failing = _from_numbers(values.numbers, kind)
    truths = _truths(values, kind, full)
    written, unread = shaped_numbers(call.type, shape_of(values.strings))
    found = hull(hull(numbers, truths), gate(written, strings))
    if isinstance(found, Numbers):
        found = replace(found, members=whole_members(values, kind))
    outside = occupied(truths) if kind.family == "decimal" else NO
    return found, failing | nested | both(strings, unread) | outside


_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})


def _is_number(kind: SparkType) -> bool:
    """Return whether JSON numbers can be read as the type: no dates, no decimals beyond 64 bits."""
    return not kind.wide and (kind.family in ("float", "decimal") or kind.name in _INTEGERS)


def _truths(values: Json, kind: SparkType, full: Numbers) -> Numbers:
    """Return the casts of true and false: one and zero."""
    one = 10**kind.scale
    low, high = np.where(values.false, 0, one), np.where(values.true, one, 0)
    dtype = full.low.dtype
    return Numbers(low.astype(dtype), high.astype(dtype), negated(values.true | values.false))


def _from_numbers(source: Numbers, kind: SparkType) -> tuple[Numbers, Flags]:
    if kind.family == "decimal":
        return decimals_around(source, kind)
    if kind.family == "float":
        low, high = source.low, source.high
        if kind.single:
            low, high = exact.single(low), exact.single(high)
        return Numbers(low, high, source.empty), NO
    low, high = exact.truncated(source.low, kind), exact.truncated(source.high, kind)
    outside = (source.low < float(kind.low)) | (source.high >= float(kind.high))
    return Numbers(low, high, source.empty), outside & negated(source.empty)


def _is_variant_null(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    values = args[0].values
    inside = values.inside if isinstance(values, Variant) else None
    some = either(occupied(values), args[0].null)  # an SQL null is not a JSON null
    return Spec(Bools(some if inside is None else inside.null, some), NO, args[0].fail)


def _json_object_keys(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the keys of an object as a list; null for other JSON and for invalid text."""
    return strict(args, Outcome(Elements(NO, lambda: Spec(everything("string"))), null=YES))


def _json_array_length(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    kind = spark_type(call.type)
    values = Numbers(integers(0, kind), integers(kind.high, kind))
    return strict(args, Outcome(values, null=YES))


# from_json.


@lru_cache(maxsize=256)
def read_schema(text: str) -> Mapping[str, Any]:
    """Return the schema of a struct as Spark's JSON writes it.

    Raises: ValueError for anything else.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("type") != "struct":
        raise ValueError(text)
    return found


def field_key(call: Call, ordinals: Sequence[object]) -> str | None:
    """Return the key of the field of `from_json` that a sequence of ordinals leads to."""
    schema = literal(call, 1)
    found: Any = None
    try:
        kind: Any = read_schema(str(schema.value if schema else ""))
        for ordinal in ordinals:
            found = kind["fields"][ordinal]["name"]
            kind = kind["fields"][ordinal]["type"]
    except (ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _from_json(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return the struct that documents are read as; fields that do not fit are null."""
    schema, values = literal(call, 1), args[0].values
    if schema is None or not isinstance(values, Json) or values.whole is None:
        return opened(call, args, fail=False)
    root = values.whole()
    assert isinstance(root.values, Json)
    # For a list, the first struct is taken.
    structs = _structs(root.values, read_schema(str(schema.value)), root.values.lists)
    found = strict(args[:1], Outcome(Anything(), null=YES))
    return Spec(Record(negated(occupied(found.values)), structs.child), YES, found.fail)


def _structs(values: Json, schema: Mapping[str, Any], unknown: Flags) -> Record:
    fields = schema["fields"]

    def child(ordinal: int) -> Spec | None:
        if not 0 <= ordinal < len(fields):
            return None
        kind, found = fields[ordinal]["type"], values.child(fields[ordinal]["name"])
        if not isinstance(found.values, Json):
            return None
        if isinstance(kind, Mapping) and kind.get("type") == "struct":
            inner = _structs(found.values, kind, unknown | found.values.lists)
            return Spec(inner, YES)
        return _field(found.values, kind, unknown) if isinstance(kind, str) else None

    return Record(NO, child)


def _field(values: Json, kind: str, unknown: Flags) -> Spec:
    """Return the values of a field of a plain type; null for JSON of another kind."""
    full, known = everything(kind), spark_type(kind)
    strings = negated(values.strings.empty)
    read: Values = full
    match full:
        case Texts() if kind == "string":
            read = printed(values)
        case Bools():
            read = Bools(values.true | strings, values.false | strings)
        case Numbers() if _is_number(known):
            numbers, _ = _from_numbers(values.numbers, known)
            read = hull(numbers, gate(full, strings))
            if isinstance(read, Numbers):
                read = replace(read, members=whole_members(values, known))
        case _:
            return Spec(full, YES)
    opened_ = gate(full, uniform(unknown))
    return Spec(hull(read, opened_) if occupied(opened_).any() else read, YES)


_TWO: Final = (2, 2)
ENTRIES: Final = (
    Entry("parse_json", "json", (1, 1), _parse_json, "the statistics of the paths"),
    Entry(
        "variant_get",
        "variant, path",
        _TWO,
        _variant_get,
        "numbers, texts, booleans at a path",
        passes=True,
    ),
    Entry("is_variant_null", "variant", (1, 1), _is_variant_null, "where a JSON null may be"),
    Entry("from_json", "json, schema", _TWO, _from_json, "fields: the statistics of their paths"),
    Entry("json_array_length", "json", (1, 1), _json_array_length, "not negative; never fails"),
    Entry("json_object_keys", "json", (1, 1), _json_object_keys, "any texts; never fails"),
)
