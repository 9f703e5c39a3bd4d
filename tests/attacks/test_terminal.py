"""Text of data, names and reasons is text on a terminal and in a task's log, whatever it says.

Rich reads "[red]" in a table as a colour and drops it, and "[/x]" ends the command: a reason could
hide a part of itself from the approver, or hide the request. A terminal obeys escape sequences.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from strata.cli.remarks import remark
from strata.cli.tables import pairs, plain_cell, rows
from strata.errors import InvalidRequest
from strata.jobs.entry import each_shard, run_job, say
from tests.unit.cli.test_commands import Cli

TERMINAL = (
    "\x1b[2J\x1b[1;1Hall gates passed",
    "\x1b]0;PWN\x07",
    "\x9b31mred",
    "\x1b]8;;http://evil\x1b\\x",
    "good\rbad",
    "a\u202eb",
    "a\u2028b",
    "\x7f\x08\x08",
    "\u200bx",
    "\x00",
    "bob\u3164",
    "al\u034fice\ufe0f\U0001d159",
)
MARKUP = ("[red]", "[/x]", "payload[0]", "[link=http://evil.example]x[/link]", ":smile:", "[", "[[")
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u034f\u3164\ufe0f\U0001d159]"
)


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> Cli:
    monkeypatch.setenv("COLUMNS", "1000")
    found = Cli(tmp_path, capsys)
    found.create()
    return found


@pytest.mark.parametrize("text", [*TERMINAL, *MARKUP])
def test_an_approver_at_a_terminal_sees_all_that_was_said(cli: Cli, text: str) -> None:
    reason = f"before {text} after"
    asked = ("rollout", "request", "events", "--by", f"ann{text}", "--reason", reason)

    code, out, err = cli.run(*asked)
    shown = cli.run("rollout", "show", "events")

    assert (code, shown[0]) == (0, 0), err + shown[2]
    for page in (out, shown[1]):
        assert not OBEYED.search(page)
        assert "before" in page
        assert "after" in page
    if text in MARKUP:
        assert reason in shown[1]


@pytest.mark.parametrize("text", [*TERMINAL, *MARKUP])
def test_every_cell_key_and_title_of_a_table_is_text(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from strata.cli.context import answer

    answer(
        {}, pairs(text, {text: text}), rows(text, [{"a": text, "b": [text]}], ("a", "b")), text
    ).show(as_json=False)

    out = capsys.readouterr().out
    assert not OBEYED.search(out)
    assert out.count(plain_cell(text)) >= 5


@pytest.mark.parametrize("text", TERMINAL)
def test_no_error_reaches_a_terminal_or_a_log_as_more_than_text(
    text: str, cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> Any:
        raise InvalidRequest(f"message {text}", value=text, cure=f"cure {text}")

    assert run_job(str(tmp_path / "result.json"), work) == 2
    each_shard(["s"], lambda _: work())
    say(f"a line {text}\nALERT forged")

    found = capsys.readouterr()
    assert not OBEYED.search(found.out + found.err)
    assert len(found.out.splitlines()) == 1
    code, _, err = cli.run("explain", f"no{text}such".replace("\x00", ""), "--where", text)
    assert code == 2
    assert not OBEYED.search(err)


def test_what_is_said_on_the_way_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    remark("[red]a[/x] :smile: \x1b[2J")

    assert capsys.readouterr().err == "[red]a[/x] :smile: \\u001b[2J\n"
