"""Pay back what ingest owes to compaction, before it grows.

Each append leaves a run. If nobody merges, reads, plans and the state grow with every run. So an
ingest that leaves more than `compact.debt_runs` runs unmerged merges some itself, the cheapest
first, until the debt is half of that. At `compact.debt_max` ingest is refused
(`strata.state.spine.check_debt`).
"""

from strata.compact.report import CompactReport
from strata.compact.run import compact_shard
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.state.spine import debt
from strata.store.open import Stores


def pay_debt(
    stores: Stores,
    name: str,
    settings: Settings,
    runner: Runner = serial,
    *,
    lease: Lease | None = None,
) -> CompactReport | None:
    """Merge until at most half of the allowed runs wait; None if they are not more than allowed.

    Raises: as `compact_shard`.
    Cost: reads the state; most calls do nothing else.
    """
    allowed = settings.compact.debt_runs
    if not allowed or debt(Machine(stores).load(name).spine) <= allowed:
        return None
    return compact_shard(stores, name, settings, runner, lease=lease, enough=allowed // 2)
