"""Reads a file that a person names, of bounded size, and without waiting for ever.

It need not be a file: a pipe brings what a program writes (`--spec <(program)`), a terminal what a
person types, and a device may never end.
"""

import os
import select
import time
from pathlib import Path
from typing import Final

from strata.errors import InvalidRequest

WAIT_S: Final = 10.0  # for the next bytes of a pipe or a terminal
PIECE_BYTES: Final = 1 << 20


def limited_bytes(path: Path, most: int, what: str, cure: str, wait_s: float = WAIT_S) -> bytes:
    """Return the bytes of `what` at `path`, at most `most`.

    Raises: InvalidRequest with `cure` for one that has more, or brings nothing for `wait_s`;
    OSError where it cannot be read.
    """
    # A pipe that nobody writes to lets its reader wait already when it is opened.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    found = bytearray()
    try:
        while piece := _piece(file, min(PIECE_BYTES, most + 1 - len(found)), wait_s):
            found += piece
            if len(found) > most:
                raise InvalidRequest(
                    f"{what} is too large", file=str(path), most_bytes=most, cure=cure
                )
    finally:
        os.close(file)
    if piece is None:
        raise InvalidRequest(
            f"{what} does not come: nothing is written to this pipe or terminal",
            file=str(path),
            waited_s=wait_s,
            cure="name a file, or a pipe that a program fills",
        )
    return bytes(found)


def _piece(file: int, most: int, wait_s: float) -> bytes | None:
    """Return the next bytes of an open file, none at its end; None: it brings none for too long."""
    last = time.monotonic() + wait_s
    while (left := last - time.monotonic()) > 0:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(left * 1000):
            return None
        try:
            return os.read(file, most)
        except BlockingIOError:
            continue  # another reader was faster
    return None
