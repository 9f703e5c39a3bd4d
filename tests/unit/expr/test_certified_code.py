"""Each certificate is of the code that is here now. That is no proof of any meaning.

Whatever edits the code of a rule fails here, until Spark was asked again. That the rules mean what
Spark does is what the cases of the certificates show (`tests/spec/test_certified_cases.py`).
"""

import json

import pytest

from strata.expr.certificate import fingerprint
from strata.expr.registry import REGISTRY
from tests.support.recorded import FOLDER


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_certificate_is_of_this_code(name: str) -> None:
    certificate = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    assert certificate["source"] == fingerprint(REGISTRY[name]), "run: make certify"
