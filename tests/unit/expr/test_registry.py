"""The registry is complete: documented, certified, and each name once."""

import json
import re
from pathlib import Path

import pytest

from strata.expr import registry
from strata.expr.reference import markdown
from strata.expr.registry import REGISTRY

DOCS = Path(__file__).parents[3] / "docs" / "reference"


def test_no_name_is_registered_twice() -> None:
    names = [entry.name for subject in registry.SUBJECTS for entry in subject.ENTRIES]

    assert len(names) == len(set(names)) == len(REGISTRY)


def test_the_docstring_names_every_function() -> None:
    words = set(re.findall(r"[a-z_0-9]+", registry.__doc__ or ""))

    assert set(REGISTRY) <= words


def test_the_reference_is_up_to_date() -> None:
    assert (DOCS / "functions.md").read_text(encoding="utf-8") == markdown(), (
        "run: python -m strata.expr.reference"
    )


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_function_has_a_certificate(name: str) -> None:
    path = DOCS / "certificates" / f"{name}.json"
    assert path.exists(), "run: python -m tools.certify"
    certificate = json.loads(path.read_text(encoding="utf-8"))

    assert certificate["function"] == name
    assert certificate["escapes"] == 0
    assert certificate["cases"] >= 1000


def test_no_certificate_is_left_of_a_function_that_is_gone() -> None:
    found = {path.stem for path in (DOCS / "certificates").glob("*.json")}

    assert found <= set(REGISTRY)
