"""Translate Catalyst nodes that need more than a name in the table.

Each rule takes the translator and a node and returns the expression. A rule may ask Spark whether
it accepts a zone or a regular expression; an interval of several kinds becomes a sum of single
ones. Uncertain nodes are opaque.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strata.expr.nodes import Call, Expr, Literal, Opaque
from strata.spark.front.constants import (
    DAY_TIME,
    YEAR_MONTH,
    interval_parts,
    node_type,
    plain_type_name,
    text_of,
)
from strata.spark.front.legacy import reads_patterns_anew
from strata.spark.front.tree import Identity, Node
from strata.spark.front.vocabulary import ARITHMETIC, FUNCTIONS

DAY_US: Final = 86_400_000_000


class Translator(Protocol):
    """The translator as rules see it."""

    spark: SparkSession
    aliases: Mapping[Identity, Node]  # common expressions that Spark evaluates once
    bound: dict[object, Expr]  # the elements that variables of lambdas stand for
    depth: int  # how many `aggregate` are around

    def expr(self, node: Node) -> Expr:
        """Return the expression of a node."""
        ...

    def call(self, node: Node, function: str, result: str) -> Expr:
        """Return a call of a function on a node's children, or Opaque."""
        ...


Rule = Callable[[Translator, Node], Expr]


def opaque(node: Node) -> Opaque:
    """Return an opaque expression, naming the class and its SQL."""
    try:
        return Opaque(f"{node.name}: {node.sql()}", plain_type_name(node.type))
    except (Py4JError, PySparkException):
        return Opaque(node.name, "unknown")


def options(node: Node) -> tuple[tuple[str, str], ...]:
    """Return the options of a node, from the JSON and from the JVM."""
    found: dict[str, str] = {}
    if node.name == "Cast" or node.name in ARITHMETIC:
        found["ansi"] = str(node.jvm.evalMode().toString()).lower()
    for name in ("failOnError", "ansiEnabled"):
        if name in node.fields:
            found["ansi"] = "ansi" if node.fields[name] else "legacy"
    if node.fields.get("timeZoneId"):
        found["zone"] = node.fields["timeZoneId"]
    if node.name in ("TimestampAdd", "TimestampDiff"):
        found["unit"] = str(node.fields["unit"]).lower()
    if node.name == "Like":
        found["escape"] = str(node.jvm.escapeChar())
    return tuple(sorted(found.items()))


def _several_patterns(translator: Translator, node: Node) -> Expr:
    """Return `like any (...)` and its kin written out as several `like`."""
    text, items = translator.expr(node.children[0]), node.jvm.patterns()
    given = [items.apply(i) for i in range(items.size())]
    found = [None if item is None else text_of(item) for item in given]
    if text.type != "string" or not found or any(item is None for item in found):
        return opaque(node)
    likes: list[Expr] = [Call("like", (text, Literal(item, "string")), "boolean") for item in found]
    if node.name.startswith("Not"):
        likes = [Call("not", (like,), "boolean") for like in likes]
    if len(likes) == 1:
        return likes[0]
    return Call("or" if node.name.endswith("Any") else "and", tuple(likes), "boolean")


def _regular(translator: Translator, node: Node) -> Expr:
    """Return `rlike`, marked where Java can compile the constant expression."""
    call = translator.call(node, "rlike", "boolean")
    if not isinstance(call, Call) or not isinstance(call.args[1], Literal):
        return call
    try:
        translator.spark._jvm.java.util.regex.Pattern.compile(call.args[1].value)  # type: ignore[union-attr]
    except (Py4JError, PySparkException):
        return call
    return replace(call, options=(("checked", "java"),))


def _matches(translator: Translator, node: Node) -> Expr:
    """Return a function of matches, marked where its constant arguments are valid."""
    name = {
        "StringSplit": "string_split",
        "RegExpExtract": "reg_exp_extract",
        "RegExpExtractAll": "reg_exp_extract_all",
        "RegExpInStr": "reg_exp_in_str",
        "RegExpReplace": "reg_exp_replace",
    }[node.name]
    call = translator.call(node, name, plain_type_name(node.type))
    if not isinstance(call, Call) or not all(isinstance(arg, Literal) for arg in call.args[1:]):
        return call
    pattern, *others = (arg.value for arg in call.args[1:] if isinstance(arg, Literal))
    try:
        regex = translator.spark._jvm.java.util.regex  # type: ignore[union-attr]
        groups = regex.Pattern.compile(pattern).matcher("").groupCount()
    except (Py4JError, PySparkException):
        return call
    if name == "reg_exp_replace":  # it may name groups of the match
        right = isinstance(others[0], str) and not set("$\\") & set(others[0])
    else:
        right = name == "string_split" or (isinstance(others[0], int) and 0 <= others[0] <= groups)
    return replace(call, options=(("checked", "java"),)) if right else call


def _seconds(translator: Translator, node: Node) -> Expr:
    """Return seconds since 1970; of text, those of the timestamp that the pattern reads."""
    found = translator.call(node, "unix_timestamp", "long")
    if not isinstance(found, Call) or found.args[0].type != "string":
        return found
    if not reads_patterns_anew(translator.spark):
        return opaque(node)
    parsed = Call("get_timestamp", found.args, "timestamp", found.options)
    return Call("unix_timestamp", (parsed, found.args[1]), "long", found.options)


