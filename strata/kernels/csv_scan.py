"""Kernels that find where the records of CSV end: the parser's machine, byte by byte.

A quote opens only at the beginning of a field, or behind the quote that closed one (a doubled
quote). Elsewhere it is a character. A line break ends a record unless a quote is open.
"""

from typing import Final

from strata.kernels.arrays import Bytes, Ints
from strata.kernels.jit import inlined, lean

BEGIN: Final = 0  # the next byte begins a field
FIELD: Final = 1
QUOTED: Final = 2
CLOSING: Final = 3  # the byte before was a quote that may have closed the field
ESCAPED: Final = 4  # within quotes, behind a backslash; only in what `doubled_quotes` reads
CLOSED: Final = 5  # behind a closed field and blanks; only in what `without_blanks` reads
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_BREAK: Final = ord("\n")
_RETURN: Final = ord("\r")
_TAB: Final = ord("\t")
_BLANK: Final = ord(" ")


@inlined
def _field_end(data: Bytes, at: int, delimiter: int) -> int:
    """Return where the rest of a field without open quotes ends."""
    while at < len(data):
        byte = data[at]
        if byte in (delimiter, _BREAK, _RETURN):
            break
        at += 1
    return at


@inlined
def _quote_end(data: Bytes, at: int) -> tuple[int, int]:
    """Return where the next quote is, and how many line breaks are before it."""
    breaks = 0
    while at < len(data) and data[at] != _QUOTE:
        breaks += data[at] == _BREAK
        at += 1
    return at, breaks


@lean
def record_ends(data: Bytes, state: int, delimiter: int) -> tuple[int, int, int, int]:
    """Return the state behind a block, where its last record ends, and how many lines it has.

    Shape: (state, bytes up to the last line break outside quotes, line breaks in them, all of
    them). `state`: in which the block begins.
    """
    at = end = before = lines = 0
    while at < len(data):
        if state == QUOTED:
            at, breaks = _quote_end(data, at)
            lines += breaks
            state = CLOSING if at < len(data) else QUOTED
            at += 1
        elif data[at] == _QUOTE and state != FIELD:
            state = QUOTED
            at += 1
        else:
            at = _field_end(data, at, delimiter)
            state = BEGIN if at < len(data) else FIELD
            if at < len(data) and data[at] == _BREAK:
                lines += 1
                end, before = at + 1, lines
            at += 1
    return state, end, before, lines


@lean
def find_records(
    data: Bytes, delimiter: int, wanted: Ints, starts: Ints, stops: Ints, lines: Ints
) -> int:
    """Fill in where the wanted records are, and the line breaks before each; return their number.

    Shape: `wanted` ascending, from 0; blank lines are no records. A lone carriage return ends a
    record as well. A record's end is that of its text, before the line break.
    """
    at = begin = count = found = breaks = begun = 0
    state = BEGIN
    while at <= len(data):
        if at < len(data) and data[at] == _QUOTE and state != FIELD:
            at, inside = _quote_end(data, at + 1)
            breaks += inside
            at, state = min(at + 1, len(data)), CLOSING
            continue
        at = _field_end(data, at, delimiter)
        state = BEGIN
        if at == len(data) or data[at] != delimiter:
            if at > begin:
                if found < len(wanted) and wanted[found] == count:
                    starts[found], stops[found], lines[found] = begin, at, begun
                    found += 1
                count += 1
            if at < len(data) and data[at] == _BREAK:
                breaks += 1
            begin, begun = at + 1, breaks
        at += 1
    return count


@inlined
def _state_behind(byte: int, state: int, delimiter: int, skips: bool) -> int:
    """Return the state behind a byte outside quotes that opens none."""
    if byte in (delimiter, _BREAK, _RETURN):
        return BEGIN
    if skips and state == BEGIN and byte in (_BLANK, _TAB):
        return BEGIN
    return FIELD


