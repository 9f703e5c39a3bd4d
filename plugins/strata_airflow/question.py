"""The question to the approver: what is shown, who may answer, and the answer, in one task.

What one task hands to another, Airflow keeps where whoever may trigger a DAG can write: none of it
is believed here. The task reads from the store what it shows, and gets the answer from where
Airflow keeps answers, with who gave it. An option names the request that it is about.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval, people
from strata_airflow.commands import run_strata

NOBODY: Final = "nobody, in time"
REASON: Final = "approver_reason"  # no field of the DAG's form: Airflow would fill it from there
_LOG = logging.getLogger(__name__)


class Question(HITLOperator):
    """A question about the open request of a shard, to those who may answer it.

    `subject` and `options` come with the request, when it is asked.
    """

    template_fields: Collection[str] = (*HITLOperator.template_fields, "shard")

    def __init__(self, *, shard: str, **kwargs: Any) -> None:
        """Take the shard, a template; the rest as the provider's operator."""
        super().__init__(
            subject="The next step of a shard",
            options=[approval.APPROVE, approval.REJECT],
            **kwargs,
        )
        self.shard = shard

    def execute(self, context: Any) -> Any:
        """Show the request that is open now, and wait.

        Raises: AirflowFailException if none is open, or nobody in Airflow may answer.
        """
        known = people.known()
        among = [word for name in known for word in ("--among", name)]
        shown = run_strata("rollout", "show", self.shard, *among)
        if shown["request"] is None:
            raise AirflowFailException(f"no step is asked for: shard {self.shard!r}")
        if known:
            self.assigned_users = people.assigned(known, shown["request"])
        request = shown["request"]["id"]
        self.subject, self.body = approval.subject(shown), approval.body(shown)
        self.options = [f"{word} {request}" for word in (approval.APPROVE, approval.REJECT)]
        self.defaults = self.options[1:]
        self.params = ParamsDict(form())  # what a run's configuration says is no reason
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Approve or reject in the name of who answered; return what the shard is then."""
        return self.answered(super().execute_complete(context, event))

    def answered(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Do what the answer says; no answer in time is a rejection.

        Raises: AirflowFailException: an approval without a reason, or one that is refused.
        """
        word, request = approval.chosen(given["chosen_options"])
        who = people.named(given.get("responded_by_user") or {})
        reason = str((given.get("params_input") or {}).get(REASON) or "").strip()
        if word == approval.APPROVE and who:
            if not reason:
                raise AirflowFailException(
                    "an approval needs a reason, nothing was approved (cure: clear `question`, and"
                    " answer again)"
                )
        else:
            word, reason = approval.REJECT, reason or "no reason was given"
        shown = run_strata(
            "rollout", word.lower(), self.shard, "--request", request, "--by", who or NOBODY,
            "--reason", reason,
        )  # fmt: skip
        _LOG.info("%s is now %s: request %s, %s", self.shard, shown["mode"], request, word.lower())
        return {
            "mode": shown["mode"], "by": who or NOBODY, "reason": reason, "answer": word.lower(),
            "request": request,
        }  # fmt: skip

    def validate_chosen_options(self, chosen_options: list[str]) -> None:
        """Airflow took no answer but one that it had shown; the request in it is judged later."""

    def validate_params_input(self, params_input: Mapping[str, Any]) -> None:
        """A reason is text; whether it is one is judged with the answer."""


def form() -> dict[str, Param]:
    """Return the fields of the question: a reason that begins empty."""
    told = "What you looked at, and why. An approval needs one."
    return {REASON: Param("", type="string", title="Reason", description=told)}
