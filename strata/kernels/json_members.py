"""A kernel that finds the members of JSON objects, one on each line: keys and where values stand.

It does not judge JSON. What it cannot follow at once (an escape in a key, a repeated wanted key,
anything behind the object) ends the attempt, and the lines are read one by one.
"""

from typing import Final

from strata.kernels.arrays import Bools, Bytes, Ints
from strata.kernels.jit import inlined, lean

OTHERS: Final = 256  # different keys that are not wanted
_QUOTE, _BACKSLASH, _COMMA, _COLON = (ord(char) for char in '"\\,:')
_BRACE, _UNBRACE, _BRACKET, _UNBRACKET = (ord(char) for char in "{}[]")
_SPACE, _TAB, _RETURN, _BREAK = (ord(char) for char in " \t\r\n")
_MINUS: Final = ord("-")
_BEHIND_VALUE: Final = (_COMMA, _UNBRACE, _UNBRACKET, _SPACE, _TAB, _RETURN, _BREAK)


@inlined
def _blank(data: Bytes, at: int, stop: int) -> int:
    """Return the first place that is not blank."""
    while at < stop:
        byte = data[at]
        if byte not in (_SPACE, _TAB, _RETURN):
            break
        at += 1
    return at


@inlined
def _text_end(data: Bytes, at: int, stop: int) -> int:
    """Return where the quote is that ends a text; `stop` or beyond if there is none."""
    while at < stop and data[at] != _QUOTE:
        at += 2 if data[at] == _BACKSLASH else 1
    return at


@inlined
def _value_end(data: Bytes, at: int, stop: int) -> int:
    """Return where a value ends; beyond `stop` if it does not."""
    first = data[at]
    if first == _QUOTE:
        return _text_end(data, at + 1, stop) + 1
    if first in (_BRACE, _BRACKET):
        depth = 0
        while at < stop:
            byte = data[at]
            if byte == _QUOTE:
                at = _text_end(data, at + 1, stop)
            elif byte in (_BRACE, _BRACKET):
                depth += 1
            elif byte in (_UNBRACE, _UNBRACKET):
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return stop + 1
    while at < stop:
        byte = data[at]
        if byte in (_COMMA, _UNBRACE, _SPACE, _TAB, _RETURN):
            break
        at += 1
    return at


@inlined
def _is_at(data: Bytes, at: int, size: int, other: Bytes, place: int) -> bool:
    """Return whether both have the same bytes there."""
    for n in range(size):
        if data[at + n] != other[place + n]:
            return False
    return True


@lean
def _known(data: Bytes, at: int, size: int, names: Bytes, borders: Ints, guess: int) -> int:
    """Return the number of a name, beginning with `guess`; -1 if it is none."""
    count = len(borders) - 1
    for step in range(count):
        number = (guess + step) % count
        place = borders[number]
        if borders[number + 1] - place == size and _is_at(data, at, size, names, place):
            return number
    return -1


@lean
def _noted(data: Bytes, at: int, size: int, others: Ints, count: int) -> int:
    """Note a key that is not wanted; return how many there are."""
    for number in range(count):
        if others[number, 1] == size and _is_at(data, at, size, data, others[number, 0]):
            return count
    if count < len(others):
        others[count, 0], others[count, 1] = at, size
    return count + 1


@lean
def find_members(  # noqa: C901, PLR0912 -- one loop
    data: Bytes,
    starts: Ints,
    stops: Ints,
    names: Bytes,
    borders: Ints,
    begins: Ints,
    ends: Ints,
    others: Ints,
) -> int:
    """Fill in where the values of the named members are; return how many other keys there are.

    Shape: object n is data[starts[n]:stops[n]]; name c is names[borders[c]:borders[c + 1]], and its
    value data[begins[c, n]:ends[c, n]] if begins[c, n] was not left as it was: -1. `others` has
    OTHERS rows, the place and size of a key. -1: the lines have to be read one by one.
    """
    count = 0
    for row in range(len(starts)):
        stop, guess = stops[row], 0
        at = _blank(data, starts[row], stop)
        if at >= stop or data[at] != _BRACE:
            return -1
        at = _blank(data, at + 1, stop)
        while at < stop and data[at] != _UNBRACE:
            if data[at] != _QUOTE:
                return -1
            key = at + 1
            at = key
            while at < stop and data[at] != _QUOTE:
                if data[at] == _BACKSLASH:
                    return -1
                at += 1
            size = at - key
            at = _blank(data, at + 1, stop)
            if at >= stop or data[at] != _COLON:
                return -1
            begin = _blank(data, at + 1, stop)
            if begin >= stop:
                return -1
            end = _value_end(data, begin, stop)
            number = _known(data, key, size, names, borders, guess)
            if number < 0:
                count = _noted(data, key, size, others, count)
            elif begins[number, row] >= 0:
                return -1
            else:
                begins[number, row], ends[number, row] = begin, end
                guess = number + 1
            if count > len(others) or end == begin:
                return -1
            at = _blank(data, end, stop)
            if at >= stop:
                return -1
            if data[at] == _COMMA:
                at = _blank(data, at + 1, stop)
                if at >= stop or data[at] != _QUOTE:
                    return -1
            elif data[at] != _UNBRACE:
                return -1
        if at >= stop or _blank(data, at + 1, stop) < stop:
            return -1
    return count


