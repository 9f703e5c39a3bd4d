r"""The one place that turns what data, people and errors say into text of a message or a question.

Names of columns, filters, reasons and errors are written by those who land data, read or ask. Shown
to an operator they are text: no link, no picture, no call to a whole channel, no hidden sign.
"""

import re
import unicodedata
from typing import Final

_UNSEEN: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # Unicode's categories
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()<>#+!|~&:$-])")


def seen(text: str) -> str:
    r"""Return the text with what cannot be seen spelled out; lines stay lines.

    >>> seen("a\u202eb\r\nc")
    'a\\u202eb\\u000d\nc'
    """
    return "".join(
        f"\\u{ord(c):04x}" if c != "\n" and unicodedata.category(c) in _UNSEEN else c for c in text
    )


def line(text: str) -> str:
    r"""Return the text as one line: a header of a mail is one.

    >>> line("a\nBcc: b")
    'a Bcc: b'
    """
    return seen(text.replace("\n", " "))


def chat(text: str) -> str:
    """Return the text for a chat that reads `<...>` as links and calls.

    >>> chat("<!channel> a & b")
    '&lt;!channel&gt; a &amp; b'
    """
    return seen(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown(text: str) -> str:
    r"""Return the text for Markdown, on one line: each of its signs stands for itself.

    >>> markdown("![x](http://a|b)\n<b>")
    '\\!\\[x\\]\\(http\\://a\\|b\\) \\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", line(text))
