"""A real browser with the network off: it reaches the loopback address and nothing else."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from demo.places import HIDDEN, PROJECT

WIDTH, HEIGHT = 1280, 800
PATIENCE_MS: Final = 240_000  # a page on a machine that has much else to do
KIB_MAX: Final = 150  # of a picture
# Where this machine keeps things, and what pictures show instead; the longest path first.
ELSEWHERE: Final = sorted(
    {
        str(HIDDEN): "/srv/strata/.strata",
        str(PROJECT): "/srv/strata",
        sys.base_prefix: "/usr",
        str(Path.home()): "/home/ann",
    }.items(),
    key=lambda pair: -len(pair[0]),
)
MOVE: Final = """pairs => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let text = texts.nextNode(); text; text = texts.nextNode())
        for (const [here, there] of pairs)
            if (text.data.includes(here)) text.data = text.data.replaceAll(here, there)
    return pairs.filter(([here]) => document.body.innerText.includes(here)).map(([here]) => here)
}"""
OFFLINE: Final = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"


class Walker:
    """One person at one browser, who takes pictures."""

    def __init__(self, page: Any, base: str, folder: Path) -> None:
        """Begin at Airflow's address `base`; pictures go to `folder`."""
        self.page, self.base, self.folder = page, base, folder
        self.outside: list[str] = []  # addresses that pages asked for beyond this machine
        page.context.on("request", self._seen)

    def log_in(self, user: str, password: str) -> None:
        """Log in to Airflow."""
        self.page.goto(f"{self.base}/auth/login")
        self.page.fill("input[name=username]", user)
        self.page.fill("input[name=password]", password)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(lambda url: "/auth/" not in url)

    def go(self, path: str, *, see: str) -> None:
        """Open a page and wait until it shows a text."""
        self.page.goto(path if "://" in path else self.base + path, wait_until="commit")
        self.see(see)

    def see(self, text: str) -> None:
        """Wait until a text is there to be seen."""
        self.page.get_by_text(text).filter(visible=True).first.wait_for()

    def click(self, text: str, *, role: str = "button", exact: bool = False) -> None:
        """Click what bears this text."""
        self.page.get_by_role(role, name=text, exact=exact).first.click()

    def shot(self, name: str, *, full: bool = False) -> Path:
        """Take a picture of what is to be seen now, with no path of this machine in it."""
        self.page.bring_to_front()  # what is behind another window is not drawn
        self.page.wait_for_timeout(2500)  # for what is drawn after it is there
        left = self.page.evaluate(MOVE, ELSEWHERE)
        assert not left, f"{name} shows {left}"
        file = self.folder / f"{name}.png"
        self.page.screenshot(path=str(file), full_page=full)
        shrink(file)
        return file

    def _seen(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.outside.append(request.url)


@contextmanager
def browser(base: str, folder: Path, *, dark: bool = False) -> Iterator[Callable[[], Walker]]:
    """Yield how a window of 1280 by 800 is opened, each for a person of its own.

    Needs Chromium (`CHROMIUM` names another program) and the package playwright.
    """
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox", OFFLINE])

        def window() -> Walker:
            theme = "dark" if dark else "light"
            size = {"width": WIDTH, "height": HEIGHT}
            own = opened.new_context(viewport=size, color_scheme=theme, timezone_id="UTC")
            page = own.new_page()
            page.set_default_timeout(PATIENCE_MS)
            return Walker(page, base, folder)

        yield window
        opened.close()


def shrink(file: Path) -> None:
    """Give a picture a palette of its own, which is a third of the bytes."""
    from PIL import Image

    with Image.open(file) as picture:
        for colours in (255, 128, 64):
            picture.convert("RGB").quantize(colours).save(file, optimize=True)
            if file.stat().st_size <= KIB_MAX * 1024:
                break
