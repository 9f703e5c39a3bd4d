"""What the `compact` task would do to each shard: `jobs/compact/main.py --plan`. Needs no Spark."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from strata.compact import preview
from strata.config.settings import load_settings
from strata.jobs.chosen import still
from strata.jobs.entry import each_shard, logged
from strata.machine.machine import Machine
from strata.store.open import open_stores


def preview_shards(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Plan the merges of each shard, and do nothing; return its document."""
    settings = load_settings(args.config, os.environ)
    stores = open_stores(settings.store)

    def planned(name: str) -> Mapping[str, Any]:
        return logged(preview(stores, name, settings, full=args.full, migrate=args.migrate))

    there = Machine(stores).names
    return each_shard(args.shard or there(), planned, still=still(args, there))
