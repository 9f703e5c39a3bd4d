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
OUTSIDE: Final = "evil.example"  # who would be called
CALLING: Final = (
    f"<img src=//{OUTSIDE}/a>",
    f"<link rel=stylesheet href=http://{OUTSIDE}/b>",
    f"<style>@import url(http://{OUTSIDE}/c)</style>",
    f"<meta http-equiv=refresh content='0;url=http://{OUTSIDE}/d'>",
    f"</td></table><iframe src=http://{OUTSIDE}/e></iframe>",
    f"<p style='background:url(http://{OUTSIDE}/f)'>x</p>",
    f"<base href=http://{OUTSIDE}/>",
    f"<form action=http://{OUTSIDE}/g><button autofocus onfocus={MARK}(7)>x</button></form>",
    f"<details open ontoggle={MARK}(8)>x</details>",
)
# What a template, a second reading or a script around it would make of it.
TRICKY: Final = (
    f"{{{{ {MARK} }}}} {{% raw %}} ${{{MARK}}} $value $column $$",
    f"&lt;img src=x onerror={MARK}(9)&gt; &#60;script&#62;{MARK}(10)&#60;/script&#62; &amp;lt;",
    f"javascript:{MARK}(11)",
    f"a['\"><script>{MARK}(12)</script>'].b[0]",
    f"to_json(`<svg/onload={MARK}(13)>`)",
    f"--><!--<script>{MARK}(14)</script>]]>",
)
_LIVE: Final = re.compile(rf"<[^<>]*{MARK}|<script>\s*{MARK}", re.IGNORECASE)
_IN_ATTRIBUTE: Final = re.compile(rf"=\"[^\"]*\"[^\"<>]*on\w+={MARK}")


def live(page: str) -> list[str]:
    """Return what a browser would run of the hostile texts in a page of HTML."""
    return _LIVE.findall(page) + _IN_ATTRIBUTE.findall(page)
