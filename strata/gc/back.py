"""Bring back what the newest state names and a sweep has set aside.

A sweep of a dropped shard deletes, and looks again when it is done. If the shard comes back
meanwhile and the sweep is killed before that look, the shard names blobs that are set aside.
"""

from functools import partial

from strata.gc.live import Live, LiveNumbers
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.store.interface import Expunging
from strata.store.keys import shard_prefix
from strata.store.retry import retry


def named_count(live: Live) -> int:
    """Return how many keys are live."""
    if isinstance(live, LiveNumbers):
        return len(live.others) + len(live.numbers)
    return len(live)


def brought_back(machine: Machine, name: str) -> int:
    """Restore each blob that is set aside and that the newest state names; return how many.

    A dropped shard names none.
    Cost: lists what is set aside; reads each manifest of the state. Memory: the keys that it names.
    Raises: Corrupt for a damaged manifest.
    """
    blob, head = machine.stores.blob, machine.load(name, dropped=True)
    if not isinstance(blob, Expunging):
        return 0
    aside = retry(lambda: {info.key for info in blob.set_aside(shard_prefix(name))})
    count = 0
    while back := aside.intersection(named_by(blob, head, {}, set())):
        for key in sorted(back):  # what a manifest or page names is known once it is back
            retry(partial(blob.restore, key))
        aside -= back
        count += len(back)
    return count
