"""Pruning: statistics meet a filter, and each part is kept or proven not to matter."""

from strata.prune.credit import conjuncts, credit, proofs
from strata.prune.decide import NO_PROOF, Decision, decide, needed_columns
from strata.prune.explain import Reason, explain, reasons
from strata.prune.static import Outlook, outlook

__all__ = [
    "NO_PROOF",
    "Decision",
    "Outlook",
    "Reason",
    "conjuncts",
    "credit",
    "decide",
    "explain",
    "needed_columns",
    "outlook",
    "proofs",
    "reasons",
]
