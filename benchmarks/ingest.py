"""What ingest costs over reading, sorting and writing the same rows with Arrow alone.

    python -m benchmarks.ingest [--days 90] [--rounds 5] [--json]

The data are the demo's flights (CSV) and flight events (JSON lines), one task each. Contenders
take turns in one process, so that a noisy machine troubles all alike; CPU seconds count. The
floor of each source reads the files with pyarrow's own reader, sorts by the same columns and
writes one Parquet file (zstd 1), without judging rows, row codec, statistics or commit.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from demo.landing import make_landing
from strata.config.shards import declared_shards
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import IngestSettings, Settings, StoreSettings
from strata.model.spec import ShardSpec
from strata.store.open import open_stores

SHARDS = Path(__file__).parents[1] / "config" / "shards"
DAY_MS = 86_400_000
FIRST_MS = 1_356_998_400_000  # 2013-01-01
NUMBERS = count()


@cache
def declared() -> dict[str, ShardSpec]:
    """Return the demo's shards; their declarations are read once, before anything is measured."""
    return declared_shards(str(SHARDS))


def engine(root: Path, shard: str, layout: str, days: int, *, later: bool = False) -> int:
    """Ingest the days as one batch into a new shard in memory; return its updates.

    `later` as it is in the second week, when one file in a hundred is read twice.
    """
    name = f"bench-{next(NUMBERS)}"
    store = StoreSettings(f"memory://{name}", f"memory://{name}", str(root))
    ingests = IngestSettings(task_bytes=1 << 40)
    settings = Settings(store=store, ingest=replace(ingests, verify_days=0) if later else ingests)
    stores = open_stores(store)
    Machine(stores).create(declared()[shard])
    upper = FIRST_MS + days * DAY_MS
    return ingest(stores, settings, shard, lower=FIRST_MS, upper=upper, write_format=layout).updates


def floor_csv(root: Path) -> int:
    """Read, sort and write the flights with Arrow."""
    nulls = pacsv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    tables = [
        pacsv.read_csv(path, convert_options=nulls) for path in sorted(root.glob("flights/*"))
    ]
    table = pa.concat_tables(tables, promote_options="permissive")
    return _sorted(table, ["origin", "carrier", "flight", "time_hour"])


def floor_json(root: Path) -> int:
    """Read, sort and write the events with Arrow, the payload as a struct."""
    tables = [pajson.read_json(path) for path in sorted(root.glob("flight_events/*"))]
    table = pa.concat_tables(tables, promote_options="permissive")
    return _sorted(table, ["scheduled_at", "carrier", "flight", "origin"])


def _sorted(table: pa.Table, names: list[str]) -> int:
    ordered = table.sort_by([(name, "ascending") for name in names])
    pq.write_table(ordered, pa.BufferOutputStream(), compression="zstd", compression_level=1)
    return int(ordered.num_rows)


def main() -> None:
    """Run the contenders in turns and print medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_landing(root, args.days)
        results = measure(root, args.days, args.rounds)
    if args.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'':34}{'rows':>9}{'CPU s':>8}{'rows/s':>10}{'to floor':>10}")
    for name, result in results.items():
        print(
            f"{name:34}{result['rows']:>9,.0f}{result['cpu_s']:>8.2f}"
            f"{result['rows_per_s']:>10,.0f}{result['to_floor']:>10.2f}"
        )


def measure(root: Path, days: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return for each contender rows, median CPU seconds, rows a second and ratio to its floor."""
    landing = root / "landing"
    floors: dict[str, Callable[[], int]] = {
        "flights": lambda: floor_csv(landing),
        "flight_events": lambda: floor_json(landing),
    }
    contenders: dict[str, Callable[[], int]] = {}
    for shard, floor in floors.items():
        contenders[f"{shard} floor"] = floor
        for layout in ("row", "both", "structured"):
            contenders[f"{shard} {layout}"] = partial(engine, root, shard, layout, days)
        week = partial(engine, root, shard, "both", days, later=True)
        contenders[f"{shard} both, second week"] = week
    times: dict[str, list[float]] = {name: [] for name in contenders}
    rows: dict[str, int] = {}
    for _ in range(rounds + 1):  # the first round warms up and is dropped
        for name, contender in contenders.items():
            started = time.process_time()
            rows[name] = contender()
            times[name].append(time.process_time() - started)
    median = {name: statistics.median(found[1:]) for name, found in times.items()}
    return {
        name: {
            "rows": rows[name],
            "cpu_s": median[name],
            "rows_per_s": rows[name] / median[name],
            "to_floor": median[name] / median[f"{name.split()[0]} floor"],
        }
        for name in contenders
    }


if __name__ == "__main__":
    main()
