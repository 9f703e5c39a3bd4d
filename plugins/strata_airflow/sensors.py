"""A sensor: wait until a shard is complete up to a time."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow.frontier import is_reached
from strata_airflow.hooks import DEFAULT, StrataHook
from strata_airflow.triggers import ShardReachedTrigger


class StrataShardSensor(BaseSensorOperator):
    """Wait until everything before `reached` (exclusive, ISO 8601) is in a shard.

    `deferrable`: wait in the triggerer, without a worker; default as Airflow's settings say.
    """

    template_fields: Sequence[str] = ("shard", "reached", "strata_conn_id")
    ui_color = "#e8f0ff"

    def __init__(
        self,
        *,
        shard: str,
        reached: str,
        strata_conn_id: str = DEFAULT,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the shard, the time and the connection, which are templates."""
        super().__init__(**kwargs)
        self.shard, self.reached, self.strata_conn_id = shard, reached, strata_conn_id
        standard = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = standard if deferrable is None else deferrable

    def poke(self, context: Context) -> bool:
        """Return whether the shard has reached the time."""
        access = StrataHook(self.strata_conn_id).get_conn()
        return is_reached(access, self.shard, self.reached)

    def execute(self, context: Context) -> Any:
        """Wait, in the triggerer if deferrable. Raises: AirflowFailException if it is in vain."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return None
        trigger = ShardReachedTrigger(
            self.strata_conn_id, self.shard, self.reached, self.poke_interval
        )
        return self.defer(
            trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout)
        )

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> None:
        """Go on after the trigger. Raises: AirflowFailException with what it found."""
        if event["error"]:
            raise AirflowFailException(event["error"])
        self.log.info("%s has reached %s", self.shard, self.reached)
