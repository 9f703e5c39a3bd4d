"""The answer of a read, whichever way it is asked: rows, or that it failed, and on what.

Reads are asked with pushdown off and on; law 2 is that the answers are alike.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strata.format.columns import updates_schema
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import StatsSpec
from strata.spark import snapshot, where_option
from strata.store.open import Stores, open_stores
from tests.support.shards import let_skip
from tests.support.stored import append, create

PUSHED: Final = "spark.sql.python.filterPushdown.enabled"
# What Spark ships, where Strata's own sessions differ, and where a session of many columns does.
SESSIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "own": {},
    "stock": {"spark.sql.constraintPropagation.enabled": "true"},
    "uncompiled": {
        "spark.sql.constraintPropagation.enabled": "true",
        "spark.sql.codegen.wholeStage": "false",
    },
}
WAYS: Final = ("snapshot", "consolidated", "source", "option")
_CONDITION = re.compile(r"\[([A-Z_.]+)\]")


@dataclass(frozen=True)
class Shard:
    """A shard on disk."""

    settings: Settings
    config: str
    name: str

    @property
    def stores(self) -> Stores:
        return open_stores(self.settings.store)


def store(
    folder: Path, relation: Relation, parts: list[list[tuple[Any, ...]]], name: str = "shard"
) -> Shard:
    """Write a shard of one batch with a part for each list of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    where = StoreSettings(f"file://{folder}/blob", f"sqlite:///{folder}/consensus.db")
    config = folder / "strata.toml"
    config.write_text(f'[store]\nblob = "{where.blob}"\nconsensus = "{where.consensus}"\n')
    stores = open_stores(where)
    create(
        stores,
        relation,
        name=name,
        part_bytes=1 << 20,
        row_group_bytes=1 << 20,
        stats=StatsSpec(budget_bytes=100_000),
    )
    append(stores, name, 0, 1, [updates(relation, rows) for rows in parts], "structured")
    let_skip(stores, name)
    return Shard(Settings(where), str(config), name)


def updates(relation: Relation, rows: list[tuple[Any, ...]], time: int = 0) -> pa.Table:
    """Return rows as updates of one time, each there once."""
    schema = updates_schema(relation)
    columns = zip(*((*row, time, 1) for row in rows), strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


@contextmanager
def session(spark: SparkSession, **settings: str) -> Iterator[SparkSession]:
    """Set what SQL settings say, for a while; underscores for dots are not understood."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield spark
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def answer(ask: Callable[[], DataFrame]) -> Any:
    """Return the rows of a frame, sorted, or the condition that it fails with."""
    try:
        return sorted((tuple(row) for row in ask().collect()), key=repr)
    except (PySparkException, Py4JJavaError) as error:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        found = _CONDITION.search(str(error))
        named = condition or (found[1] if found else type(error).__name__)
        return "PYTHON" if "Python" in named or "PYTHON" in named else named


def read(spark: SparkSession, shard: Shard, where: str, pushdown: str, way: str) -> DataFrame:
    """Return the rows of a shard that satisfy a filter, asked one way."""
    if way in ("snapshot", "consolidated"):
        return snapshot(
            spark,
            shard.name,
            where=where,
            pushdown=pushdown,
            config=shard.settings,
            consolidate=way == "consolidated",
        )
    options = {"shard": shard.name, "config": shard.config, "pushdown": pushdown}
    if way == "source":
        options["pushed"] = "true"
    if way == "option":
        options["where"] = where_option(spark, shard.name, where, config=shard.config)
    return spark.read.format("strata").options(**options).load().where(where)


def both(spark: SparkSession, shard: Shard, where: str, way: str) -> tuple[Any, Any]:
    """Return the answers with pushdown off and on."""
    with session(spark, **{PUSHED: str(way == "source").lower()}):
        off, on = (answer(lambda p=p: read(spark, shard, where, p, way)) for p in ("off", "on"))
    return off, on


def newest(shard: Shard) -> Any:
    """Return the newest state of a shard."""
    return Machine(shard.stores).load(shard.name)
