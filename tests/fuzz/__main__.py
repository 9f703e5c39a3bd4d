"""`python -m tests.fuzz TARGET [--seconds N]`: look for inputs that a reader cannot stand.

The fuzzer (atheris) follows the coverage of `strata` itself; with `NUMBA_DISABLE_JIT=1`, which
`make fuzz` sets, the kernels are Python and it follows theirs as well. What it kept is written
to `--corpus`; an input that fails is written beside it and ends the run with code 77.
"""

import argparse
import importlib
import resource
import sys
import warnings
from pathlib import Path
from typing import Final

import atheris  # type: ignore[import-not-found]

MODULES: Final = ("protobuf", "json", "parquet")
SOURCES: Final = (  # of `tests.fuzz.sources`
    "csv",
    "csv_utf16",
    "csv_cp1252",
    "csv_shift_jis",
    "csv_gb18030",
    "csv_escaped",
    "csv_padded",
    "jsonl",
    "array",
    "avro",
    "orc",
    "parquet_file",
    "debezium",
    "records",
)
MEMORY: Final = 6 << 30  # of addresses: whoever believes a wrong length gets a MemoryError
INPUT_SECONDS: Final = 60  # for one input; more is a hang


def main() -> None:
    """Fuzz one target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", choices=(*MODULES, *SOURCES))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path)
    asked = parser.parse_args()
    corpus = asked.corpus or Path(".strata/fuzz") / asked.target
    with atheris.instrument_imports(include=["strata"]):
        name = asked.target if asked.target in MODULES else "sources"
        module = importlib.import_module(f"tests.fuzz.{name}")
    target = module if asked.target in MODULES else module.SOURCES[asked.target]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number:04}").write_bytes(seed)
    warnings.simplefilter("ignore")  # numbers that wrap, as machine code lets them
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={asked.seconds}",
            "-max_len=4096",
            f"-timeout={INPUT_SECONDS}",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
            f"-artifact_prefix={corpus.parent}/{asked.target}-",
        ],
        target.check,
    )
    atheris.Fuzz()


main()
