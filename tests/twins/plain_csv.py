r"""CSV with `\"`, or with blanks around fields, as plain CSV, byte by byte."""


def doubled(text: bytes, delimiter: bytes, *, skips: bool = False) -> tuple[bytes, int | None]:
    """Return the text, or what is before it, and where a backslash means nothing; None: nowhere.

    `skips`: a quote behind blanks opens a field, too.
    """
    ends = (delimiter, b"\n", b"\r")
    out = b""
    place, at = "begin", 0
    while at < len(text):
        one, after = text[at : at + 1], text[at + 1 : at + 2]
        if place == "quoted" and one == b"\\":
            if after not in (b'"', b"\\", b""):
                return out, at + 1
            out += {b'"': b'""', b"\\": b"\\", b"": b""}[after]
            at += 2
            continue
        out += one
        if one == b'"' and place != "field":
            place = "closing" if place == "quoted" else "quoted"
        elif place != "quoted" and not (skips and place == "begin" and one in b" \t"):
            place = "begin" if one in ends else "field"
        elif one in ends and place != "quoted":
            place = "begin"
        at += 1
    return out, None


def unpadded(text: bytes, delimiter: bytes) -> bytes:
    """Return the text without blanks before fields, and behind their closing quotes."""
    ends = delimiter + b"\r\n"
    out, at = b"", 0
    while at < len(text):
        at = _behind_blanks(text, at, delimiter)
        if text[at : at + 1] == b'"':
            end = _behind_quotes(text, at)
            out += text[at:end]
            at = _behind_blanks(text, end, delimiter)
            if end < at < len(text) and text[at] not in ends:
                out += b" "
        end = next((n for n in range(at, len(text)) if text[n] in ends), len(text))
        out += text[at : end + 1]
        at = end + 1
    return out


def _behind_blanks(text: bytes, at: int, delimiter: bytes) -> int:
    while text[at : at + 1] in (b" ", b"\t") and text[at : at + 1] != delimiter:
        at += 1
    return at


def _behind_quotes(text: bytes, at: int) -> int:
    """Return where a quoted field that begins here is closed; the end: nowhere."""
    at += 1
    while at < len(text):
        if text[at : at + 2] == b'""':
            at += 2
        elif text[at : at + 1] == b'"':
            return at + 1
        else:
            at += 1
    return len(text)
