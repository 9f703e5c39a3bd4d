"""Files of Avro are read in each codec that writers have, and damaged blocks are refused."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import fastavro
import orjson
import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.ingest.readers.avro_blocks import CODECS
from strata.ingest.readers.avro_values import HEADER
from strata.ingest.readers.infer import infer
from tests.unit.ingest.test_engine import World

FIELDS: Final = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
SCHEMA: Final[Any] = {"type": "record", "name": "Row", "fields": FIELDS}
ROWS: Final = [(n, None if n % 3 else "x" * n) for n in range(40)]
MARK: Final = b"0123456789abcdef"


def snappy(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


def lz4(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "lz4_raw", asbytes=True)
    return len(data).to_bytes(4, "little") + packed


PACKED: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-zlib.MAX_WBITS),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": snappy,
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "lz4": lz4,
}


def avro(codec: str, packed: Callable[[bytes], bytes], counted: int = 0) -> bytes:
    """Return a file of ROWS in blocks of a few, one of none among them.

    `counted`: by how many records the first block counts too many.
    """
    out = io.BytesIO()
    meta = {"avro.codec": codec.encode(), "avro.schema": orjson.dumps(SCHEMA)}
    fastavro.schemaless_writer(out, HEADER, {"magic": b"Obj\1", "meta": meta, "sync": MARK})
    for number, some in enumerate((ROWS[:9], ROWS[9:9], ROWS[9:30], ROWS[30:])):
        block = io.BytesIO()
        for id_, name in some:
            fastavro.schemaless_writer(block, SCHEMA, {"id": id_, "name": name})
        fastavro.schemaless_writer(out, "long", len(some) + (0 if number else counted))
        fastavro.schemaless_writer(out, "bytes", packed(block.getvalue()))
        out.write(MARK)
    return out.getvalue()


def world(root: Path, data: bytes) -> World:
    source = {"format": "avro", "verify": "always"}
    found = World(root, source=source)
    (root / "x.avro").write_bytes(data)
    return found


def test_every_codec_is_tried() -> None:
    assert [*PACKED] == [*CODECS]


@pytest.mark.parametrize("codec", PACKED)
def test_a_file_of_each_codec_is_taken_in(tmp_path: Path, codec: str) -> None:
    w = world(tmp_path, avro(codec, PACKED[codec]))

    w.ingest(str(tmp_path / "x.avro"), lower=0, upper=1)

    assert w.rows() == {(number, name, 0): 1 for number, name in ROWS}
    assert infer(w.settings, "new", "x.avro").declaration["columns"][0]["type"] == "int64"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: snappy(data)[:-1] + b"?",
        lambda data: snappy(data)[:-5],
        lambda data: snappy(data + b"more")[:-4] + snappy(data)[-4:],
        lambda data: b"",
        lambda data: b"\xff" * 9,
        lambda data: b"\x05" + snappy(data)[1:],
    ],
)
def test_a_damaged_block_of_snappy_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    w = world(tmp_path, avro("snappy", damage))

    with pytest.raises(InvalidRequest, match=r"Avro file|holds too much") as error:
        w.ingest(str(tmp_path / "x.avro"), lower=0, upper=1)

    assert error.value.details["file"] == "x.avro"


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
@pytest.mark.parametrize("counted", [-9, -1, 1])
def test_a_block_that_counts_its_records_wrong_is_refused(
    tmp_path: Path, codec: str, counted: int
) -> None:
    w = world(tmp_path, avro(codec, PACKED[codec], counted))

    with pytest.raises(InvalidRequest, match="not a readable Avro file") as error:
        w.ingest(str(tmp_path / "x.avro"), lower=0, upper=1)

    assert error.value.details["reason"]


def test_a_codec_that_nobody_knows_is_named(tmp_path: Path) -> None:
    w = world(tmp_path, avro("brotli", bytes))

    with pytest.raises(InvalidRequest, match="not known here") as error:
        w.ingest(str(tmp_path / "x.avro"), lower=0, upper=1)

    assert error.value.details["codec"] == "brotli"
    assert "snappy" in (error.value.cure or "")
