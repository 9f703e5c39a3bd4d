"""An empty environment: a wheel is installed into it, and used far from the checkout."""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
UV = PROJECT / ".venv-uv" / "bin" / "uv"
DIST = PROJECT / "dist"
# What may be given to a new process: nothing that leads back to the checkout.
KEPT = ("HOME", "LANG", "JAVA_HOME", "TMPDIR", "UV_CACHE_DIR", "UV_DEFAULT_INDEX", "UV_INDEX_URL")

DECLARATION = """\
name: orders
columns:
- {name: id, type: int64, nullable: false}
- {name: placed_at, type: timestamp, nullable: false}
- {name: total, type: float64}
key: [placed_at, id]
source: {paths: [landing/], format: csv}
part_bytes: 65536
row_group_bytes: 16384
rollout: {mode: soft}
"""


class Place:
    """An environment of its own, and a folder to work in."""

    def __init__(self, folder: Path, *wanted: str) -> None:
        self.venv, self.work = folder / "venv", folder / "work"
        self.work.mkdir(parents=True)
        environment = {**os.environ, "VIRTUAL_ENV": str(self.venv)}
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.venv], check=True)
        subprocess.run(
            [
                UV,
                "pip",
                "install",
                "--quiet",
                "--build-constraints",
                PROJECT / "requirements" / "build.txt",
                *wanted,
            ],
            env=environment,
            check=True,
            cwd=self.work,
        )

    def run(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; its exit code is checked."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        path = f"{self.venv / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        done = subprocess.run(
            [str(self.venv / "bin" / words[0]), *words[1:]],
            cwd=self.work,
            check=False,
            text=True,
            capture_output=True,
            env={**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def declare(self) -> None:
        """Lay down a declaration, and two days of orders."""
        (self.work / "landing").mkdir()
        (self.work / "config" / "shards").mkdir(parents=True)
        (self.work / "config" / "shards" / "orders.yaml").write_text(DECLARATION)
        for day in (1, 2):
            lines = [f"{n},2026-03-0{day} 00:00:{n % 60:02},{n % 100}.5" for n in range(2000)]
            (self.work / f"landing/2026-03-0{day}.csv").write_text(
                "\n".join(["id,placed_at,total", *lines]) + "\n"
            )

    def fill(self) -> None:
        """Ingest two days of orders into a new shard."""
        self.declare()
        self.run("strata", "ingest", "orders", "--lower", "2026-03-01", "--upper", "2026-03-03")


def built(name: str, ending: str) -> Path:
    (found,) = DIST.glob(f"{name}-*{ending}")
    return found
