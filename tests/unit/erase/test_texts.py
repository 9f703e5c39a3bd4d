"""A term is found in the texts of a blob, whatever its kind, and not in the names Strata gave."""

import io
from base64 import b64encode

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.erase.texts import Terms
from strata.errors import Corrupt
from strata.store import keys

BOB = Terms(("bob@example.org",))
TEXTS = ["carol", None, "to bob@example.org", ""]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_rows_are_found_in_texts_of_each_type(kind: pa.DataType) -> None:
    column = pa.array(TEXTS, pa.string()).cast(kind)

    assert BOB.rows(pa.table({"id": range(4), "x": column})).tolist() == [False, False, True, False]


def test_rows_are_found_at_any_depth_and_in_each_chunk() -> None:
    nested = pa.array([[{"a": text}] for text in TEXTS])
    chunks = pa.chunked_array([pa.array(TEXTS[:2]), pa.array(TEXTS[2:])])

    assert BOB.rows(pa.table({"x": nested})).tolist() == [False, False, True, False]
    assert BOB.rows(pa.table({"x": chunks})).tolist() == [False, False, True, False]
    assert not BOB.rows(pa.table({"x": pa.array([None, None], pa.string())})).any()


def parquet(text: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"bound": [text]}), sink)
    return sink.getvalue()


REJECTED = keys.quarantine_key("s", "t/00ff")


@pytest.mark.parametrize("text", ["to bob@example.org", "to carol"])
def test_a_blob_mentions_a_term_in_what_its_source_said(text: str) -> None:
    said = "bob" in text
    raw = {"raw": text, "file": "in.csv"}
    coded = {"raw": "x", "raw_base64": b64encode(text.encode()).decode()}
    for key, data in (
        (REJECTED, orjson.dumps(raw)),
        (REJECTED, orjson.dumps(coded)),
        (REJECTED, orjson.dumps({"moved": text})),
        (keys.verdict_key("s", "run"), parquet(text)),
        (keys.usage_key("s", "2026-01-01", "001"), orjson.dumps({"filter": text})),
    ):
        assert BOB.in_blob(key, data) == said, (key, data)
    assert BOB.lines(REJECTED, orjson.dumps(raw) + b"\n" + orjson.dumps({"raw": "x"})) == [
        said,
        False,
    ]


@pytest.mark.parametrize(
    ("key", "data"),
    [(keys.verdict_key("s", "run"), b"PAR1"), (keys.receipt_key("s", "00ff"), b"x")],
)
def test_a_blob_that_cannot_be_read_is_named(key: str, data: bytes) -> None:
    with pytest.raises(Corrupt, match="cannot be searched") as caught:
        BOB.in_blob(key, data)
    assert caught.value.details["key"] == key
