"""A fingerprint changes with the code of a rule, and with nothing else."""

from strata.expr import certificate
from strata.expr.certificate import fingerprint
from strata.expr.registry import REGISTRY


def test_entries_of_one_module_share_a_fingerprint() -> None:
    assert fingerprint(REGISTRY["add"]) == fingerprint(REGISTRY["abs"])
    assert fingerprint(REGISTRY["add"]) != fingerprint(REGISTRY["and"])


def test_the_domain_belongs_to_every_rule() -> None:
    closure = certificate._closure(REGISTRY["year"].transfer.__module__)

    assert {"strata.expr.spec", "strata.expr.calendar", "strata.expr.bounds"} <= closure
    assert "strata.expr.functions.text" not in closure


def test_docstrings_do_not_count() -> None:
    code = certificate._code("strata.expr.calendar")

    assert "proleptic" not in code
    assert "truncate_micros" in code
