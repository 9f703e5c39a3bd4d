"""What one peer keeps and how long it plans; runs in the peers' own environment, see below.

`python benchmarks/pruning_probe.py PEER FILES FOLDER ROUNDS` prints one JSON line: `kept` by filter
(null: it cannot say the filter, so that every file is read) and CPU `seconds` of planning once for
each round. Started by `benchmarks/pruning_peers.py`; needs no part of Strata.
"""

# mypy: ignore-errors
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from pruning_filters import FILTERS, TIMED, bounds

Count = Callable[[str | None, str | None], int | None]


def delta(files: int, folder: Path) -> tuple[Count, Callable[[], object]]:
    """Return counting and timing of delta-rs: scan planning on statistics of the log."""
    from deltalake import DeltaTable, QueryBuilder

    low, high = bounds(files)
    types = {"n": "long", "amount": "double", "ts": "timestamp", "name": "string"}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()]
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    lines = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "peers",
                "format": {"provider": "parquet", "options": {}},
                "createdTime": 0,
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for i in range(files):
        ends = [{name: _delta_value(side[name][i]) for name in types} for side in (low, high)]
        for end, side in zip(ends, (low, high), strict=True):
            end["ts"] = f"{np.datetime64(int(side['ts'][i]), 'us').astype('M8[ms]')}Z"
        stats = {
            "numRecords": 100,
            "minValues": ends[0],
            "maxValues": ends[1],
            "nullCount": dict.fromkeys(types, 0),
        }
        lines.append(
            {
                "add": {
                    "path": f"p{i}.parquet",
                    "partitionValues": {},
                    "size": 1000,
                    "modificationTime": 0,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            }
        )
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    builder = QueryBuilder().register("t", DeltaTable(str(folder)))

    def plan(sql: str, how: str) -> list[str]:
        import pyarrow as pa

        found = pa.table(builder.execute(f"{how} SELECT * FROM t WHERE {sql}").read_all())
        return found.column("plan").to_pylist()

    def count(sql: str, _: str | None) -> int:
        return len(set(re.findall(r"p\d+\.parquet", plan(sql, "EXPLAIN VERBOSE")[-1])))

    return count, lambda: plan(TIMED.sql, "EXPLAIN")


def _delta_value(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


def iceberg(files: int, folder: Path) -> tuple[Count, Callable[[], object]]:
    """Return counting and timing of pyiceberg: `plan_files` on a manifest."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

    kinds = {"n": LongType(), "amount": DoubleType(), "ts": TimestamptzType(), "name": StringType()}
    folder.mkdir(parents=True)
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("s")
    fields = [NestedField(i, n, k, required=False) for i, (n, k) in enumerate(kinds.items(), 1)]
    table = catalog.create_table("s.t", Schema(*fields))
    low, high = bounds(files)

    def ends(side: dict, i: int) -> dict[int, bytes]:
        values = {"n": int, "amount": float, "ts": int, "name": str}
        return {
            number: to_bytes(kinds[name], values[name](side[name][i]))
            for number, name in enumerate(kinds, 1)
        }

    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for i in range(files):
            append.append_data_file(DataFile.from_args(
                content=DataFileContent.DATA, file_path=f"file://{folder}/p{i}.parquet",
                file_format=FileFormat.PARQUET, partition=Record(), record_count=100,
                file_size_in_bytes=1000, column_sizes={}, split_offsets=[], sort_order_id=None,
                value_counts=dict.fromkeys(range(1, 5), 100), nan_value_counts={2: 0},
                null_value_counts=dict.fromkeys(range(1, 5), 0), spec_id=0,
                lower_bounds=ends(low, i), upper_bounds=ends(high, i), key_metadata=None,
                equality_ids=None,
            ))  # fmt: skip
    table = catalog.load_table("s.t")

    def plan(text: str) -> list[object]:
        return list(table.scan(row_filter=text).plan_files())

    return lambda _, text: None if text is None else len(plan(text)), lambda: plan(TIMED.iceberg)


def datafusion(files: int, folder: Path) -> tuple[Count, Callable[[], object]]:
    """Return counting and timing of DataFusion: row groups of one file, two rows each."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datafusion import SessionConfig, SessionContext

    folder.mkdir(parents=True)
    sides = bounds(files)
    mixed = {n: np.stack([side[n] for side in sides], 1).ravel() for n in sides[0]}
    arrays = {n: pa.array(values) for n, values in mixed.items()}
    arrays["ts"] = arrays["ts"].cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table(arrays), folder / "t.parquet", row_group_size=2)
    # Pages and rows are not looked at: only what the statistics of row groups prove.
    context = SessionContext(SessionConfig().with_target_partitions(1))
    context.register_parquet("t", str(folder / "t.parquet"))

    def run(sql: str) -> str:
        rows = context.sql(f"EXPLAIN ANALYZE VERBOSE SELECT * FROM t WHERE {sql}").collect()
        return str([batch.to_pydict() for batch in rows])

    def count(sql: str, _: str | None) -> int | None:
        pattern = r"row_groups_pruned_statistics=[^,]*total → ([\d.]+)( K)? matched"
        found = re.search(pattern, run(sql))
        return None if found is None else round(float(found[1]) * (1000 if found[2] else 1))

    return count, lambda: run(TIMED.sql)


PEERS = {"delta-rs": delta, "pyiceberg": iceberg, "DataFusion": datafusion}


def main() -> None:
    """Print what a peer keeps and how long it takes."""
    peer, files, folder, rounds = sys.argv[1:]
    count, timed = PEERS[peer](int(files), Path(folder))
    kept: dict[str, object] = {}
    for asked in FILTERS if int(rounds) == 0 else ():
        try:
            kept[asked.name] = count(asked.sql, asked.iceberg)
        except Exception as error:
            kept[asked.name] = f"{type(error).__name__}: {error}"[:120]
    seconds = []
    for _ in range(int(rounds)):
        start = time.process_time()
        timed()
        seconds.append(time.process_time() - start)
    print(json.dumps({"kept": kept, "seconds": seconds}))


if __name__ == "__main__":
    main()
