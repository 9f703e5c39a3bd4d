"""The options of `spark.read.format("strata")` and of its streams, checked.

`strata.spark.datasource` says what they mean.
"""

import os
from dataclasses import dataclass
from typing import Final

from strata.config.settings import load_settings
from strata.decide.plan import check_pushdown
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.near import one_of
from strata.model.settings import Settings
from strata.model.time import parse_time
from strata.spark.front.option import AnalysedFilter, question
from strata.state.state import State
from strata.store.open import Stores, open_stores

OPTIONS: Final = (
    "shard",
    "config",
    "as_of",
    "where",
    "pushdown",
    "pushed",
    "consolidate",
    "collection",
    "start",
    "path",
)
OF_STREAMS: Final = ("shard", "config", "start", "where", "pushdown", "path")


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked."""

    shard: str
    config: str | None
    as_of: str | None
    question: AnalysedFilter | None
    pushdown: str | None
    consolidate: bool
    start: int | None  # only for streams
    collection: str | None = None
    pushed: bool = False  # whether filters that Spark pushes choose parts

    def settings(self) -> Settings:
        """Return the settings of this process, from the file of option `config`."""
        return load_settings(self.config, os.environ)

    def open(self) -> tuple[Stores, State]:
        """Return the stores and the newest state of the shard."""
        stores = open_stores(self.settings().store)
        return stores, Machine(stores).load(self.shard)

    def hold(self) -> tuple[Stores, State]:
        """Return the stores, and the newest state held for readers (`machine.reader_hold`)."""
        settings = self.settings()
        stores = open_stores(settings.store)
        return stores, held_state(stores, self.shard, settings.read)


def request(options: dict[str, str]) -> ReadOptions:
    """Return the checked options of a read.

    Raises: InvalidRequest for an unknown option, a missing shard or a malformed value.
    """
    given = {key.lower(): value for key, value in options.items()}
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        cure = one_of(unknown[0], OPTIONS, listed=len(OPTIONS))
        raise InvalidRequest("unknown option", option=unknown[0], cure=cure)
    shard = given.get("shard") or given.get("path")
    if not shard:
        raise InvalidRequest("the shard is missing", cure='.option("shard", NAME) or .load(NAME)')
    flags = {name: given.get(name, "false").lower() for name in ("consolidate", "pushed")}
    for name, value in flags.items():
        if value not in ("true", "false"):
            raise InvalidRequest("not a yes or no", option=name, value=value, cure="true or false")
    return ReadOptions(
        shard,
        given.get("config"),
        given.get("as_of"),
        _where(given["where"]) if "where" in given else None,
        check_pushdown(given.get("pushdown")),
        flags["consolidate"] == "true",
        parse_time(given["start"]) if "start" in given else None,
        given.get("collection"),
        flags["pushed"] == "true",
    )


def _where(text: str) -> AnalysedFilter:
    if not text.lstrip().startswith("{"):
        raise InvalidRequest(
            "the option `where` takes an analysed filter, not SQL",
            value=text[:80],
            cure="strata.spark.where_option(spark, shard, sql), or strata.spark.snapshot",
        )
    return question(text)
