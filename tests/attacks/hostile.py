"""What an attacker writes wherever text goes in, and what must not come out of it."""

import re
from typing import Final

MARK: Final = "PWN"
HOSTILE: Final = (
    f"<img src=x onerror={MARK}(1)>",
    f"<script>{MARK}(2)</script>",
    f"\"'><svg onload={MARK}(3)>",
    f"</script><script>{MARK}(4)</script>",
    f"'}}];</script><iframe srcdoc={MARK}>",
    f"\\x3cimg src=x onerror={MARK}(5)\\x3e",
    f"<a href=javascript:{MARK}(6)>x</a>",
)
_LIVE: Final = re.compile(rf"<[^<>]*{MARK}|<script>\s*{MARK}", re.IGNORECASE)
_IN_ATTRIBUTE: Final = re.compile(rf"=\"[^\"]*\"[^\"<>]*on\w+={MARK}")


def live(page: str) -> list[str]:
    """Return what a browser would run of the hostile texts in a page of HTML."""
    return _LIVE.findall(page) + _IN_ATTRIBUTE.findall(page)
