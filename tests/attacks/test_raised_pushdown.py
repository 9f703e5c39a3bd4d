"""S7: a reader lowers the mode of a shard, and never raises it, by whichever door they come."""

import json
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from strata.decide.read_plan import ReadPlan
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.machine.machine import Machine
from strata.rollout.gates import LADDER
from strata.shard import open_shard
from tests.support.climb import standing
from tests.support.shards import NAME, Events, copied

ID = Column(1, "id", "long")
WHERE: Expr = Call("greater_than", (ID, Literal(10_000, "long")), "boolean")
FILTER = Filter(WHERE, "id > 10000", 0, 0)
ASKED = ("on", "off", None)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return copied(tmp_path_factory.mktemp("events"))


def stand(events: Events, mode: str) -> None:
    """Put the shard into a mode without a sample."""
    move = partial(standing, mode=mode, percent=0)
    Machine(events.stores).apply(NAME, move)


def config(events: Events) -> str:
    store = events.settings.store
    file = Path(store.blob.removeprefix("file://")).parent / "strata.toml"
    file.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    return str(file)


def by_shard(events: Events, asked: str | None, _: pytest.MonkeyPatch) -> ReadPlan:
    return open_shard(events.settings, NAME).plan(filter=FILTER, pushdown=asked)


def by_snapshot(events: Events, asked: str | None, patch: pytest.MonkeyPatch) -> ReadPlan:
    """Ask `snapshot`, but for what a Java machine does: the analysis, and the rows."""
    module = import_module("strata.spark.snapshot")  # the package has a function of this name
    patch.setattr(module, "analyse", lambda *_, **__: FILTER)
    patch.setattr(module, "planned_rows", lambda _spark, _stores, _state, plan, *_, **__: plan)
    found: Any = module.snapshot(
        None, NAME, where="id > 10000", pushdown=asked, config=events.settings
    )
    assert isinstance(found, ReadPlan)
    return found


def by_source(events: Events, asked: str | None, patch: pytest.MonkeyPatch) -> ReadPlan:
    from pyspark.sql import datasource as ds
    from pyspark.sql.types import StructType

    from strata.spark import datasource as module

    seen: list[ReadPlan] = []
    planned = module.plan_read

    def noted(*words: Any, **options: Any) -> ReadPlan:
        seen.append(planned(*words, **options))
        return seen[-1]

    patch.setattr(module, "plan_read", noted)
    options = {"shard": NAME, "config": config(events), "pushed": "true"}
    options |= {} if asked is None else {"pushdown": asked}
    reader = module.StrataReader(module.request(options), StructType())
    list(reader.pushFilters([ds.GreaterThan(("id",), 10_000)]))
    reader.partitions()
    return seen[0]


def by_command(events: Events, asked: str | None, patch: pytest.MonkeyPatch) -> ReadPlan:
    from contextlib import nullcontext

    from strata.cli import spark as module

    class Rows:
        def toArrow(self) -> Any:  # noqa: N802 - Spark's name
            import pyarrow as pa

            return pa.table({"id": pa.array([], pa.int64())})

    patch.setattr(module, "session", lambda _: nullcontext())
    patch.setattr(module, "analyse", lambda *_, **__: FILTER)
    patch.setattr(import_module("strata.spark.snapshot"), "planned_rows", lambda *_, **__: Rows())
    patch.setattr("strata.spark.carried.packed_up", lambda rows: rows)
    return _commanded(events, asked, patch, module, "abs(id) > 10000")


def by_plain_command(events: Events, asked: str | None, patch: pytest.MonkeyPatch) -> ReadPlan:
    return _commanded(events, asked, patch, import_module("strata.cli.reading"), "id > 10000")


def _commanded(
    events: Events, asked: str | None, patch: pytest.MonkeyPatch, module: Any, where: str
) -> ReadPlan:
    """Return the plan that the command makes with a module's `plan_read`."""
    from strata.cli.app import whole

    seen: list[ReadPlan] = []
    planned = module.plan_read

    def noted(*words: Any, **options: Any) -> ReadPlan:
        seen.append(planned(*words, **options))
        return seen[-1]

    patch.setattr(module, "plan_read", noted)
    words = ["read", NAME, "--where", where, "--config", config(events), "--json"]
    done = CliRunner().invoke(whole(), words + ([] if asked is None else ["--pushdown", asked]))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["mode"], told["parts_skipped"]) == (seen[0].mode, seen[0].parts_skipped)
    raised = asked == "on" and told["mode"] in ("off", "soft")
    assert ("which was obeyed" in done.stderr) == raised
    return seen[0]


@pytest.mark.parametrize("ask", [by_shard, by_snapshot, by_source, by_command, by_plain_command])
@pytest.mark.parametrize("mode", LADDER)
def test_a_reader_may_lower_the_mode_and_never_raise_it(
    events: Events, mode: str, ask: Callable[..., ReadPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand(events, mode)
    monkeypatch.delitem(os.environ, "STRATA_CONFIG", raising=False)
    for asked in ASKED:
        with monkeypatch.context() as patch:
            plan = ask(events, asked, patch)
        assert plan.mode == ("off" if asked == "off" else mode)
        assert (plan.parts_skipped > 0) == (asked != "off" and mode in ("audit", "on"))


@pytest.mark.parametrize("asked", ["audit", "soft", "ON", "", "true", "on "])
def test_what_is_no_pushdown_is_refused(events: Events, asked: str) -> None:
    from strata.errors import InvalidRequest
    from strata.spark.asked import request

    with pytest.raises(InvalidRequest, match="pushdown"):
        open_shard(events.settings, NAME).plan(filter=FILTER, pushdown=asked)
    with pytest.raises(InvalidRequest, match="pushdown"):
        request({"shard": NAME, "pushdown": asked})


def test_who_asks_for_skipping_is_sampled_like_everybody(events: Events) -> None:
    move = partial(standing, mode="on", percent=100)
    Machine(events.stores).apply(NAME, move)
    plan = open_shard(events.settings, NAME).plan(filter=FILTER, pushdown="on")
    assert plan.audited
    assert not plan.parts_skipped
