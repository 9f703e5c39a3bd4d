"""The tests that the documents name as proofs exist, and every law and every bug has one."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")


NOT_YET: set[int] = set()  # laws that docs/reference/laws.md says nobody holds yet


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        ("docs/reference/laws.md", sorted({*range(1, 18)} - NOT_YET)),
        ("docs/reference/peers.md", [*range(1, 26)]),
    ],
)
def test_every_proof_that_is_named_exists(document: str, rows: list[int]) -> None:
    text = (PROJECT / document).read_text("utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| \d+", line)]
    assert [int(re.findall(r"\d+", line)[0]) for line in lines] == rows
    for line in lines:
        assert NAMED.search(line), line
    for path, name in NAMED.findall(text):
        source = (PROJECT / path).read_text("utf-8")
        assert not name or re.search(rf"^ *def {name}\(", source, re.MULTILINE), f"{path}::{name}"
