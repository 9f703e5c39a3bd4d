"""Background processes that outlive the command which started them, and are stopped by another.

Each is started in a session of its own and recorded with its id and its time of birth; a record
whose process is gone, or whose id belongs to another process by now, is never signalled.
"""

import json
import os
import subprocess
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

GRACE_SECONDS: Final = 15.0  # between asking to stop and killing


@dataclass(frozen=True, slots=True)
class Started:
    """One process that was started."""

    name: str
    pid: int
    born: float  # seconds since 1970, as the system reports it
    log: str


class Processes:
    """The processes recorded in one file."""

    def __init__(self, file: Path) -> None:
        """Use `file` for the records; it need not exist."""
        self._file = file

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Start a process, its output going to `log`, and record it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        born = psutil.Process(process.pid).create_time()
        self._write([*self.recorded(), Started(name, process.pid, born, str(log))])

    def recorded(self) -> list[Started]:
        """Return every record, of live and of dead processes."""
        try:
            return [Started(**item) for item in json.loads(self._file.read_text("utf-8"))]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def live(self) -> dict[str, psutil.Process]:
        """Return the recorded processes that still run, by name."""
        found = {}
        for record in self.recorded():
            process = _same(record)
            if process is not None:
                found[record.name] = process
        return found

    def dead(self) -> list[Started]:
        """Return the records whose process is gone."""
        return [record for record in self.recorded() if _same(record) is None]

    def stop(self, at_once: Container[str] = ()) -> list[str]:
        """Stop all that run, with everything that they started; return their names.

        `at_once`: those that have nothing to bring to an end are killed.
        """
        live = self.live()
        family = _descendants(list(live.values()))
        for name, process in live.items():
            _signal_group(process.pid, 9 if name in at_once else 15)
        _reap(GRACE_SECONDS, family)
        for process in [p for p in family if _running(p)]:
            _kill(process)
        self._file.unlink(missing_ok=True)
        return list(live)

    def _write(self, records: list[Started]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps([asdict(r) for r in records], indent=1), "utf-8")


def memory_bytes(roots: Sequence[psutil.Process]) -> int:
    """Return what `roots` and all below them hold, pages shared among them counted once.

    Errs: low, by processes that end while it looks.
    """
    total = 0
    for process in _descendants(roots):
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):
            continue
    return total


def _same(record: Started) -> psutil.Process | None:
    """Return the recorded process if it runs; None also when its id was given to another."""
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.born) < 1 and _running(process)
    except psutil.Error:
        return None
    return process if same else None


def _running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _descendants(roots: Sequence[psutil.Process]) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for root in roots:
        found[root.pid] = root
        try:
            found.update({child.pid: child for child in root.children(recursive=True)})
        except psutil.Error:
            continue
    return list(found.values())


def _signal_group(pid: int, signal: int) -> None:
    try:
        os.killpg(pid, signal)  # its session's first process: the group bears its id
    except (ProcessLookupError, PermissionError):
        return


def _reap(seconds: float, family: Sequence[psutil.Process]) -> None:
    """Wait for the family to end; collect our own children, which stay as zombies otherwise."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(_running, family)):
        psutil.wait_procs(list(family), timeout=0.2)


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return
