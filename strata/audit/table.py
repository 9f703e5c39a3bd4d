"""All verdicts as a shard that is read, pruned and compacted like any other.

    strata read strata_verdicts --where "shard = 'flights' and outcome <> 'clean'"

Each validation appends its verdicts once, at its time `t`. The rollout still relies on the tables
beside the shards; this shard is only for queries.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from strata.audit.verdict import Verdict
from strata.history.journal import append_rows, journal_spec
from strata.model.spec import ShardSpec
from strata.store import keys
from strata.store.open import Stores

SHARD: Final = "strata_verdicts"


def spec() -> ShardSpec:
    """Return the declaration of the shard: the fields of a verdict."""
    return journal_spec(SHARD, Verdict, ("shard", "outcome", "check", "run", "part"))


def publish(stores: Stores, run: str, verdicts: Sequence[Verdict]) -> int:
    """Append the verdicts of one run and return their number. A repetition changes nothing.

    Raises: Conflict when other runs were faster every time.
    """
    token = f"verdicts-{keys.content_hash(repr((run, verdicts)).encode())}"
    return append_rows(stores, spec(), [asdict(verdict) for verdict in verdicts], token)
