"""Constants of a filter, as exact plain values.

Spark itself evaluates a constant sub-expression, once, during the analysis of the filter. Readings
of the clock, texts that Spark reads by the clock (`'now'` cast to a timestamp), and failing
expressions are not constant: whether they fail is decided where the filter is executed.

A value is taken exactly or not at all. A text that is not UTF-8 has no plain value here, nor has
-0.0, which Spark treats as equal to 0.0 in one place and as different in another.
"""

import math
import re
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
from py4j.java_gateway import JavaObject, get_field
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from strata.expr.nodes import Literal, Opaque
from strata.spark.front.tree import Node

INTEGRAL: Final = ("byte", "short", "integer", "long")  # each fits in the next
EXACT_IN_JSON: Final = frozenset({*INTEGRAL, "string", "boolean", "double", "float"})
BY_VALUE: Final = frozenset({"date", "timestamp", "timestamp_ntz", "binary"})
DAY_TIME: Final = "interval day to second"
YEAR_MONTH: Final = "interval year to month"
DATETIME: Final = frozenset({"date", "timestamp", "timestamp_ntz"})

# Texts that Spark reads as a date or timestamp by the clock of the moment, not by ours.
SPECIAL: Final = re.compile(r"\s*(epoch|now|yesterday|today|tomorrow)\b", re.IGNORECASE)
SPECIAL_IN_SQL: Final = re.compile(r"['\"]\s*(now|yesterday|today|tomorrow)\b", re.IGNORECASE)
Constant: TypeAlias = Literal | Opaque
NO_TEXT: Final = "a constant text that is no UTF-8"
REPLACEMENT: Final = "\ufffd"  # replaces bytes that are not UTF-8 in a text
CLOCK: Final = re.compile(r"(Current\w*|Now|LocalTimestamp)")


def literal_value(node: Node) -> Constant | None:
    """Return the value of a literal node; None for types without a plain value."""
    kind, text = node_type(node), node.fields["value"]
    if text is None:
        return Literal(None, plain_type_name(kind))
    if kind in EXACT_IN_JSON and not (kind == "string" and REPLACEMENT in text):
        return _exact(_from_json(kind, text), kind)
    return _value(kind, node.jvm.value())


def text_of(value: JavaObject) -> str | None:
    """Return the text of a JVM UTF8String; None if its bytes are not UTF-8."""
    try:
        return bytes(value.getBytes()).decode()
    except UnicodeDecodeError:
        return None


def is_plain(value: object) -> bool:
    """Return whether a Python value equals the constant that it was converted from.

    A text with a replacement character may come from other bytes.
    """
    if isinstance(value, str):
        return REPLACEMENT not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    return not (isinstance(value, float) and value == 0 and math.copysign(1, value) < 0)


def _exact(value: int | float | str | bool, kind: str) -> Constant:
    if isinstance(value, str) or is_plain(value):
        return Literal(value, kind)
    return Opaque("the constant -0.0", kind)


def fold_constant(node: Node) -> Constant | None:
    """Return the value of a constant sub-expression, computed by Spark; None if it has none.

    Returns Opaque if there is a value that cannot be taken exactly; its operands add nothing.

    An expression that reads the clock or fails is no constant here.
    """
    if node.name == "Cast":
        widened = _widened(node)
        if widened is not None:
            return widened
    for below in node.walk():
        if below.name == "AttributeReference" or CLOCK.fullmatch(below.name):
            return None
        if below.name == "Cast" and node_type(below) in DATETIME and is_special(below):
            return None
    try:
        if not node.jvm.foldable():
            return None
        return _value(node.type, node.jvm.eval(None))
    except (Py4JError, PySparkException):
        return None


def interval_parts(node: Node) -> tuple[int, int, int] | None:
    """Return the months, days and microseconds of a constant interval; None if it has none."""
    if any(n.name == "AttributeReference" for n in node.walk()):
        return None
    try:
        if not node.jvm.foldable() or (value := node.jvm.eval(None)) is None:
            return None
        months, days, micros = (get_field(value, n) for n in ("months", "days", "microseconds"))
    except (Py4JError, PySparkException):
        return None
    return int(months), int(days), int(micros)


def is_special(cast: Node) -> bool:
    """Return whether a constant cast to a date or timestamp may depend on Spark's own clock."""
    child = cast.children[0]
    known = child if child.name == "Literal" else None
    if known is None:
        value = fold_constant(child)
        if not isinstance(value, Literal):
            return True
        return value.type == "string" and bool(SPECIAL.match(str(value.value)))
    return known.fields["dataType"] == "string" and bool(SPECIAL.match(known.fields["value"] or ""))


def _widened(cast: Node) -> Literal | None:
    """Return an integer literal cast to a wider integer: frequent, so done without the JVM."""
    child, target = cast.children[0], cast.fields["dataType"]
    if child.name != "Literal" or child.fields["value"] is None or target not in INTEGRAL:
        return None
    source = child.fields["dataType"]
    if source not in INTEGRAL or INTEGRAL.index(source) > INTEGRAL.index(target):
        return None
    return Literal(int(child.fields["value"]), target)


def _value(kind: str, value: Any) -> Constant | None:
    """Return a JVM value of Spark's internal kind as a literal; None if there is no plain one."""
    plain = plain_type_name(kind)
    if value is None:
        return Literal(None, plain)
    if kind.startswith("decimal"):
        return Literal(Decimal(value.toJavaBigDecimal()), kind)
    if kind == "string":
        text = text_of(value)
        return Opaque(NO_TEXT, kind) if text is None else Literal(text, kind)
    if kind == "float":
        # It crosses from the JVM as the shortest text; its exact value is the float's.
        return _exact(float(np.float32(value)), kind)
    if kind in EXACT_IN_JSON:
        return _exact(value, kind)
    if kind in BY_VALUE or plain in (DAY_TIME, YEAR_MONTH):
        return Literal(value, plain)
    return None


def _from_json(kind: str, text: str) -> int | float | str | bool:
    if kind in INTEGRAL:
        return int(text)
    if kind == "boolean":
        return text == "true"
    if kind == "double":
        return float(text)
    # The text is the shortest that names a float; its exact value is the float's.
    return float(np.float32(text)) if kind == "float" else text


def plain_type_name(name: str) -> str:
    """Return a type's name with intervals of any fields named by their family.

    >>> [plain_type_name(f"interval{of}") for of in (" hour", " month", "")]
    ['interval day to second', 'interval year to month', 'interval']
    """
    if not name.startswith("interval "):
        return name
    first = name.split()[1]
    return YEAR_MONTH if first in ("year", "month") else DAY_TIME


def node_type(node: Node) -> str:
    """Return the data type that a Literal, Cast or attribute carries in the JSON."""
    name = node.fields["dataType"]
    return name if isinstance(name, str) else node.type
