"""What a row of a format is kept as, and which row of a message is looked at."""

import numpy as np
import pyarrow as pa
import pytest

from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.readers.kept import keep_row, read_kept
from strata.ingest.readers.messages import guess_messages
from strata.ingest.readers.objects import read_lines
from strata.ingest.readers.rejects import Reject, details


def loaded(text: bytes) -> SourceFile:
    piece = FileRange(0, len(text), len(text), data=text, whole=True)
    return SourceFile("/x", "x", len(text), piece=piece)


def test_a_kept_row_is_the_first_row_of_its_own_file() -> None:
    kept = keep_row({"a": pa.array([1, 2]), "b": [None, {"c": [1.5]}]}, 1)
    assert kept is not None

    raw = read_kept(loaded(kept.encode()), ["a", "b"])

    assert raw.columns == {"a": pa.array([2]), "b": [{"c": [1.5]}]}
    assert raw.locate(np.array([0])) == [(1, "")]


@pytest.mark.parametrize(
    ("envelope", "line"),
    [
        ("append", b'{"id":1}'),
        ("diff", b'{"key":{"x":2},"value":{"id":1}}'),
        ("upsert", b'{"key":{"x":2},"value":{"schema":{},"payload":{"id":1}}}'),
        ("debezium", b'{"before":{"x":2},"after":{"id":1},"op":"u"}'),
        ("debezium", b'{"schema":{},"payload":{"before":null,"after":{"id":1},"op":"c"}}'),
        ("debezium", b'{"key":{"x":2},"value":{"before":null,"after":{"id":1},"op":"c"}}'),
    ],
)
def test_the_columns_of_a_message_are_those_of_its_row(envelope: str, line: bytes) -> None:
    types, rows = guess_messages(read_lines(loaded(line + b"\nnull\n")), envelope)

    assert list(types) == ["id"]
    assert rows == 1


def test_a_message_shows_the_first_200_characters_of_a_value() -> None:
    shown = [details(Reject("x", 1, "a", "y" * n, "bad", ""))["value"] for n in (3, 200, 201)]

    assert shown == ["yyy", "y" * 200, "y" * 200 + "…"]
