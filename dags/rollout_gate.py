"""Let a shard take the next step of the rollout, if a second person agrees.

`off → soft → audit → on`: a run asks for the next step (or takes up the request that
`strata rollout request` left), shows the evidence under *Required Actions*, and waits. Nobody
answers in three days (`STRATA_APPROVAL_HOURS` in Airflow's environment): it is rejected. Approving needs a reason, and somebody other than who asked;
the answer names the request that was shown, and holds for no other.
The evidence is looked at again when the step is taken. Steps down need no DAG: soft evaluation
takes them by itself.

| Question | Answer |
|---|---|
| It failed with *not enough evidence*: what now? | The message names each gate. Let soft evaluation run on; `strata rollout show` tells how far it is. |
| May I run it again, or clear it? | Yes. A request is taken up again. An answer belongs to the request that was shown with it: repeated, it approves nothing new and fails with *another request is open* or *no step is asked for*. |
| Who asks? | Who triggered the run, as Airflow knows them; or who ran `strata rollout request`. |
| It was approved, but failed with *who asks cannot approve*? | Let somebody else answer the next run. |

A waiting run holds no worker and no slot of a pool.
"""

import logging
import os
from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import Param, dag, task
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval
from strata_airflow.commands import run_strata
from strata_airflow.forms import MAIN, MORE
from strata_airflow.places import declared_shards
from strata_airflow.question import Question
from strata_airflow.spark import DEFAULT_ARGS

WAIT = timedelta(hours=float(os.environ.get("STRATA_APPROVAL_HOURS", "72")))
NOBODY = "nobody, in time"
REQUEST = "{{ ti.xcom_pull(task_ids='ask')['request'] }}"
_LOG = logging.getLogger(__name__)


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
    """Wire the three tasks: ask, wait, answer."""

    @task
    def ask(params: dict[str, Any], dag_run: Any) -> dict[str, str]:
        """Ask for the step, or take up the open request; return what the approver is shown."""
        shown = run_strata("rollout", "show", params["shard"])
        if shown["request"] is None:
            who = getattr(dag_run, "triggering_user_name", None)
            if not who:  # it is Airflow that knows who asks; nothing in a form can say so
                raise AirflowFailException("who asks is not known: trigger this DAG as a person")
            share = ["--percent", str(params["percent"])] if params["percent"] else []
            shown = run_strata(
                "rollout", "request", params["shard"], "--by", who, "--reason", params["reason"],
                *share,
            )  # fmt: skip
        return {
            "subject": approval.subject(shown),
            "body": approval.body(shown),
            "request": shown["request"]["id"],
        }

    @task
    def answer(params: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Approve or reject in the name of who answered; no answer is a rejection."""
        word, request = approval.chosen(given["chosen_options"])
        user = given.get("responded_by_user") or {}
        who = str(user.get("name") or user.get("id") or NOBODY)
        reason = str((given.get("params_input") or {}).get("approver_reason") or "").strip()
        if word == approval.APPROVE and user:
            if not reason:
                raise AirflowFailException(
                    "an approval needs a reason, nothing was approved: clear `question`, answer again"
                )
        else:
            word, reason = approval.REJECT, reason or "no reason was given"
        shown = run_strata(
            "rollout", word.lower(), params["shard"], "--request", request, "--by", who,
            "--reason", reason,
        )  # fmt: skip
        _LOG.info("%s is now %s", params["shard"], shown["mode"])
        return {"mode": shown["mode"], "by": who, "reason": reason, "answer": word.lower()}

    asked = ask()
    question = Question(
        task_id="question",
        subject="{{ ti.xcom_pull(task_ids='ask')['subject'] }}",
        body="{{ ti.xcom_pull(task_ids='ask')['body'] }}",
        options=[f"{approval.APPROVE} {REQUEST}", f"{approval.REJECT} {REQUEST}"],
        defaults=f"{approval.REJECT} {REQUEST}",
        params={
            "approver_reason": Param(
                "",
                type="string",
                title="Reason",
                description="What you looked at, and why. An approval needs one.",
            )
        },
        response_timeout=WAIT,
        execution_timeout=None,
    )
    asked >> question >> answer(given=question.output)


rollout_gate()