@inlined
def _word_at(data: Bytes, at: int, word: Bytes) -> bool:
    """Return whether a word stands there."""
    return at + len(word) <= len(data) and _is_at(data, at, len(word), word, 0)


@lean
def misleads(data: Bytes, null: Bytes, nan: Bytes, inf: Bytes, infinity: Bytes) -> bool:
    """Return whether a text may have what another reader takes for JSON.

    That is a null behind an object, or NaN, Inf or Infinity as a value. Errs: also sees them in
    texts.
    """
    for place in range(len(data)):
        byte = data[place]
        if byte == _UNBRACE:
            if _word_at(data, _blank(data, place + 1, len(data)), null):
                return True
        elif byte in (_COLON, _COMMA, _BRACKET):
            at = _blank(data, place + 1, len(data))
            if at < len(data) and data[at] == _MINUS:
                at += 1
            end = at
            if _word_at(data, at, nan):
                end = at + len(nan)
            elif _word_at(data, at, infinity):
                end = at + len(infinity)
            elif _word_at(data, at, inf):
                end = at + len(inf)
            if end > at and (end == len(data) or data[end] in _BEHIND_VALUE):
                return True
    return False


@lean
def copy_values(
    data: Bytes, begins: Ints, ends: Ints, words: Bytes, borders: Ints, valid: Bools, out: Bytes
) -> None:
    """Copy values one behind another; one that is lacking or null is empty and not valid.

    Shape: value n ends at borders[n + 1] in `out`, which is as long as all values; `words`: the
    bytes "null".
    """
    place = 0
    for row in range(len(begins)):
        begin = begins[row]
        size = ends[row] - begin
        valid[row] = begin >= 0
        if begin >= 0 and size == len(words) and _is_at(data, begin, size, words, 0):
            valid[row] = False
        if valid[row]:
            for n in range(size):
                out[place + n] = data[begin + n]
            place += size
        borders[row + 1] = place


@lean
def _copied(data: Bytes, begin: int, end: int, out: Bytes, place: int) -> int:
    for at in range(begin, end):
        out[place] = data[at]
        place += 1
    return place


@lean
def narrower(data: Bytes, begins: Ints, ends: Ints, keys: Bytes, borders: Ints, out: Bytes) -> int:
    """Write objects of some members, one on each line; return how many bytes they have.

    Shape: as in `find_members`; key c is keys[borders[c]:borders[c + 1]], with quotes and colon.
    `out` has room for all keys and values, one byte more for each, and three more for each object.
    """
    place = 0
    for row in range(begins.shape[1]):
        out[place] = _BRACE
        place += 1
        first = place
        for name in range(len(begins)):
            if begins[name, row] < 0:
                continue
            if place > first:
                out[place] = _COMMA
                place += 1
            place = _copied(keys, borders[name], borders[name + 1], out, place)
            place = _copied(data, begins[name, row], ends[name, row], out, place)
        out[place], out[place + 1] = _UNBRACE, _BREAK
        place += 2
    return place


@lean
def array_lines(  # noqa: C901, PLR0912 -- one loop
    data: Bytes, out: Bytes
) -> tuple[int, int]:
    """Write the elements of one JSON array as lines, without blanks around them.

    Shape: (commas between elements, bytes written); `out` is as long as `data`. Line breaks inside
    an element become blanks: JSON has none in its texts. -1 commas: this is no array, something
    stands beside it, or a text has a line break.
    """
    depth = commas = at = place = 0
    ended = False
    while at < len(data):
        byte = data[at]
        out[place] = byte
        if byte == _QUOTE:
            end = _text_end(data, at + 1, len(data))
            if depth < 1 or end >= len(data):
                return -1, place
            while at < end:
                at += 1
                place += 1
                out[place] = data[at]
                if data[at] in (_BREAK, _RETURN):
                    return -1, place
        elif byte in (_BRACE, _BRACKET):
            if depth == 0:
                if ended or byte == _BRACE:
                    return -1, place
                place -= 1
            depth += 1
        elif byte in (_UNBRACE, _UNBRACKET):
            depth -= 1
            if depth == 0:
                ended = True
                place -= 1
                if byte == _UNBRACE:
                    return -1, place
        elif byte in (_SPACE, _TAB, _BREAK, _RETURN):
            out[place] = _SPACE
            if depth <= 1:
                place -= 1
        elif depth < 1:
            return -1, place
        elif byte == _COMMA and depth == 1:
            out[place] = _BREAK
            commas += 1
        at += 1
        place += 1
    return (commas if ended and depth == 0 else -1), place
