"""Collect garbage: delete blobs that compaction and other work left behind.

`jobs/compact/main.py --sweep [--plan]`. Needs no Spark session: a sweep reads metadata and deletes.
Safe to repeat, to kill and to run twice at once; see docs/explanation/gc.md.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

from strata import gc
from strata.config.settings import load_settings
from strata.gc.sweep import purge
from strata.jobs.entry import each_shard, logged
from strata.machine.machine import Machine
from strata.model.runner import threads
from strata.store.open import open_stores

DELETERS: Final = 8  # concurrent deletes


def sweep_all(args: argparse.Namespace) -> tuple[Mapping[str, Any], int]:
    """Sweep the shards, or only plan it; return the result document and the exit code."""
    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)

    def swept(name: str) -> Mapping[str, Any]:
        if args.plan:
            report = gc.plan(stores, name, settings)
        else:
            report = gc.collect(stores, name, settings, threads(DELETERS))
        return logged(report)

    names = args.shard or Machine(stores).names(dropped=True)
    shards = each_shard(names, swept)
    purged = 0 if args.plan else purge(stores, settings)
    return {"shards": shards, "purged_bytes": purged}, 0
