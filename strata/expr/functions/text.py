"""Functions of text: bounded if they keep or test a prefix; others may give any text."""

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.entry import Context, Entry, Outcome, literal, opened, strict, texts
from strata.expr.functions import exact_texts as exact
from strata.expr.functions import many_texts as many
from strata.expr.functions.comparison import few_of, may_be_equal, may_differ, scattered, some_of
from strata.expr.functions.points import pointwise
from strata.expr.nodes import Call
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Numbers,
    Spec,
    TextBound,
    Texts,
    both,
    exactly,
    negated,
    text_compare,
)


def after_prefix(prefix: bytes) -> bytes | None:
    r"""Return the least bytes after everything that starts with `prefix`; None if there are none.

    >>> after_prefix(b"ab"), after_prefix(b"a\xff"), after_prefix(b"\xff")
    (b'ac', b'b', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else None


def may_start(values: Texts, prefix: bytes) -> Bools:
    """Return where some text starts with `prefix`, and where some does not."""
    start, end = pa.scalar(prefix, pa.binary()), after_prefix(prefix)
    behind = None if end is None else pa.scalar(end, pa.binary())
    # An open bound extends beyond the prefix on its side.
    true = text_compare("less_equal", start, values.high)
    if behind is not None and true.any():
        true = both(true, text_compare("less", values.low, behind))
    some = negated(values.empty)
    if not true.any():
        return Bools(NO, some)
    rows = few_of(true)  # all texts of a part start so only if some do
    low, high = some_of(values.low, rows), some_of(values.high, rows)
    inside = text_compare("less_equal", start, low, unknown=not prefix)
    if behind is not None:
        inside = both(inside, text_compare("less", high, behind, unknown=False))
    inside = inside if rows is None else scattered(inside, rows, true.size)
    return Bools(both(true, some), both(negated(inside), some))


def _starts_with(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    constant = literal(call, 1)
    prefix = None if constant is None else _bytes(constant.value)
    if prefix is None:
        return strict(args, Outcome(Bools(YES, YES)))
    return strict(args, Outcome(may_start(texts(args[0]), prefix)))


def _parse_pattern(pattern: str, escape: str) -> tuple[str, str] | None:
    """Return the fixed prefix of a LIKE pattern, and the pattern after it.

    None: the pattern is malformed and fails on use.
    """
    prefix, position = "", 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            following = pattern[position + 1 : position + 2]
            if following not in ("_", "%", escape) or not following:
                return None
            prefix, position = prefix + following, position + 2
            continue
        if char in "_%":
            return (
                (prefix, pattern[position:]) if _well_formed(pattern[position:], escape) else None
            )
        prefix, position = prefix + char, position + 1
    return prefix, ""


def _well_formed(pattern: str, escape: str) -> bool:
    position = 0
    while position < len(pattern):
        if pattern[position] == escape:
            if pattern[position + 1 : position + 2] not in ("_", "%", escape):
                return False
            position += 1
        position += 1
    return not pattern.endswith(escape) or pattern.endswith(escape * 2)


def _like(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    constant = literal(call, 1)
    if constant is None or not isinstance(constant.value, str):
        return opened(call, args, null=False)
    escape = call.option("escape", "\\")
    parsed = _parse_pattern(constant.value, escape)
    if parsed is None or call.args[0].type != "string":
        return opened(call, args, null=False)
    prefix, rest = parsed
    if not rest:
        exact = exactly(prefix, "string")
        values = Bools(may_be_equal(args[0], exact), may_differ(args[0], exact))
        return strict(args, Outcome(values))
    values = may_start(texts(args[0]), prefix.encode())
    if rest.strip("%"):  # more to match behind the prefix
        values = Bools(values.true, YES)
    return strict(args, Outcome(values))


def _any_answer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return strict(args, Outcome(Bools(YES, YES)))


def _substring(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return a prefix of the text; cutting preserves order. Other substrings are any text."""
    start, length = literal(call, 1), literal(call, 2)
    if start is None or length is None or call.type != "string":
        return opened(call, args, null=False, fail=False)
    if start.value not in (0, 1) or not isinstance(length.value, int):
        return opened(call, args, null=False, fail=False)
    values, count = texts(args[0]), max(length.value, 0)
    low, high = _cut(values.low, count), _cut(values.high, count)
    return strict(args, Outcome(Texts(low, high)))


def _cut(bound: TextBound, count: int) -> TextBound:
    if bound is None:
        return None
    text = pc.cast(bound, pa.string())
    return pc.cast(pc.utf8_slice_codeunits(text, 0, count), pa.binary())