def _parsed(translator: Translator, node: Node) -> Expr:
    """Return text read by a pattern; only as Spark's newest parser reads it."""
    if not reads_patterns_anew(translator.spark):
        return opaque(node)
    return translator.call(node, "get_timestamp", node_type(node))


def _written(function: str) -> Rule:
    """Return the rule of a time that is written by a pattern; an older writer pads fractions."""

    def rule(translator: Translator, node: Node) -> Expr:
        if not reads_patterns_anew(translator.spark):
            return opaque(node)
        return translator.call(node, function, "string")

    return rule


def _moved_by_zone(translator: Translator, node: Node) -> Expr:
    """Return a wall clock in another zone, marked if Spark knows the constant zones."""
    names = {
        "FromUTCTimestamp": "from_utc_timestamp",
        "ToUTCTimestamp": "to_utc_timestamp",
        "ConvertTimezone": "convert_timezone",
    }
    call = translator.call(node, names[node.name], plain_type_name(node.type))
    if not isinstance(call, Call):
        return call
    known = all(
        isinstance(arg, Literal) and _is_zone(translator.spark, arg.value)
        for arg in call.args
        if arg.type == "string"
    )
    return replace(call, options=(("zones", "known"),)) if known else call


def _is_zone(spark: SparkSession, name: object) -> bool:
    if not isinstance(name, str):
        return False
    try:
        util = spark._jvm.org.apache.spark.sql.catalyst.util  # type: ignore[union-attr]
        util.DateTimeUtils.getZoneId(name)
    except (Py4JError, PySparkException):
        return False
    return True


def _plus_interval(translator: Translator, node: Node) -> Expr:
    """Return a time plus an interval; months, days and times are added one after the other."""
    moved, interval = node.children
    kind = plain_type_name(node.type)
    if plain_type_name(interval.type) != "interval":
        return translator.call(node, FUNCTIONS[node.name], kind)
    parts = interval_parts(interval)
    if parts is None:
        return opaque(node)
    months, days, micros = parts
    time, zone = translator.expr(moved), options(node)
    if kind == "date":
        if micros:
            return opaque(node)
        later = Call("add_months", (time, Literal(months, "integer")), kind)
        return Call("date_add", (later, Literal(days, "integer")), kind)
    later = Call("timestamp_add_ym_interval", (time, Literal(months, YEAR_MONTH)), kind, zone)
    rest = Literal(days * DAY_US + micros, DAY_TIME)
    return Call("timestamp_add_interval", (later, rest), kind, zone)


_VARIANTS: Final = "org.apache.spark.sql.catalyst.expressions.variant.VariantExpressionEvalUtils$"


def _static_invoke(translator: Translator, node: Node) -> Expr:
    """Return the functions that arrive as calls of Scala's objects."""
    owner, name = node.fields.get("staticObject"), node.fields.get("functionName")
    if owner == _VARIANTS and name == "isVariantNull":
        return translator.call(node, "is_variant_null", "boolean")
    if str(owner).endswith("JsonExpressionUtils") and name == "lengthOfJsonArray":
        return translator.call(node, "json_array_length", "integer")
    if str(owner).endswith("JsonExpressionUtils") and name == "jsonObjectKeys":
        return translator.call(node, "json_object_keys", plain_type_name(node.type))
    if owner == _VARIANTS and name == "parseJson":
        flags = [child.fields.get("value") for child in node.children[1:3]]
        if len(flags) == 2 and flags[0] == "false":  # a repeated key is an error
            mode = "ansi" if flags[1] == "true" else "try"
            text = translator.expr(node.children[0])
            return Call("parse_json", (text,), "variant", (("ansi", mode),))
    return opaque(node)


def _variant_get(translator: Translator, node: Node) -> Expr:
    return translator.call(node, "variant_get", plain_type_name(node.type))


def _from_json(translator: Translator, node: Node) -> Expr:
    """Return `from_json` of a struct without options; its schema is the second argument."""
    schema = node.fields.get("schema")
    if not isinstance(schema, dict) or schema.get("type") != "struct":
        return opaque(node)
    corrupt = translator.spark.conf.get("spark.sql.columnNameOfCorruptRecord")
    if not node.jvm.options().isEmpty() or any(f["name"] == corrupt for f in schema["fields"]):
        return opaque(node)
    text = Literal(json.dumps(schema, separators=(",", ":")), "string")
    return Call("from_json", (translator.expr(node.children[0]), text), plain_type_name(node.type))


REWRITES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "RLike": _regular,
        "LikeAny": _several_patterns,
        "LikeAll": _several_patterns,
        "NotLikeAny": _several_patterns,
        "NotLikeAll": _several_patterns,
        "GetTimestamp": _parsed,
        "DateFormatClass": _written("date_format"),
        "FromUnixTime": _written("from_unixtime"),
        "UnixTimestamp": _seconds,
        "ToUnixTimestamp": _seconds,
        "StringSplit": _matches,
        "RegExpExtract": _matches,
        "RegExpExtractAll": _matches,
        "RegExpInStr": _matches,
        "RegExpReplace": _matches,
        "objects.StaticInvoke": _static_invoke,
        "variant.VariantGet": _variant_get,
        "JsonToStructs": _from_json,
        "FromUTCTimestamp": _moved_by_zone,
        "ToUTCTimestamp": _moved_by_zone,
        "ConvertTimezone": _moved_by_zone,
        "TimestampAddInterval": _plus_interval,
        "DateAddInterval": _plus_interval,
    }
)
