"""The trigger of a sensor that waits without a worker."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from strata_airflow.frontier import is_reached
from strata_airflow.hooks import access_of


class ShardReachedTrigger(BaseTrigger):
    """One event as soon as a shard is complete up to a time, or can never be."""

    def __init__(self, strata_conn_id: str, shard: str, reached: str, poke_interval: float) -> None:
        """Take the connection's id, not what it holds: triggers are stored in the database."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.strata_conn_id, self.shard, self.reached = strata_conn_id, shard, reached
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which the triggerer recreates this trigger."""
        return f"{__name__}.{type(self).__name__}", {
            "strata_conn_id": self.strata_conn_id,
            "shard": self.shard,
            "reached": self.reached,
            "poke_interval": self.poke_interval,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look from time to time; yield `error`, empty if the shard has reached the time."""
        while True:
            try:
                access = access_of(await BaseHook.aget_connection(self.strata_conn_id))
                done = await asyncio.to_thread(is_reached, access, self.shard, self.reached)
            except Exception as error:  # the task fails with it, instead of the triggerer
                yield TriggerEvent({"error": str(error)})  # type: ignore[no-untyped-call]
                return
            if done:
                yield TriggerEvent({"error": ""})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.poke_interval)
