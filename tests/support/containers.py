"""The files of deploy/ as data: the steps of the Dockerfile, the services of compose.yaml."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

PROJECT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = PROJECT / "deploy"
KNOWN: Final = frozenset({"ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "CMD"})
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::\?([^}]*))?\}")


class Step(NamedTuple):
    """A line of a Dockerfile."""

    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        """Return its words, as a shell reads them."""
        return shlex.split(self.text)


def steps() -> list[Step]:
    """Return the steps of the Dockerfile. Raises: ValueError for a line that is not understood."""
    found = []
    for line in (DEPLOY / "Dockerfile").read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        kind, _, text = line.partition(" ")
        if kind not in KNOWN or line.endswith("\\"):
            raise ValueError(f"not a step that the tests understand: {line}")
        found.append(Step(kind, text))
    return found


def services(given: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the services of compose.yaml, their variables taken from `given`.

    Raises: KeyError naming a variable that is missing or empty, as Compose does.
    """

    def value(found: re.Match[str]) -> str:
        if not given.get(found[1]):
            raise KeyError(found[1])
        return given[found[1]]

    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return dict(yaml.safe_load(_VARIABLE.sub(value, "\n".join(lines)))["services"])


def asked_for() -> list[str]:
    """Return the names of the variables in env.example."""
    lines = (DEPLOY / "env.example").read_text("utf-8").splitlines()
    return [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
