"""The commits of a Delta table in its log: when a version was committed, and by which bytes.

The library gives the times of the newest commits, whichever version is loaded, and passes over
commits that say nothing of themselves.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

UNKNOWN: Final = 0  # when a version was committed


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """The commit of a version, as far as the log has it."""

    mark: str = ""  # of its bytes, which are written once; empty: the log has them no more
    at_ms: int = UNKNOWN


def commit_of(address: str, version: int) -> DeltaCommit:
    """Return the commit that made a version of the table at an address. Cost: reads it whole."""
    log = PyFileSystem(DeltaStorageHandler(address))
    try:
        with log.open_input_stream(f"_delta_log/{version:020}.json") as stream:
            data: bytes = stream.read()
    except FileNotFoundError:
        return DeltaCommit()
    said = (json.loads(line).get("commitInfo") for line in data.splitlines() if line.strip())
    at_ms = (next(filter(None, said), None) or {}).get("timestamp", UNKNOWN)
    return DeltaCommit(blake2b(data, digest_size=6).hexdigest(), int(at_ms))
