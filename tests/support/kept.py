"""Cases that were found to fail, kept in `tests/found` beside the tests: replayed until mended.

`make explore` writes them and every other run reads them, before it draws cases of its own. A file
is one case of one test: Hypothesis's choices, in hexadecimal digits. It goes by the test's name,
so that it is tried again when the body of the test has changed; when the test has another name,
or draws otherwise, give it the case as an `@example` and delete the file.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from hypothesis.database import ExampleDatabase

FOLDER: Final = Path(os.environ.get("STRATA_FOUND") or Path(__file__).parents[1] / "found")
ASIDE: Final = (b".secondary", b".pareto")  # larger cases that Hypothesis passed on its way


class Kept(ExampleDatabase):
    """The kept cases of the test that runs; only `writable` ones are added to."""

    def __init__(self, folder: Path = FOLDER, *, writable: bool = False) -> None:
        """Look at nothing yet."""
        super().__init__()
        self.folder, self._writable = folder, writable
        self._mine: set[Path] = set()

    def __eq__(self, other: object) -> bool:
        """Tell whether this is the same folder."""
        return isinstance(other, Kept) and other.folder == self.folder

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """Yield the cases of the test that runs."""
        if key.endswith(ASIDE):
            return
        for path in sorted(self.folder.glob(f"{_stem(_running())}-*.json")):
            yield bytes.fromhex(json.loads(path.read_text())["case"])

    def save(self, key: bytes, value: bytes) -> None:
        """Keep a case that fails."""
        path = self._path(value)
        if not self._writable or key.endswith(ASIDE) or path.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"test": _running(), "case": value.hex()}, indent=1) + "\n")
        self._mine.add(path)

    def delete(self, key: bytes, value: bytes) -> None:
        """Forget a case for which a smaller one was found; what was there before stays."""
        path = self._path(value)
        if not key.endswith(ASIDE) and path in self._mine:
            path.unlink(missing_ok=True)

    def _path(self, value: bytes) -> Path:
        digest = hashlib.sha256(value).hexdigest()[:12]
        return self.folder / f"{_stem(_running())}-{digest}.json"


def kept_of(test: str, folder: Path = FOLDER) -> list[Path]:
    """Return the files that keep cases of a test."""
    return sorted(folder.glob(f"{_stem(test)}-*.json"))


def _running() -> str:
    """Return the name of the test that runs, as pytest has it."""
    return os.environ["PYTEST_CURRENT_TEST"].rsplit(" (", 1)[0]


def _stem(test: str) -> str:
    """Return how the files of a test begin: what a person recognises, and a digest."""
    name = re.sub(r"\W+", "_", test.rsplit("::", 1)[-1])[:80].strip("_")
    return f"{name}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"


def seeded(test: Any, name: str, seed: str) -> None:
    """Let a test with Hypothesis draw the cases of a seed: the same ones in every run.

    As `hypothesis.seed` does, and as `--hypothesis-seed`; but these replay nothing that is kept.
    """
    machine = getattr(test, "_hypothesis_state_machine_class", None)
    drawn = machine or getattr(test, "__func__", test)
    drawn._hypothesis_internal_use_seed = f"{seed} {name}"


def note_failure(path: str, name: str, message: str) -> None:
    """Add a test that failed to a file of lines, for `tools.explore`."""
    with Path(path).open("a") as file:
        file.write(json.dumps({"test": name, "message": message}) + "\n")
