"""An operator: bring the sums that one shard keeps of another up to it. It needs no Spark."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context

from strata_airflow.assets import shard_asset, tell, tell_nobody
from strata_airflow.commands import run_strata
from strata_airflow.hooks import DEFAULT, StrataHook


class StrataSumsOperator(BaseOperator):
    """Read the changes of `source` since the last run, and correct the groups that they touch.

    `into`: the shard of the sums, which `strata sums` has made. `rebuild`: add the whole source up,
    and correct what differs. `strata_conn_id` empty: the stores of Airflow's own environment.
    A run with new changes makes an event of that shard's asset, unless `outlets` are given.
    """

    template_fields: Sequence[str] = ("source", "into", "strata_conn_id")
    ui_color = "#e8f0ff"

    def __init__(
        self,
        *,
        source: str,
        into: str,
        rebuild: bool = False,
        strata_conn_id: str = DEFAULT,
        outlets: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take both shards and the connection, which are templates."""
        if outlets is None:
            outlets = [shard_asset(into, strata_conn_id)] if "{" not in into else []
        super().__init__(outlets=list(outlets), **kwargs)
        self.source, self.into, self.rebuild = source, into, rebuild
        self.strata_conn_id = strata_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the counts. Raises: AirflowFailException if another try cannot help."""
        words = ["sums", self.source, "--into", self.into, *(["--rebuild"] * self.rebuild)]
        if self.strata_conn_id:
            done = StrataHook(self.strata_conn_id).run(*words)
        else:
            done = run_strata(*words)
        self.log.info("%s has %s more changes of %s", self.into, done["changes"], self.source)
        counts = {"changes": done["changes"], "updates": done["updates"]}
        if done["lower"] == done["upper"]:
            tell_nobody(context["ti"])
        else:
            tell(context["outlet_events"], self.outlets, counts, "")
        return done
