"""JSON from nowhere, for each reader of it: a value, a refusal, never anything else.

An input is one byte for the reader, then the text.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa

from strata.errors import StrataError
from strata.expr.exprjson import load_filter
from strata.ingest.land.files import SourceFile
from strata.ingest.readers.objects import read_array, read_lines
from strata.ingest.values.cast import from_objects, from_text
from strata.model.types import parse_type
from strata.state.codec import decode_commits, decode_nodes, decode_state
from strata.stats.json_scan import Scanner
from tests.formats import every_type

FROZEN: Final = Path(__file__).parents[1] / "formats" / "v1" / "state.json"
TYPES: Final = [parse_type(text) for text in every_type.TYPES]
# Made once: a file for readers of files, on a memory file system where there is one.
FOLDER: Final = Path(tempfile.mkdtemp(prefix="strata-fuzz-"))


def scan(data: bytes) -> None:
    """Collect statistics of a JSON text; what orjson reads and the scanner refuses is allowed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    scanner = Scanner()
    try:
        scanner.add(pa.array([text, text]))
        found = scanner.finish()
    except ValueError:
        return
    value = orjson.loads(data)  # what was accepted is JSON
    assert found[0][()]["present"] == 2, value


def lines(data: bytes) -> None:
    """Read a file with a JSON object a line, and make columns of what it holds."""
    found = read_lines(_file(data))
    values = [v.get("a") if isinstance(v, dict) else None for v in found.values]
    for kind in TYPES[len(data) % 8 :: 8]:
        from_objects(values, kind)
    found.locate(range(len(found.values)))  # type: ignore[arg-type]


def array(data: bytes) -> None:
    """Read a file that is one JSON document."""
    read_array(_file(data))


def literal(data: bytes) -> None:
    """Read a text as a value of a type, as CSV files have it."""
    text = data[1:].decode(errors="replace")
    kind = TYPES[data[0] % len(TYPES)] if data else TYPES[0]
    cast = from_text(pa.array([text, None]), kind)
    assert len(cast.values) == 2


def _file(data: bytes) -> SourceFile:
    path = FOLDER / "input.json"
    path.write_bytes(data)
    return SourceFile(str(path), "input.json", len(data))


READERS: Final[tuple[Callable[[bytes], object], ...]] = (
    scan,
    lines,
    array,
    literal,
    decode_state,
    decode_commits,
    decode_nodes,
    lambda data: load_filter(data.decode(errors="replace")),
)


def check(data: bytes) -> None:
    """Hand the text to its reader."""
    if not data:
        return
    try:
        READERS[data[0] % len(READERS)](data[1:])
    except StrataError:
        return


def seeds() -> list[bytes]:
    """Return an input or more for each reader."""
    texts = [
        b'{"a":1}',
        b'{"a":[1.5,"x",null,{"b":true}]}',
        b'"\\u00e9\\ud83d\\ude00"',
        b"-0.0e-12",
        b"123456789012345678901234567890",
        b"[]",
        b'{"a":"2026-01-02T03:04:05Z"}\n{"a":null}\n',
    ]
    found = [bytes([reader]) + text for reader in range(3) for text in texts]
    for number, values in enumerate(every_type.TYPES.values()):
        found += [bytes([3, number]) + _text(v) for v in values[:3]]
        found.append(b"\x01" + orjson.dumps({"a": values[0]}))
    found += [b"\x03\x21{1,NULL}", b"\x03\x23[0:1]={7,8}", b'\x03\x27{"a"=>1}', b"\x03\x2b[1,10)"]
    found.append(b"\x04" + FROZEN.read_bytes())
    found.append(b'\x07{"kind":"literal","type":"int64","value":1}')
    return found


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")
