r"""The only place that turns data, people's words and errors into text of messages and questions.

Names of columns, filters, reasons and errors are written by people who land data, read or ask. An
operator sees them as text: no link, no picture, no call to a whole channel, no hidden character.
"""

import re
from typing import Final

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()<>#+!|~&:$-])")


def seen(text: str) -> str:
    r"""Return the text with invisible characters spelled out; lines stay lines.

    >>> seen("a\u202eb\r\nc")
    'a\\u202eb\\u000d\nc'
    """
    from strata.model.shown import visible  # when there is something to say

    return visible(text, lines=True)


def line(text: str) -> str:
    r"""Return the text as one line, for example for a header of a mail.

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
    r"""Return the text for Markdown, on one line: each special character is escaped.

    >>> markdown("![x](http://a|b)\n<b>")
    '\\!\\[x\\]\\(http\\://a\\|b\\) \\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", line(text))
