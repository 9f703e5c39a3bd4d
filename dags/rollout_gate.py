"""Let a shard take the next step of the rollout, if a second person agrees.

`off → soft → audit → on`: a run asks for the next step (or takes up the request that
`strata rollout request` left), shows the evidence under *Required Actions*, and waits. A request
without an answer in three days (`STRATA_APPROVAL_HOURS` in Airflow's environment) is rejected. An
approval needs a reason, and a person other than the asker. The answer names the request that was
shown, and holds for no other.
The evidence is looked at again when the step is taken. Steps down need no DAG: soft evaluation
takes them by itself.

| Question | Answer |
|---|---|
| It failed with *not enough evidence*: what now? | The message names each gate. Let soft evaluation run on; `strata rollout show` says how far it is. |
| May I run it again, or clear it? | Yes. A request that is still open is taken up again, with the question as it was first put: Airflow keeps it. Figures of now are on the console, and the evidence is looked at again when the step is taken. If another request is open by now, a repeated run fails and says so: trigger a new one. A run that is repeated makes no request of its own. An answer belongs to the request that was shown with it, and does nothing to another. |
| Who asks? | Who triggered the run, as Airflow knows them; or who ran `strata rollout request`. |
| Who may answer? | Whom the policy of the store names (`strata rollout gates show`), or anybody if it names nobody; never who asks. Airflow takes an answer from nobody else, where a task can know its people: with the simple auth manager, or with `STRATA_PEOPLE`. The store refuses the others in any case. |
| It failed with *no step is asked for*: what now? | Nothing. The request was answered elsewhere, on the console or the command line, or has lapsed: `strata rollout show` says by whom. |
| It was approved, but failed with *who asks cannot approve*? | Let somebody else answer the next run. |

A waiting run holds no worker and no slot of a pool.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
from airflow.sdk import Param, dag, task
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval, people
from strata_airflow.commands import run_strata
from strata_airflow.forms import MAIN, MORE
from strata_airflow.places import declared_shards
from strata_airflow.question import Question, form
from strata_airflow.spark import DEFAULT_ARGS

WAIT = timedelta(hours=float(os.environ.get("STRATA_APPROVAL_HOURS", "72")))
SPEAKS_FOR = timedelta(hours=1)
_LOG = logging.getLogger(__name__)


def stale(dag_run: Any, history: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a run no longer speaks for the person who triggered it.

    Anybody who may trigger a run may also clear somebody else's, with or without a trace.
    """
    began: datetime = dag_run.run_after
    asked = (line["at_ms"] for line in history if line["what"] == "requested")
    return (
        bool(dag_run.clear_number)
        or datetime.now(UTC) - began > SPEAKS_FOR
        or any(at_ms >= began.timestamp() * 1000 for at_ms in asked)
    )


@dag(
    dag_display_name="Rollout: the next step, with approval",
    schedule=None,
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=16,  # a run that waits is active, and others must not wait behind it
    default_args=DEFAULT_ARGS,
    tags=["strata", "rollout"],
    doc_md=__doc__,
    params={
        "shard": Param(
            (declared_shards() or [""])[0],
            type="string",
            enum=declared_shards() or [""],
            title="Shard",
            description="The shard that is to take its next step.",
            section=MAIN,
        ),
        "reason": Param(
            None,
            type="string",
            minLength=3,
            title="Reason",
            description="Why now. It stays in the shard's history.",
            section=MAIN,
        ),
        "percent": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=100,
            title="Share to audit, in percent",
            description="Of the parts that are skipped afterwards. Empty: 10 in audit, 1 in on.",
            section=MORE,
        ),
    },
)
def rollout_gate() -> None:
    """Wire the two tasks: ask; show, wait and do as answered."""

    @task
    def ask(params: dict[str, Any], dag_run: Any) -> dict[str, str]:
        """Ask for the step, or take up the open request."""
        shown = run_strata("rollout", "show", params["shard"])
        if shown["request"] is None:
            who = getattr(dag_run, "triggering_user_name", None)
            if not who:  # only Airflow knows who asks; no form field can say so
                raise AirflowFailException("who asks is not known: trigger this DAG as a person")
            who = people.asker(who)  # under the name that an answer of theirs has
            if stale(
                dag_run, shown["history"]
            ):  # another person may repeat a run in the asker's name
                raise AirflowFailException(
                    f"this run no longer speaks for {who}: it is repeated, over an hour old, or a"
                    " step was asked for since (cure: trigger a new run)"
                )
            share = ["--percent", str(params["percent"])] if params["percent"] else []
            shown = run_strata(
                "rollout",
                "request",
                params["shard"],
                "--by",
                who,
                "--reason",
                params["reason"],
                *share,
            )
        _LOG.info("request %s of %s is open", shown["request"]["id"], params["shard"])
        return {
            "shard": params["shard"],
            "to": shown["request"]["to"],
            "request": shown["request"]["id"],
        }

    question = Question(
        task_id="question",
        shard="{{ params.shard }}",
        defaults=approval.REJECT,
        params=form(),
        response_timeout=WAIT,
        execution_timeout=None,
    )
    ask() >> question


rollout_gate()