def _concat(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    """Return texts after a constant prefix; later arguments only raise them."""
    if call.type not in ("string", "binary"):
        return opened(call, args, null=False, fail=False)
    prefix, position = b"", 0
    while position < len(args) and (constant := literal(call, position)) is not None:
        data = _bytes(constant.value)
        if data is None:
            break
        prefix, position = prefix + data, position + 1
    if position == len(args):
        return (
            strict(args, Outcome(exactly(prefix.decode(errors="strict"), "string").values))
            if (call.type == "string")
            else strict(args, Outcome(exactly(prefix, "binary").values))
        )
    following = texts(args[position])
    low = _scalar(prefix)
    if following.low is not None:  # an open bound: after the start there may be nothing
        low = pc.fill_null(_joined(prefix, following.low), low)
    high = _scalar(after_prefix(prefix))
    if position == len(args) - 1 and following.high is not None:
        high = pc.coalesce(_joined(prefix, following.high), high)
    return strict(args, Outcome(Texts(low, high)))


def _scalar(data: bytes | None) -> pa.Scalar:
    return pa.scalar(data, pa.binary())


def _joined(prefix: bytes, bound: Any) -> Any:
    if not prefix:
        return bound
    return pc.binary_join_element_wise(_scalar(prefix), bound, _scalar(b""))


def _any_text(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return opened(call, args, null=False, fail=False)


def _length(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return strict(args, Outcome(Numbers(np.array([0]), np.array([2**31 - 1]))))


# A Java expression whose groups are not repeated needs no deep stack, so it cannot fail.
_REPEATED_GROUP: Final = re.compile(r"\)[*+?{]")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _/:@#%&=~,;<>!\"'-]|[^\x00-\x7f]")


def may_overflow(call: Call) -> bool:
    """Return whether matching may fail: the expression is unknown, or repeats a group."""
    pattern = literal(call, 1)
    text = pattern.value if pattern is not None else ""
    if text is None:
        return False
    return not call.option("checked") or bool(_REPEATED_GROUP.search(str(text)))


def _fixed_start(pattern: str) -> str:
    """Return the text that every match of a regular expression starts with.

    >>> _fixed_start("^ab+c"), _fixed_start("^a|b"), _fixed_start("ab")
    ('a', '', '')
    """
    if not pattern.startswith("^") or "|" in pattern:
        return ""
    end = 1
    while end < len(pattern) and _PLAIN.fullmatch(pattern[end]):
        end += 1
    if end < len(pattern) and pattern[end] in "*?{+":
        end -= 1
    return pattern[1:end]


def _rlike(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    constant = literal(call, 1)
    if constant is None or not isinstance(constant.value, str) or not call.option("checked"):
        return opened(call, args)
    if call.args[0].type != "string":
        return opened(call, args)
    fail = np.array([bool(_REPEATED_GROUP.search(constant.value))])
    prefix = _fixed_start(constant.value)
    if not prefix:
        return strict(args, Outcome(Bools(YES, YES), fail=fail))
    true = may_start(texts(args[0]), prefix.encode()).true
    return strict(args, Outcome(Bools(true, YES), fail=fail))


_ANSWER: Final = "true or false; never fails"
ENTRIES: Final = (
    Entry("starts_with", "text, prefix", (2, 2), _starts_with, "exact for a constant prefix"),
    Entry(
        "like",
        "text, pattern",
        (2, 2),
        pointwise(_like, exact.like, many=many.like),
        "the constant start of the pattern",
    ),
    Entry(
        "ends_with",
        "text, part",
        (2, 2),
        pointwise(_any_answer, exact.ends_with, many=many.ends_with),
        _ANSWER,
    ),
    Entry(
        "contains",
        "text, part",
        (2, 2),
        pointwise(_any_answer, exact.contains, many=many.contains),
        _ANSWER,
    ),
    Entry(
        "substring",
        "text, start, length",
        (3, 3),
        pointwise(_substring, exact.substring, many=many.substring),
        "monotone from the start",
    ),
    Entry(
        "concat",
        "text, ...",
        (1, None),
        pointwise(_concat, exact.joined_texts, many=many.joined_texts),
        "a constant start; what follows if last",
    ),
    Entry(
        "string_trim",
        "text, [characters]",
        (1, 2),
        pointwise(_any_text, exact.stripped, many=many.stripped),
        "any text; never fails",
    ),
    Entry(
        "rlike",
        "text, pattern",
        (2, 2),
        pointwise(_rlike, exact.rlike),
        "the fixed start behind a ^",
    ),
    Entry(
        "length",
        "text",
        (1, 1),
        pointwise(_length, exact.length, many=many.length),
        "not negative; never fails",
    ),
)
