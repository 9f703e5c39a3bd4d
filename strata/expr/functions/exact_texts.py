"""What functions of text make of single texts, as Spark does; for `strata.expr.functions.points`.

Only what all languages agree about is evaluated: letters of ASCII have one other case, and of
regular expressions a part is taken that Java and Python read alike and that needs no long search.
"""

import re
from functools import lru_cache
from typing import Any, Final

from strata.expr.functions.points import NotEvaluated
from strata.expr.nodes import Call

_INT_MAX: Final = 2**31 - 1
_INT_MIN: Final = -(2**31)


def _ascii(text: str) -> str:
    if not text.isascii():
        raise NotEvaluated
    return text


def upper(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text of ASCII in upper case."""
    return _ascii(args[0]).upper()


def lower(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text of ASCII in lower case."""
    return _ascii(args[0]).lower()


def init_cap(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text whose words begin in upper case; a word ends before a space."""
    if not re.fullmatch("[A-Za-z ]*", args[0]):
        raise NotEvaluated
    return " ".join(word[:1].upper() + word[1:].lower() for word in args[0].split(" "))


def length(call: Call, args: tuple[Any, ...]) -> int:
    """Return the number of characters."""
    return len(args[0])


def octet_length(call: Call, args: tuple[Any, ...]) -> int:
    """Return the number of bytes."""
    return len(args[0].encode())


def bit_length(call: Call, args: tuple[Any, ...]) -> int:
    """Return the number of bits."""
    return 8 * len(args[0].encode())


def code_of_first(call: Call, args: tuple[Any, ...]) -> int:
    """Return the code of the first character, 0 of no text."""
    return ord(_ascii(args[0])[0]) if args[0] else 0


def reverse(call: Call, args: tuple[Any, ...]) -> str:
    """Return the characters from the last to the first."""
    return str(args[0][::-1])


def substring(call: Call, args: tuple[Any, ...]) -> str:
    """Return characters from a place, which is counted from 1, or from the end."""
    text, place, count = args
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    end = min(max(start + count, _INT_MIN), _INT_MAX)
    return text[max(start, 0) : end] if end > max(start, 0) else ""


def joined_texts(call: Call, args: tuple[Any, ...]) -> str:
    """Return texts one behind another."""
    if any(not isinstance(arg, str) for arg in args):
        raise NotEvaluated
    return "".join(args)


def concat_ws(call: Call, args: tuple[Any, ...]) -> str:
    """Return texts with a separator between any two."""
    if any(not isinstance(arg, str) for arg in args):
        raise NotEvaluated
    return str(args[0].join(args[1:]))


def starts_with(call: Call, args: tuple[Any, ...]) -> bool:
    """Return whether a text starts with another."""
    return bool(args[0].startswith(args[1]))


def ends_with(call: Call, args: tuple[Any, ...]) -> bool:
    """Return whether a text ends with another."""
    return bool(args[0].endswith(args[1]))


def contains(call: Call, args: tuple[Any, ...]) -> bool:
    """Return whether a text has another in it."""
    return args[1] in args[0]


@lru_cache(maxsize=1024)
def _like_expression(pattern: str, escape: str) -> re.Pattern[str]:
    found, position, most = "", 0, 0
    while position < len(pattern):
        char = pattern[position]
        if char == escape:
            following = pattern[position + 1 : position + 2]
            if not following or following not in ("_", "%", escape):
                raise NotEvaluated
            found, position = found + re.escape(following), position + 2
            continue
        most += char == "%"
        found += {"_": ".", "%": ".*"}.get(char) or re.escape(char)
        position += 1
    if most > 4:
        raise NotEvaluated
    return re.compile(found, re.DOTALL)


def like(call: Call, args: tuple[Any, ...]) -> bool:
    """Return whether a text matches a pattern of LIKE."""
    escape = call.option("escape", "\\")
    if len(args[0]) > _SEARCHED:
        raise NotEvaluated
    return _like_expression(args[1], escape).fullmatch(args[0]) is not None


def stripped(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text without spaces, or some characters, around it."""
    return str(args[0].strip(_trimmed(args)))


def trim_left(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text without spaces, or some characters, in front."""
    return str(args[0].lstrip(_trimmed(args)))


def trim_right(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text without spaces, or some characters, behind it."""
    return str(args[0].rstrip(_trimmed(args)))


def _trimmed(args: tuple[Any, ...]) -> str:
    if len(args) == 2 and not args[1]:
        raise NotEvaluated
    return args[1] if len(args) == 2 else " "


def replaced(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text with another in place of each piece."""
    text, search, other = args
    if not search or len(text) * (1 + len(other)) > 1 << 20:
        raise NotEvaluated
    return str(text.replace(search, other))


def translated(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text with single characters in place of others, or without them."""
    text, matching, other = args
    if "\0" in other or "\0" in matching:
        raise NotEvaluated
    table: dict[int, str] = {}
    for place, char in enumerate(matching):
        table.setdefault(ord(char), other[place] if place < len(other) else "")
    return str(text.translate(table))


def substring_index(call: Call, args: tuple[Any, ...]) -> str:
    """Return what is in front of, or behind, a delimiter that is counted from either end."""
    text, delimiter = (arg.encode() for arg in args[:2])
    count = args[2]
    if not delimiter or not count:
        raise NotEvaluated
    if count > 0:
        place = -1
        for _ in range(min(count, len(text) + 1)):
            place = text.find(delimiter, place + 1)
            if place < 0:
                return str(args[0])
        return _whole(text[:place])
    place = len(text) - len(delimiter) + 1
    for _ in range(min(-count, len(text) + 1)):
        place = text.rfind(delimiter, 0, max(place - 1 + len(delimiter), 0)) if place > 0 else -1
        if place < 0:
            return str(args[0])
    return _whole(text[place + len(delimiter) :])


def _whole(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotEvaluated from error


def split_part(call: Call, args: tuple[Any, ...]) -> str:
    """Return a piece by its number, from 1 or from the end; no text where there is none."""
    text, delimiter, number = args
    if not text or not delimiter or not number:
        raise NotEvaluated
    pieces = text.split(delimiter)
    place = number - 1 if number > 0 else len(pieces) + number
    return pieces[place] if 0 <= place < len(pieces) else ""


def split_texts(call: Call, args: tuple[Any, ...]) -> list[str]:
    """Return the pieces between delimiters that are fixed texts."""
    text, expression, limit = args
    delimiter = fixed_delimiter(expression)
    if len(text) > 4096 or limit == 1:
        raise NotEvaluated
    pieces = text.split(delimiter) if limit <= 0 else text.split(delimiter, limit - 1)
    return list(pieces)


@lru_cache(maxsize=1024)
def fixed_delimiter(expression: str) -> str:
    """Return the one text that a regular expression matches."""
    if not re.fullmatch(r"(?:[A-Za-z0-9 _/:@#%=~,;<>!\"'-]|\\[.|/+*?()\[\]-])+", expression):
        raise NotEvaluated
    return re.sub(r"\\(.)", r"\1", expression)


def first_place(call: Call, args: tuple[Any, ...]) -> int:
    """Return the first place of a part in a text, from 1; 0 if it is not there."""
    if not args[1]:
        raise NotEvaluated
    return int(args[0].find(args[1])) + 1


def locate(call: Call, args: tuple[Any, ...]) -> int:
    """Return the first place of a part, given first, in a text; 0 if it is not there."""
    part, text, start = args
    if not part or start != 1:
        raise NotEvaluated
    return int(text.find(part)) + 1


# Regular expressions: what Java and Python read alike.

_SEARCHED: Final = 256  # characters of a text that is searched
_CLASS: Final = r"\[\^?(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _/.,:;])+\]"
_ATOM: Final = rf"(?:[A-Za-z0-9 _/:@#%=~,;<>!\"'-]|\\[dws.|/+*?()\[\]-]|\.|{_CLASS})"
_KNOWN: Final = re.compile(rf"(?:{_ATOM}(?:[*+?](?![*+?]))?|\((?![?*+])|\)(?![*+?{{])|\||\^|\$)*")


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> re.Pattern[str]:
    if not _KNOWN.fullmatch(expression) or len(re.findall(r"[*+]", expression)) > 3:
        raise NotEvaluated
    if re.search(r"[\^$](?:[*+?^$])|\^\)|\(\$|\(\)|\(\||\|\)|\|\||^\||\|$", expression):
        raise NotEvaluated
    try:
        return re.compile(expression, re.ASCII)
    except re.error as error:
        raise NotEvaluated from error


def _searched(text: str) -> str:
    if len(text) > _SEARCHED or not re.fullmatch(r"[ -~]*", text):
        raise NotEvaluated
    return text


def rlike(call: Call, args: tuple[Any, ...]) -> bool:
    """Return whether a regular expression matches somewhere."""
    return _compiled(args[1]).search(_searched(args[0])) is not None


def extracted(call: Call, args: tuple[Any, ...]) -> str:
    """Return the first match of a group, no text where there is none."""
    text, expression, group = args
    found = _compiled(expression).search(_searched(text))
    if group < 0 or group > _compiled(expression).groups:
        raise NotEvaluated
    return "" if found is None else found[group] or ""


def replaced_matches(call: Call, args: tuple[Any, ...]) -> str:
    """Return a text with another in place of each match."""
    text, expression, other, start = args
    pattern = _compiled(expression)
    if start != 1 or set("$\\") & set(other) or pattern.search(""):
        raise NotEvaluated
    if "$" in expression or re.search(r"(?<!\[)\^", expression) or len(other) > 256:
        raise NotEvaluated
    if any(not found[0] for found in pattern.finditer(_searched(text))):
        raise NotEvaluated
    return pattern.sub(lambda _: other, text)
