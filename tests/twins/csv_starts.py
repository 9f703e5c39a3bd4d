"""Where the records of a CSV text begin, one record at a time, by a regular expression."""

import re


def record_starts(data: bytes, delimiter: str = ",") -> list[int]:
    """Return where each record that is not blank begins, in bytes; the header is the first.

    A quote opens only at the beginning of a field; anything after the closing quote is text. A lone
    carriage return also ends a record.
    """
    other = b"[^\\r\\n" + re.escape(delimiter.encode()) + b"]*+"
    field = b'(?:"[^"]*+(?:""[^"]*+)*+"?)?+' + other
    record = re.compile(field + b"(?:" + re.escape(delimiter.encode()) + field + b")*+")
    starts: list[int] = []
    position = 0
    while position < len(data):
        found = record.match(data, position)
        assert found is not None
        if found.end() > position:
            starts.append(position)
        position = found.end() + (2 if data.startswith(b"\r\n", found.end()) else 1)
    return starts


def swallowed_at(data: bytes, delimiter: str = ",") -> int:
    """Return where a quoted field begins that has line breaks and goes on behind its end; or -1."""
    cut = re.escape(delimiter.encode())
    field = rb'("[^"]*+(?:""[^"]*+)*+"(?P<behind>[^\r\n\t "%b])?)?+[^\r\n%b]*+(?:%b|[\r\n]|\Z)'
    fields = re.finditer(field % (cut, cut, cut), data)
    found = (f.start() for f in fields if f["behind"] is not None and b"\n" in f[1])
    return next(found, -1)
