"""Bytes that strangers land: windows of gigabytes, streams behind streams, holes, wide letters.

What is behind the padding of an .xz file was not read, and nobody was told.
"""

import lzma
import os
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.xz import WINDOW_BYTES
from tests.unit.ingest.test_engine import DAY, SPEC, World

HEADER = b"id,name\n"
FILE = "in/1970-01-01.csv"
BLOCK = 12  # where the header of the first block of an .xz file begins
Codec = Callable[[str], bytes]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def landed(world: World, data: bytes, name: str = FILE) -> Path:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(world: World) -> list[str]:
    world.ingest(lower=0, upper=DAY)
    return sorted(row[1] for row in world.rows())


def with_window(data: bytes, code: int) -> bytes:
    """Return an .xz file that asks for another window: 40 is 4 GiB, 30 is 128 MiB."""
    size = (data[BLOCK] + 1) * 4
    block = bytearray(data[BLOCK : BLOCK + size])
    assert block[2:4] == b"\x21\x01", "the filter is LZMA2"
    block[4] = code
    block[-4:] = zlib.crc32(bytes(block[:-4])).to_bytes(4, "little")
    return data[:BLOCK] + bytes(block) + data[BLOCK + size :]


@pytest.mark.parametrize("code", [31, 36, 40])
def test_no_window_of_gigabytes_is_made(world: World, code: int) -> None:
    landed(world, with_window(lzma.compress(HEADER + b"1,a\n"), code), f"{FILE}.xz")

    with pytest.raises(InvalidRequest, match="more than 128 MiB") as refused:
        names(world)
    assert refused.value.details["file"] == f"{FILE}.xz"
    assert WINDOW_BYTES == 128 << 20


def test_the_window_of_xz_at_its_best_is_made(world: World) -> None:
    landed(world, lzma.compress(HEADER + b"1,a\n", preset=9), f"{FILE}.xz")

    assert names(world) == ["a"]


@pytest.mark.parametrize("between", [b"", b"\0" * 4, b"\0" * 200_000])
def test_every_stream_of_a_packed_file_is_read(world: World, between: bytes) -> None:
    streams = [lzma.compress(text) for text in (HEADER, b"1,a\n", b"2,b\n")]
    landed(world, between.join(streams) + between, f"{FILE}.xz")

    assert names(world) == ["a", "b"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data + b"more",
        lambda data: data + b"\0" * 4 + b"more",
        lambda data: data[:-1],
        lambda data: data + data[:-1],
        lambda data: data + data[:6],
        lambda data: b"\0" * 4 + data,
        lambda data: b"",
    ],
)
def test_a_packed_file_is_whole_or_refused(world: World, damage: Callable[[bytes], bytes]) -> None:
    landed(world, damage(lzma.compress(HEADER + b"1,a\n")), f"{FILE}.xz")

    with pytest.raises(InvalidRequest, match="cannot be read"):
        names(world)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_wide_letters_are_refused_with_the_cure(tmp_path: Path, codec: str, kind: str) -> None:
    text = {"csv": "id,name\n1,a\n", "jsonl": '{"id":1,"name":"a"}\n', "json": '[{"id":1}]'}[kind]
    world = World(tmp_path, source={**SPEC["source"], "format": kind})
    landed(world, text.encode(codec), f"in/1970-01-01.{kind}")

    with pytest.raises(InvalidRequest, match="not UTF-8") as refused:
        names(world)
    assert "iconv" in str(refused.value.cure)


def test_a_mark_is_no_letter_and_a_nul_in_a_text_is_one(world: World) -> None:
    landed(world, b"\xef\xbb\xbf" + HEADER + b"1,a\0b\n2,c\n")

    assert names(world) == ["a\0b", "c"]


def test_a_file_of_holes_is_refused_at_once(world: World) -> None:
    """200 GiB that take no room on the disk: one record without an end."""
    path = landed(world, HEADER + b"1,a\n")
    os.truncate(path, 200 << 30)
    tracemalloc.start()

    with pytest.raises(InvalidRequest, match="a record is too long") as refused:
        names(world)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert refused.value.details["line"] == 3
    assert most < 512 << 20
