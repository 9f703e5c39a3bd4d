"""Verdicts that pin a rule where no data of the size of a test could show that it is wrong.

A text is never 2**31 - 1 characters long in a test, and a year is hardly ever beyond 9999. That a
rule counts with them is shown by the verdict alone. `tools/mutate.py` runs these specs against
the mutants of a rule that no row catches.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from strata.expr.elements import Elements, Entries
from strata.expr.entry import Context
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Opaque
from strata.expr.spec import NO, Numbers, Spec, Texts, occupied
from tests.spec.language import NOW, E, call, check, col, constant

_N, _M, _NAME, _TS, _DAY, _JS = (col(name) for name in ("n", "m", "name", "ts", "day", "js"))


@dataclass(frozen=True)
class Sharp:
    """A filter, and the verdicts on a table of bounds."""

    expr: E
    table: str
    span: tuple[str, str] = (NOW, NOW)  # of the clock

    def check(self) -> None:
        """Assert the verdict of every line."""
        check(self.expr, self.table, span=self.span)


class KeyInside:
    """A key of a range that neither end of it is: it may be in a map all the same."""

    def column(self, column: Column) -> Spec:
        """Return maps of the one key `k`, and texts from `a` to `z`."""
        if column.name == "key":
            return Spec(_between("a", "z"))
        one, held = np.array([1]), Spec(Numbers(np.array([5]), np.array([5])))
        keys = Elements(NO, lambda: Spec(_between("k", "k")), one, one)
        return Spec(Entries(NO, keys, Elements(NO, lambda: held, one, one)))

    def check(self) -> None:
        """Assert that the value may be found."""
        args = (Column(1, "m", "map<string,int>"), Column(2, "key", "string"))
        found = Interpreter(Context(0, 0)).evaluate(Call("get_map_value", args, "int"), self)
        assert occupied(found.values).all()


def _between(low: str, high: str) -> Texts:
    return Texts(*(pa.array([text.encode()], pa.binary()) for text in (low, high)))


def _int(value: int) -> E:
    return constant(value, "integer")


def _text(value: str) -> E:
    return constant(value, "string")


def _fears(expr: E, table: str) -> Sharp:
    """Return a spec of failures: they keep parts that the second conjunct would skip."""
    return Sharp(call("is_not_null", expr) & (_N > 5), table)


_QUOTIENT: Final = call("integral_divide", _int(10), _M, kind="long", ansi="ansi")
_DIVIDES: Final = "m | n | verdict\n[0, 5] | [1, 2] | KEEP\n[1, 5] | [1, 2] | SKIP"
_DIVIDES_OR: Final = (
    "flag | m | n | verdict\n"
    "[false, true] | [0, 5] | [1, 2] | KEEP\n[false, true] | [1, 5] | [1, 2] | SKIP"
)
_DIGITS: Final = _QUOTIENT.cast("string")
_LATER: Final = call(
    "multiply", _N.cast("long"), constant(1_000_000, "long"), kind="long", ansi="ansi"
)
_RANDOM: Final = E(Opaque("Rand: rand()", "struct<a:int>"))


def _longest(function: str, *args: E, **options: str) -> tuple[Sharp, ...]:
    """Return the spec of a count that may be the greatest integer there is."""
    counted = call(function, *args, kind="integer", **options)
    return (Sharp(counted == 2**31 - 1, "name | verdict\n[a, b] | KEEP\nonly null | SKIP"),)


def _padded(function: str) -> tuple[Sharp, ...]:
    """Return specs of padding: a length that is not constant may not fit into memory."""
    long = call(function, _NAME, _M, _text("-"), kind="string")
    short = call(function, _NAME, _int(10), _text("-"), kind="string")
    table = "name | m | n | verdict\n[a, b] | [1, 5] | [1, 2] | "
    return _fears(long, table + "KEEP"), _fears(short, table + "SKIP")


def _digest(function: str, *more: E, kind: str = "string") -> tuple[Sharp, ...]:
    return (_fears(call(function, _DIGITS, *more, kind=kind), _DIVIDES),)


def _clock(function: str, than: E, kind: str) -> tuple[Sharp, ...]:
    """Return the spec of a clock that may stand at the first instant of its span."""
    table = (
        "day | ts | verdict\n"
        "[2013-01-02, 2013-01-02] | [2013-01-02T00:00, 2013-01-02T00:00] | KEEP\n"
        "[2012-12-31, 2012-12-31] | [2012-12-31T00:00, 2012-12-31T00:00] | SKIP"
    )
    span = ("2013-01-01T00:00", "2013-12-31T00:00")
    return (Sharp(call(function, kind=kind) <= than, table, span),)


def _repeated(function: str, *before: E) -> tuple[Sharp, ...]:
    """Return specs of repetition: a count that is not constant may not fit into memory."""
    table = "name | m | n | verdict\n[a, b] | [1, 5] | [1, 2] | "
    long, short = (call(function, *before, count, kind="string") for count in (_M, _int(10)))
    return _fears(long, table + "KEEP"), _fears(short, table + "SKIP")


_FAR_SECONDS: Final = _fears(
    call("from_unixtime", _LATER, _text("yyyy"), kind="string", zone="UTC"),
    "n | verdict\n[1, 2] | SKIP\n[-2000000, 2] | KEEP\n[5, 2000000] | KEEP",
)
SHARP: Final[Mapping[str, tuple[Sharp | KeyInside, ...]]] = {
    "case_when": (
        _fears(
            call("case_when", col("flag"), constant(1, "long"), _M >= 0, _QUOTIENT, kind="long"),
            _DIVIDES_OR,
        ),
    ),
    "or": (Sharp((col("flag") | (_QUOTIENT > 2)) & (_N > 5), _DIVIDES_OR),),
    "in": (
        _fears(
            call("in", _QUOTIENT, constant(2, "long"), constant(3, "long"), kind="boolean"),
            _DIVIDES,
        ),
    ),
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    "sha2": _digest("sha2", _int(256)),
    "crc32": _digest("crc32", kind="long"),
    "string_lpad": _padded("string_lpad"),
    "string_rpad": _padded("string_rpad"),
    "get_map_value": (KeyInside(),),
    "string_repeat": _repeated("string_repeat", _NAME),
    "string_space": _repeated("string_space"),
    "reg_exp_in_str": _longest("reg_exp_in_str", _NAME, _text("a"), _int(0), checked="true"),
    "last_day": (
        _fears(
            call("last_day", _DAY, kind="date"),
            "day | n | verdict\n[2013-01-01, …] | [1, 2] | KEEP\n"
            "[2013-01-01, 2013-02-02] | [1, 2] | SKIP",
        ),
    ),
    "from_unixtime": (_FAR_SECONDS,),
    "date_format": (
        _fears(
            call("date_format", _TS, _text("yyyy"), kind="string", zone="UTC"),
            "ts | n | verdict\n[2013-01-01T00:00, …] | [1, 2] | KEEP\n"
            "[…, 2013-01-01T00:00] | [1, 2] | KEEP\n"
            "[2013-01-01T00:00, 2013-02-01T00:00] | [1, 2] | SKIP",
        ),
    ),
    "get_struct_field": (
        _fears(
            call("get_struct_field", _RANDOM, _int(0), kind="integer"), "n | verdict\n[1, 2] | KEEP"
        ),
    ),
    "current_date": _clock("current_date", _DAY, "date"),
    "current_timestamp": _clock("current_timestamp", _TS, "timestamp"),
    "local_timestamp": _clock("local_timestamp", _TS.cast("timestamp_ntz"), "timestamp_ntz"),
    "length": _longest("length", _NAME),
    "octet_length": _longest("octet_length", _NAME),
    "json_array_length": _longest("json_array_length", _NAME),
    "levenshtein": _longest("levenshtein", _NAME, _NAME),
    "find_in_set": _longest("find_in_set", _NAME, _text("a")),
    "string_instr": _longest("string_instr", _NAME, _text("a")),
}
