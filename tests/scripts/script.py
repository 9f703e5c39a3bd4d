"""Script tests: command files with their expected output, readable without the code.

    # what this shows
    command word name=value name=value
    ----
    expected output

Blocks are separated by empty lines. A line that starts with `#` is a comment. An error is
printed as its kind and message. `STRATA_GOLDEN=rewrite` (`make golden`) writes the actual
output into the file; a person reads the difference.
"""

import os
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from strata.errors import StrataError
from tests.support.failing_stores import CrashError

Command = Callable[[str, list[str], dict[str, str]], str]
SEPARATOR = "----"


def run_script(path: Path, command: Command) -> None:
    """Run every command of the file; fail where the output is not the expected one."""
    wanted = path.read_text(encoding="utf-8")
    actual = (
        "\n\n".join(_run_block(block, command) for block in wanted.strip().split("\n\n")) + "\n"
    )
    if os.environ.get("STRATA_GOLDEN") == "rewrite":
        path.write_text(actual, encoding="utf-8")
    elif actual != wanted:
        lines = unified_diff(wanted.splitlines(), actual.splitlines(), "expected", "actual")
        pytest.fail("\n".join([path.name, *lines]), pytrace=False)


def _run_block(block: str, command: Command) -> str:
    lines = block.split("\n")
    comments = [line for line in lines if line.startswith("#")]
    rest = [line for line in lines if not line.startswith("#")]
    if not rest:
        return "\n".join(comments)
    text = rest[0]
    name, *items = text.split()
    words = [item for item in items if "=" not in item]
    options = dict(item.split("=", 1) for item in items if "=" in item)
    try:
        output = command(name, words, options)
    except StrataError as error:
        output = f"{type(error).__name__}: {error.message}"
    except CrashError as error:
        output = f"crashed at {error}"
    return "\n".join([*comments, text, SEPARATOR, *output.splitlines()])
