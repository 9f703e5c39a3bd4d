r"""CSV with `\"` as CSV with doubled quotes, byte by byte."""


def doubled(text: bytes, delimiter: bytes) -> tuple[bytes, int | None]:
    """Return the text, or what is before it, and where a backslash means nothing; None: nowhere."""
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
        elif place != "quoted":
            place = "begin" if one in ends else "field"
        at += 1
    return out, None
