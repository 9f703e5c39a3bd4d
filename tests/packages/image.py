"""The steps of deploy/, run without containers: the image's, then master, worker and `first`.

`make test-packages` runs it, as it installs from the package index. Places, ports and host names of
the containers become a temporary folder and the loopback; all else is read from the files.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from tests.support import postgres, seaweed
from tests.support.containers import DEPLOY, PROJECT, asked_for, services, steps

NEEDS_ROOT: Final = ("apt-get", "useradd")
SYSTEM: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WAIT_S: Final = 120
RUN_S: Final = 900

pytestmark = pytest.mark.timeout(3000)


def free_port() -> str:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return str(trial.getsockname()[1])


class Image:
    """What the Dockerfile makes, below a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instead = {
            place: f"{root}{place}" for place in ("/opt/strata", "/etc/strata", "/build/")
        }
        self.left_out: list[str] = []
        self.env: dict[str, str] = {}

    def here(self, text: str) -> str:
        """Return a text of the files with every place replaced, each once."""
        wanted = "|".join(re.escape(name) for name in sorted(self.instead, key=len, reverse=True))
        return re.sub(wanted, lambda found: self.instead[found[0]], text)

    def build(self) -> None:
        """Run the steps that need neither root nor a container."""
        for step in steps():
            text = self.here(step.text)
            if step.kind == "RUN" and step.words[0] in NEEDS_ROOT:
                self.left_out.append(step.words[0])
            elif step.kind == "RUN":
                self.run("bash", "-ec", text.replace("python3.11 ", f"{sys.executable} "))
            elif step.kind == "COPY":
                *sources, place = text.split()
                for source in sources:
                    self.copy(source, Path(place))
            elif step.kind == "ENV":
                name, _, value = text.partition("=")
                self.env[name] = value

    def copy(self, source: str, place: Path) -> None:
        """Copy as a build does: a folder's content, files that match."""
        place.mkdir(parents=True, exist_ok=True)
        found = sorted(PROJECT.glob(source))
        assert found, source
        for one in found:
            if one.is_dir():
                shutil.copytree(one, place, dirs_exist_ok=True)
            else:
                (place / one.name).write_bytes(one.read_bytes())

    def run(self, *words: str, **variables: str) -> str:
        """Run a program of the image to its end and return what it said; it must succeed."""
        done = subprocess.run(
            words,
            env=self.environment(variables),
            cwd=self.root,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-6000:]}"
        return done.stdout

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the image's processes: nothing of the checkout is in it."""
        path = self.env.get("PATH", SYSTEM)
        return {
            "HOME": str(self.root),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **self.env,
            "PATH": f"{path}:{SYSTEM}",
            **variables,
        }


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.build()
    return made


@pytest.fixture
def running(image: Image) -> Iterator[dict[str, dict[str, Any]]]:
    """Start database, store, master and worker as compose.yaml does; give its services."""
    server = postgres.Server(postgres._QUICK)
    master, web, web_of_worker = free_port(), free_port(), free_port()
    for folder in ("shared", "work", "airflow"):
        (image.root / folder).mkdir()
    image.instead |= {
        "@postgres/": f"@127.0.0.1:{server.port}/",
        "http://s3:8333": seaweed.server(),
        "spark://spark-master:7077": f"spark://127.0.0.1:{master}",
        '"7077"': f'"{master}"',
        "8090": web,
        "8091": web_of_worker,
        "0.0.0.0": "127.0.0.1",
        **{f'"{name}"': '"127.0.0.1"' for name in ("spark-master", "spark-worker")},
        **{f"//{name}:": "//127.0.0.1:" for name in ("spark-master", "spark-worker")},
        r"\"airflow-scheduler\"": r"\"127.0.0.1\"",
        '"/work"': f'"{image.root}/work"',
        '"/shared': f'"{image.root}/shared',
        '"/airflow/': f'"{image.root}/airflow/',
    }
    image.env["AIRFLOW_HOME"] = f"{image.root}/airflow"
    settings = Path(image.env["STRATA_CONFIG"])
    settings.write_text(image.here(settings.read_text("utf-8")), "utf-8")
    given = dict.fromkeys(asked_for(), "given") | {
        "S3_ACCESS_KEY": seaweed.IDENTITY["AWS_ACCESS_KEY_ID"],
        "S3_SECRET_KEY": seaweed.IDENTITY["AWS_SECRET_ACCESS_KEY"],
        "AIRFLOW_JWT_SECRET": "given" * 16,
    }
    # Names of services stay: they are keys, and so are these of `depends_on`.
    found = {
        name: {
            part: json.loads(image.here(json.dumps(one[part])))
            for part in ("command", "environment", "healthcheck")
            if part in one
        }
        for name, one in services(given).items()
    }
    made: list[subprocess.Popen[bytes]] = []
    try:
        engine = sa.create_engine(server.address, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text("CREATE DATABASE strata"))  # POSTGRES_DB
            connection.execute(sa.text((DEPLOY / "databases.sql").read_text("utf-8")))
        engine.dispose()
        for name in ("spark-master", "spark-worker"):
            made.append(start(image, name, found[name]))
            wait_for(image, found[name], made[-1])
        yield found
    finally:
        for process in reversed(made):
            process.terminate()
            process.wait(30)
        server.close()


def start(image: Image, name: str, service: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    with (image.root / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            service["command"],
            executable=shutil.which(service["command"][0], path=image.env["PATH"]),
            env=image.environment(service.get("environment", {})),
            cwd=image.root,
            stdout=log,
            stderr=log,
            preexec_fn=postgres.die_with_parent,  # noqa: PLW1509  no thread starts it
        )


def wait_for(image: Image, service: Mapping[str, Any], process: "subprocess.Popen[bytes]") -> None:
    """Wait until the service's own check finds it healthy."""
    check, end = service["healthcheck"]["test"][1:], time.monotonic() + WAIT_S
    program = shutil.which(check[0], path=image.env["PATH"])
    while subprocess.run(
        check, executable=program, env=image.environment({}), capture_output=True, check=False
    ).returncode:
        assert process.poll() is None, "it ended"
        assert time.monotonic() < end, "it is not healthy"
        time.sleep(0.5)


def test_only_steps_of_root_are_left_out(image: Image) -> None:
    assert image.left_out == list(NEEDS_ROOT)
    python = f"{image.root}/opt/strata/bin/python"
    assert image.run("bash", "-c", "command -v python").strip() == python
    where = image.run("python", "-c", "import strata, pyspark; print(strata.__file__)").strip()
    assert where.startswith(f"{image.root}/opt/strata/")
    assert image.run("bash", "-c", "strata --version").startswith("strata 0.")


def test_the_services_start_and_are_set_up_twice(
    image: Image, running: dict[str, dict[str, Any]]
) -> None:
    variables = running["airflow-scheduler"]["environment"]
    first = running["first"]["command"]
    image.run("bash", "-c", " ".join(first), **variables)
    image.run("bash", "-c", " ".join(first), **variables)  # safe to repeat
    assert json.loads((image.root / "airflow/passwords.json").read_text()) == {"admin": "given"}
