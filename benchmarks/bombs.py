"""Small files that unpack to gigabytes: the memory that a whole `strata ingest` of one takes.

    python benchmarks/bombs.py [BOMB ...] [--gib 1] [--rows 40000000] [--folder DIR]

Each bomb is written, then taken in by the command line with the default settings, in a process of
its own. Peak: the resident memory of that process and all that it starts, summed every 50 ms. More
than an ingest task may take (CAP), or another outcome than the expected one, ends the program with
1. `--gib` is what packed texts unpack to, `--rows` the rows of Parquet and ORC.
"""

import argparse
import bz2
import gzip
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.config.settings import load_settings
from strata.shard import open_shard

CAP: Final = 2 << 30  # bytes; what `strata.ingest.run.ingest_task` says of its memory
CHUNK: Final = 1 << 20
GROUP: Final = 1_000_000  # rows of a row group or stripe
WORD: Final = "x" * 100
DEEP: Final = 32 << 20  # brackets of a nested JSON text


@dataclass(frozen=True, slots=True)
class Size:
    """How large bombs become."""

    unpacked: int  # bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Bomb:
    """A file, and what has to come of it."""

    name: str
    suffix: str
    format: str
    write: Callable[[Path, Size], int]  # returns the number of its rows
    outcome: str  # "rows": all are taken in; "rejected": none is; else: a word of the refusal


@contextmanager
def packed(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that packs what is written to it, as its suffix says."""
    openers: dict[str, Callable[..., Any]] = {
        ".gz": gzip.open,
        ".bz2": bz2.open,
        ".xz": lzma.open,
        ".zst": _zstd,
        ".lz4": _lz4,
    }
    with openers.get(path.suffix, open)(path, "wb") as file:
        yield file


def _zstd(path: Path, mode: str) -> Any:
    return pa.CompressedOutputStream(path, "zstd")


def _lz4(path: Path, mode: str) -> Any:
    return pa.CompressedOutputStream(path, "lz4")


def lines(head: bytes, line: bytes) -> Callable[[Path, Size], int]:
    """Return the writer of one line again and again."""

    def write(path: Path, size: Size) -> int:
        some = line * (CHUNK // len(line))
        with packed(path) as file:
            file.write(head)
            for _ in range(size.unpacked // len(some)):
                file.write(some)
        return size.unpacked // len(some) * (CHUNK // len(line))

    return write


def one_line(head: bytes, tail: bytes) -> Callable[[Path, Size], int]:
    """Return the writer of one endless value."""

    def write(path: Path, size: Size) -> int:
        with packed(path) as file:
            file.write(head)
            for _ in range(size.unpacked // CHUNK):
                file.write(b"x" * CHUNK)
            file.write(tail)
        return 1

    return write


def nested(opening: bytes, closing: bytes) -> Callable[[Path, Size], int]:
    """Return the writer of a row whose value is DEEP brackets."""

    def write(path: Path, size: Size) -> int:
        count = DEEP // len(opening + closing)
        with packed(path) as file:
            file.write(b'{"id":1,"word":' + opening * count + b"1" + closing * count + b"}\n")
        return 1

    return write


def many_nested(path: Path, size: Size) -> int:
    """Write rows of 1,000 brackets each."""
    line = b'{"id":1,"word":' + b"[" * 1000 + b"]" * 1000 + b"}\n"
    return lines(b"", line)(path, Size(size.unpacked // 4, 0))


def _table(rows: int) -> pa.Table:
    word = pa.array([WORD]).dictionary_encode().indices
    texts = pa.DictionaryArray.from_arrays(pa.repeat(word[0], rows), pa.array([WORD]))
    return pa.table({"id": pa.repeat(pa.scalar(1, pa.int64()), rows), "word": texts})


def parquet(path: Path, size: Size) -> int:
    """Write the same row again and again."""
    table = _table(GROUP)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(size.rows // GROUP):
            writer.write_table(table, row_group_size=GROUP)
    return size.rows // GROUP * GROUP


def orc(path: Path, size: Size) -> int:
    """Write the same row again and again."""
    table = pa.table({"id": _table(GROUP)["id"], "word": pa.repeat(WORD, GROUP)})
    with po.ORCWriter(path, compression="zstd", dictionary_key_size_threshold=1.0) as writer:
        for _ in range(size.rows // GROUP):
            writer.write(table)
    return size.rows // GROUP * GROUP


CSV: Final = lines(b"id,word\n", b"1," + WORD.encode() + b"\n")
JSONL: Final = lines(b"", b'{"id":1,"word":"' + WORD.encode() + b'"}\n')
CSV_LINE: Final = one_line(b"id,word\n1,", b"\n")
JSON_LINE: Final = one_line(b'{"id":1,"word":"', b'"}\n')
ARRAY: Final = one_line(b'[{"id":1,"word":"', b'"}]\n')
PACKINGS: Final = (".gz", ".zst", ".xz", ".bz2", ".lz4")
BOMBS: Final = (
    Bomb("parquet", ".parquet", "parquet", parquet, "rows"),
    Bomb("orc", ".orc", "orc", orc, "rows"),
    *(Bomb(f"csv{p}", f".csv{p}", "csv", CSV, "rows") for p in PACKINGS),
    *(Bomb(f"jsonl{p}", f".jsonl{p}", "jsonl", JSONL, "rows") for p in PACKINGS),
    *(Bomb(f"csv-line{p}", f".csv{p}", "csv", CSV_LINE, "record") for p in PACKINGS),
    *(Bomb(f"jsonl-line{p}", f".jsonl{p}", "jsonl", JSON_LINE, "record") for p in PACKINGS),
    Bomb("json-array.gz", ".json.gz", "json", ARRAY, "record"),
    Bomb("jsonl-deep.gz", ".jsonl.gz", "jsonl", nested(b"[", b"]"), "rejected"),
    Bomb("jsonl-deep-objects.gz", ".jsonl.gz", "jsonl", nested(b'{"a":', b"}"), "rejected"),
    Bomb("jsonl-many-deep.gz", ".jsonl.gz", "jsonl", many_nested, "rejected"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What an ingest did."""

    peak: int  # bytes
    cpu: float
    seconds: float
    code: int
    said: str


def watched(command: list[str], folder: Path) -> Found:
    """Run a command; return its peak and what it said."""
    began, peak, cpu = time.monotonic(), 0, 0.0
    ended = threading.Event()
    process = psutil.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def watch() -> None:
        nonlocal peak, cpu
        while not ended.wait(0.05):
            try:
                family = [process, *process.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in family))
                used = process.cpu_times()
                cpu = max(cpu, used.user + used.system + used.children_user + used.children_system)
            except psutil.NoSuchProcess:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = process.communicate()[0].decode(errors="replace")
    ended.set()
    watcher.join()
    return Found(peak, cpu, time.monotonic() - began, process.returncode, said)