@lean
def doubled_quotes(
    data: Bytes, state: int, delimiter: int, skips: bool, out: Bytes
) -> tuple[int, int, int]:
    """Write a block whose quotes are escaped by backslashes with doubled quotes.

    Shape: (state behind the block, bytes written, where a backslash within quotes stands before
    something else than a quote or a backslash; -1: nowhere). `skips`: a quote behind blanks opens a
    field, too. `out` has room for one byte more than `data` has.
    """
    made = 0
    for at in range(len(data)):
        byte = data[at]
        if state == ESCAPED:
            if byte == _QUOTE:
                out[made] = _QUOTE
                made += 1
            elif byte != _BACKSLASH:
                return state, made, at
            state = QUOTED
        elif state == QUOTED:
            if byte == _BACKSLASH:
                state = ESCAPED
                continue
            if byte == _QUOTE:
                state = CLOSING
        elif byte == _QUOTE and state != FIELD:
            state = QUOTED
        else:
            state = _state_behind(byte, state, delimiter, skips)
        out[made] = byte
        made += 1
    return state, made, -1


@lean
def without_blanks(data: Bytes, state: int, delimiter: int, out: Bytes) -> tuple[int, int]:
    """Write a block without blanks and tabs before its fields, and behind their closing quotes.

    Shape: (state behind the block, bytes written). `out` has room for one byte more than `data`
    has: a blank that a block before it left out, if a field goes on behind its closing quote.
    """
    made = 0
    for at in range(len(data)):
        byte = data[at]
        if state == QUOTED:
            if byte == _QUOTE:
                state = CLOSING
        elif byte in (delimiter, _BREAK, _RETURN):
            state = BEGIN
        elif state != FIELD and byte in (_BLANK, _TAB):
            if state == CLOSING:
                state = CLOSED
            continue
        elif byte == _QUOTE and state in (BEGIN, CLOSING):
            state = QUOTED
        else:
            if state == CLOSED:
                out[made] = _BLANK
                made += 1
            state = FIELD
        out[made] = byte
        made += 1
    return state, made


@lean
def blanks_before_fields(data: Bytes, delimiter: int) -> tuple[int, int, int]:
    """Return how many fields behind a delimiter begin with blanks, and how many do not.

    Shape: (those with blanks, those of them that are quoted, others that are not empty). Quotes
    hide delimiters also where blanks stand before them.
    """
    begun = quoted = others = 0
    state, blank, behind = BEGIN, False, False
    for at in range(len(data)):
        byte = data[at]
        if state == QUOTED:
            if byte == _QUOTE:
                state = CLOSING
        elif byte in (delimiter, _BREAK, _RETURN):
            state, blank, behind = BEGIN, False, byte == delimiter
        elif state == BEGIN and byte in (_BLANK, _TAB):
            blank = True
        elif state == BEGIN:
            state = QUOTED if byte == _QUOTE else FIELD
            if behind:
                begun += blank
                quoted += blank and byte == _QUOTE
                others += not blank
        elif state == CLOSING and byte == _QUOTE:
            state = QUOTED
    return begun, quoted, others


@lean
def swallowing(data: Bytes, delimiter: int) -> int:
    """Return where a quoted field begins that has line breaks and goes on behind its end; or -1.

    Its quote was never closed; that of a later row ends it, and the rows between are in its text.
    """
    at = 0
    while at < len(data):
        if data[at] == _QUOTE:
            start, breaks, doubled = at, 0, True
            while doubled:
                at, inside = _quote_end(data, at + 1)
                breaks += inside
                at += 1
                doubled = at < len(data) and data[at] == _QUOTE
            if at >= len(data):
                return -1
            byte = data[at]
            ends = byte in (delimiter, _BREAK, _RETURN, _TAB, _BLANK)
            if breaks > 0 and not ends:
                return start
        at = _field_end(data, at, delimiter) + 1
    return -1
