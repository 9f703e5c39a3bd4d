"""The formatter lays out everything but tables, which it would make long and hard to read."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
# Lines that a table is spared on average; a call with many arguments is spared two or three.
SPARED: Final = 10
SKIP: Final = re.compile(r" *# fmt: skip$", re.MULTILINE)
SOURCES: Final = ("benchmarks", "dags", "demo", "jobs", "plugins", "requirements", "strata")
TESTS: Final = ("tests", "tools")


def marked() -> dict[str, tuple[str, int]]:
    """Return the text of each source with marks, and how many it has."""
    found: dict[str, tuple[str, int]] = {}
    for folder in (*SOURCES, *TESTS):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text("utf-8")
            if count := len(SKIP.findall(text)):
                found[file.relative_to(ROOT).as_posix()] = (text, count)
    return found


def formatted(texts: dict[str, str], folder: Path) -> dict[str, str]:
    """Return what the formatter makes of some sources."""
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    shutil.copy(ROOT / "pyproject.toml", folder)
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "format", "--no-cache", "-q", folder], check=True)
    return {name: (folder / name).read_text("utf-8") for name in texts}


def lines(text: str) -> int:
    return text.count("\n")


def test_only_tables_are_kept_from_the_formatter(tmp_path: Path) -> None:
    sources = marked()
    assert sources
    bare = {name: SKIP.sub("", text) for name, (text, _) in sources.items()}
    spared = {
        name: (lines(text) - lines(sources[name][0])) / sources[name][1]
        for name, text in formatted(bare, tmp_path).items()
    }
    assert not {name: mean for name, mean in spared.items() if mean < SPARED}


def test_a_mark_on_a_call_is_seen(tmp_path: Path) -> None:
    call = "found = function(\n    a, b, c,\n)\n"
    [text] = formatted({"strata/one.py": call}, tmp_path).values()
    assert lines(text) - lines(call) < SPARED