def taken_in(bomb: Bomb, size: Size, folder: Path) -> tuple[int, str, Found]:
    """Return the size of the bomb's file, what is wrong with the outcome, and what was measured."""
    (folder / "shards").mkdir(parents=True)
    kind = "jsonb" if "deep" in bomb.name else "string"
    source = f"format: {bomb.format}, paths: [in/], max_rejected: 1.0"
    (folder / "shards" / "bomb.yaml").write_text(
        "name: bomb\ncolumns:\n  - {name: id, type: int64}\n"
        f"  - {{name: word, type: {kind}}}\nsource: {{{source}}}\n"
    )
    config = folder / "strata.toml"
    config.write_text(
        f'shards_dir = "{folder}/shards"\n[store]\nblob = "file://{folder}/blob"\n'
        f'consensus = "sqlite:///{folder}/c.db"\nlanding = "{folder}"\n'
    )
    file = folder / "in" / f"2026-01-01{bomb.suffix}"
    file.parent.mkdir()
    rows = bomb.write(file, size)
    program = "from strata.cli.app import main; main()"
    asked = ["ingest", "bomb", "--json", "--config", str(config)]
    found = watched(
        [sys.executable, "-c", program, *asked, "--lower", "2026-01-01", "--upper", "2026-01-02"],
        folder,
    )
    return file.stat().st_size, _wrong(bomb, rows, found, config), found


def _wrong(bomb: Bomb, rows: int, found: Found, config: Path) -> str:
    """Return what is wrong with an outcome; nothing if it is the expected one."""
    if bomb.outcome not in ("rows", "rejected"):
        refused = found.code > 0 and bomb.outcome in found.said and "Traceback" not in found.said
        return "" if refused else f"not refused ({found.code}): {found.said[-300:]}"
    if found.code:
        return f"ended with {found.code}: {found.said[-300:]}"
    document = json.loads(found.said[found.said.index("{") :])
    batches = open_shard(load_settings(str(config), {}), "bomb").scan(columns=["id"])
    stored = sum(sum(batch["d"].to_pylist()) for batch in batches)
    expected = (0, rows) if bomb.outcome == "rejected" else (rows, 0)
    got = (stored, document["rejected"])
    return "" if got == expected else f"stored and rejected: {got} of {rows}"


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bombs", nargs="*", metavar="BOMB", help=", ".join(b.name for b in BOMBS))
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    failed = False
    print(f"{'bomb':24}{'file':>12}{'peak':>12}{'CPU':>10}{'wall':>10}  outcome")
    for bomb in BOMBS:
        if args.bombs and bomb.name not in args.bombs:
            continue
        folder = Path(tempfile.mkdtemp(prefix="bomb-", dir=args.folder))
        try:
            size = Size(int(args.gib * (1 << 30)), args.rows)
            stored, wrong, found = taken_in(bomb, size, folder)
        finally:
            shutil.rmtree(folder)
        wrong = wrong or ("too much memory" if found.peak > CAP else "")
        failed |= bool(wrong)
        print(
            f"{bomb.name:24}{stored / 1024:>8,.0f} KiB{found.peak >> 20:>8,} MiB"
            f"{found.cpu:>8.0f} s{found.seconds:>8.0f} s  {wrong or bomb.outcome}",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
