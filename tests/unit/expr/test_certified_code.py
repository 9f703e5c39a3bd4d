"""Each certificate is of the code that is here now. That is no proof of any meaning.

Whatever edits the code of a rule fails here, until Spark was asked again. That the rules mean what
Spark does is what the cases of the certificates show (`tests/spec/test_certified_cases.py`).
"""

import json

import pytest

from strata.decide.terms import PAIRED
from strata.expr.certificate import fingerprint, fingerprint_of
from strata.expr.registry import REGISTRY
from tests.support.recorded import FOLDER, PAIR_RULES, PAIRS_OF


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_certificate_is_of_this_code(name: str) -> None:
    certificate = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    assert certificate["source"] == fingerprint(REGISTRY[name]), "run: make certify"


@pytest.mark.parametrize("name", sorted(PAIRED))
def test_a_certificate_of_pairs_is_of_this_code(name: str) -> None:
    certificate = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))[PAIRS_OF]

    assert certificate["source"] == fingerprint_of(PAIR_RULES), "run: python -m tools.certify_pairs"
    assert certificate["escapes"] == 0
    assert certificate["narrowed"] > 0, "no pair says more than the ranges"
