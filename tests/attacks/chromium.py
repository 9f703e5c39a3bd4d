"""A real Chromium, spoken to in its own protocol: what a page asked for, ran, broke and shows.

Nothing but loopback is reachable: the name that attacks call is the address of a listener, which
notes who came; others are not found. `CHROMIUM` names another program than Debian's.
"""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

from tests.attacks.hostile import OUTSIDE

PATIENCE: Final = 60.0  # seconds; a machine may have much else to do
HERE: Final = "EXCLUDE 127.0.0.1"
TELEPHONE: Final = 600  # pixels; less is one
QUIET: Final = 0.1  # seconds after which a page that does nothing is taken for settled
WORLD: Final = "looks on"  # a world of scripts apart from the page's, which no policy holds
OPTIONS: Final = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
)


class Browser:
    """One Chromium and the listener that stands for the attacker."""

    def __init__(self, line: ClientConnection, outside: list[bytes]) -> None:
        """Speak over `line`; `outside` fills with what came to the listener."""
        self.outside = outside
        self._line, self._number = line, 0
        self._events: list[dict[str, Any]] = []

    def tell(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Send one command; return its result. Raises: RuntimeError as Chromium refuses it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._line.send(json.dumps(message | ({"sessionId": session} if session else {})))
        while True:
            got = json.loads(self._line.recv(timeout=PATIENCE))
            if got.get("id") == self._number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                answer: dict[str, Any] = got["result"]
                return answer
            self._events.append(got)

    def events(self, session: str, quiet: float = 0.0) -> list[dict[str, Any]]:
        """Return the events of a page's session, once there is none for some seconds."""
        while True:
            try:
                self._events.append(json.loads(self._line.recv(timeout=quiet)))
            except TimeoutError:
                break
        return [one for one in self._events if one.get("sessionId") == session]

    def page(self, *, width: int = 1280, dark: bool = False, allowed: bool = False) -> "Tab":
        """Open an empty page; `allowed`: no policy of content holds in it."""
        context = self.tell("Target.createBrowserContext")["browserContextId"]
        made = self.tell("Target.createTarget", url="about:blank", browserContextId=context)
        there = self.tell("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        tab = Tab(self, there["sessionId"], context)
        for domain in ("Page", "Network", "Runtime", "Log", "Audits"):
            tab.tell(f"{domain}.enable")
        tab.show(width=width, dark=dark)
        tab.tell("Page.setBypassCSP", enabled=allowed)
        return tab


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        """Look at a page that is open."""
        self._browser, self._session, self._context = browser, session, context

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command of this page."""
        return self._browser.tell(method, self._session, **params)

    def show(self, *, width: int, dark: bool) -> None:
        """Take another screen or theme."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[theme])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < TELEPHONE}
        self.tell("Emulation.setDeviceMetricsOverride", **size)

    def open(self, address: str) -> None:
        """Go to an address and wait until nothing happens any more."""
        seen = len(self._browser.events(self._session))
        self.tell("Page.navigate", url=address)
        self.settled(seen)

    def settled(self, since: int) -> None:
        """Wait until the page is loaded and quiet."""
        end = time.monotonic() + PATIENCE
        while not any(
            one["method"] == "Page.loadEventFired"
            for one in self._browser.events(self._session, 0.05)[since:]
        ):
            assert time.monotonic() < end, "the page does not load"
        self._browser.events(self._session, QUIET)

    def click(self, selector: str, *, leads: bool = True) -> None:
        """Click on what a selector finds, as a person does, and wait for the page it leads to."""
        found = f"document.querySelector({json.dumps(selector)})"
        x, y = self.look(
            f"({found}.scrollIntoView({{block: 'center'}}),"
            f" (r => [r.x + r.width / 2, r.y + r.height / 2])({found}.getClientRects()[0]))"
        )
        seen = len(self._browser.events(self._session))
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        if leads:
            self.settled(seen)

    def look(self, expression: str) -> Any:
        """Return a value of the document, seen from outside the page's own scripts."""
        frame = self.tell("Page.getFrameTree")["frameTree"]["frame"]["id"]
        world = self.tell("Page.createIsolatedWorld", frameId=frame, worldName=WORLD)
        found = self.tell(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            contextId=world["executionContextId"],
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def heard(self, *methods: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of these kinds."""
        events = self._browser.events(self._session)
        return [one["params"] for one in events if one["method"] in methods]

    def asked(self) -> list[str]:
        """Return the addresses that the page asked for, blocked ones too."""
        return [one["request"]["url"] for one in self.heard("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Return what the browser found wrong: refused by a policy, failed, thrown."""
        found = [str(one["entry"]["text"]) for one in self.heard("Log.entryAdded")]
        found += [str(one["issue"]["code"]) for one in self.heard("Audits.issueAdded")]
        return found + [str(one) for one in self.heard("Runtime.exceptionThrown")]

    def picture(self, file: Path) -> None:
        """Write what the page shows, all of its height."""
        shown = self.tell("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(b64decode(shown["data"]))

    def close(self) -> None:
        """Close the page, and forget its cookies."""
        self._browser.tell("Target.disposeBrowserContext", browserContextId=self._context)


def chromium_program() -> str:
    """Return the Chromium of this machine; empty: it has none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or ""


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Yield a running Chromium whose profile is in `folder`; a machine without one is a failure."""
    program = chromium_program()
    assert program, "this test needs Chromium: install the package chromium, or set CHROMIUM"
    with _listener() as (port, outside):
        world = f"--host-resolver-rules=MAP {OUTSIDE} 127.0.0.1:{port}, MAP * ~NOTFOUND, {HERE}"
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root it has none
        command = [program, *OPTIONS, *root, world, f"--user-data-dir={folder}", "about:blank"]
        with (
            _running(command, folder) as address,
            connect(address, max_size=None, open_timeout=PATIENCE) as line,
        ):
            yield Browser(line, outside)


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield the address at which a program that was started wants to be spoken to."""
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        yield _address(folder / "DevToolsActivePort")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _address(file: Path) -> str:
    """Wait for the file in which Chromium says where it listens."""
    end = time.monotonic() + PATIENCE
    while not file.is_file() or len(file.read_text().splitlines()) < 2:
        assert time.monotonic() < end, "Chromium does not start"
        time.sleep(0.05)
    port, path = file.read_text().splitlines()[:2]
    return f"ws://127.0.0.1:{port}{path}"


@contextmanager
def _listener() -> Iterator[tuple[int, list[bytes]]]:
    """Yield a port, and what was said to whoever came there."""
    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    came, _ = server.accept()
                except OSError:
                    return
                with came:
                    came.settimeout(1)
                    try:
                        said.append(came.recv(4096))
                    except OSError:
                        said.append(b"")

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield server.getsockname()[1], said
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
