"""The question to the approver, in one task: its contents, who may answer, and the answer.

Anybody who may trigger a DAG can write where Airflow keeps the data that tasks exchange, so none of
it is trusted here. The task reads the evidence from the store. It gets the answer, and the person
who gave it, from Airflow's own record of answers. An option names the request that it is about.

Airflow may stop the task after its answer was committed. Airflow forgets the answer then, and tries
again. So the task notes an answer before it carries it out. The next try ends well if the store's
history has that very answer, and, after an approval, nothing moved the shard since.

Airflow keeps the question of a task as it was first put, also for later tries. So the task notes
the request, too; once another request is open, its next try ends, instead of showing the old one.

Who edits a note changes how a run ends, which Airflow lets them do in any case, and moves no shard.
"""

import logging
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval, people
from strata_airflow.commands import run_strata

NOBODY: Final = "nobody, in time"
REASON: Final = (
    "approver_reason"  # not the name of a field in the DAG's form: Airflow would fill it from there
)
# Keys in what Airflow keeps for all tries of a task:
NOTE: Final = "answer"
SHOWN: Final = "shown"
_LOG = logging.getLogger(__name__)


class Question(HITLOperator):
    """A question about the open request of a shard, to the people who may answer it.

    `subject` and `options` are set from the request when the task runs.
    """

    template_fields: Collection[str] = (*HITLOperator.template_fields, "shard")

    def __init__(self, *, shard: str, **kwargs: Any) -> None:
        """Take the shard, a template; `kwargs` as of the provider's operator."""
        super().__init__(
            subject="The next step of a shard",
            options=[approval.APPROVE, approval.REJECT],
            **kwargs,
        )
        self.shard = shard

    def execute(self, context: Any) -> Any:
        """Show the open request, and wait; return the outcome if an earlier try carried it out.

        Raises: AirflowFailException if no request is open, if Airflow keeps the question about
        another one, or if nobody in Airflow may answer.
        """
        known, notes = people.known(), _notes(context)
        among = [word for name in known for word in ("--among", name)]
        shown = run_strata("rollout", "show", self.shard, *among)
        if shown["request"] is None:
            noted = None if notes is None else notes.get(NOTE)
            if isinstance(noted, Mapping) and approval.carried_out(shown["history"], noted):
                word = approval.REJECT if noted.get("word") == approval.REJECT else approval.APPROVE
                done = "rejected" if word == approval.REJECT else "approved"
                _LOG.info("%s is %s: an earlier try %s it", self.shard, shown["mode"], done)
                return _outcome(shown, word, noted)
            raise AirflowFailException(f"no step is asked for: shard {self.shard!r}")
        if known:
            self.assigned_users = people.assigned(known, shown["request"])
        request = shown["request"]["id"]
        if notes is not None:
            _check_shown(notes, request)
        self.subject, self.body = approval.subject(shown), approval.body(shown)
        self.options = [f"{word} {request}" for word in (approval.APPROVE, approval.REJECT)]
        self.defaults = self.options[1:]
        self.params = ParamsDict(form())  # a run's configuration must not supply the reason
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Approve or reject in the name of the person who answered; return the outcome."""
        return self.answered(super().execute_complete(context, event), _notes(context))

    def answered(self, given: Mapping[str, Any], notes: Any = None) -> dict[str, Any]:
        """Carry out the answer; no answer in time is a rejection.

        `notes`: where the answer is noted before it is carried out, with `set(key, value)`.

        Raises: AirflowFailException for an approval without a reason, or a refused one.
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
        said = {"request": request, "by": who or NOBODY, "reason": reason}
        if notes is not None:
            at: datetime = given["responded_at"]
            notes.set(NOTE, {**said, "word": word, "at_ms": int(at.timestamp() * 1000)})
        options = [part for name, value in said.items() for part in (f"--{name}", value)]
        shown = run_strata("rollout", word.lower(), self.shard, *options)
        _LOG.info("%s is now %s: request %s, %s", self.shard, shown["mode"], request, word.lower())
        return _outcome(shown, word, said)

    def validate_chosen_options(self, chosen_options: list[str]) -> None:
        """Accept any option: Airflow accepts only shown ones, and the request is checked later."""

    def validate_params_input(self, params_input: Mapping[str, Any]) -> None:
        """Accept any text: the reason is checked with the answer."""


def form() -> dict[str, Param]:
    """Return the fields of the question: a reason, initially empty."""
    description = "What you looked at, and why. An approval needs one."
    return {REASON: Param("", type="string", title="Reason", description=description)}


def _check_shown(notes: Any, request: str) -> None:
    """Note which request the question is about; refuse another one than earlier tries noted."""
    before = notes.get(SHOWN)
    if before is not None and before != request:
        raise AirflowFailException(
            f"Airflow keeps this run's question, which is about another request than {request},"
            " which is open now (cure: trigger a new run)"
        )
    notes.set(SHOWN, request)


def _notes(context: Any) -> Any:
    """Return what Airflow keeps for all tries of a task; None in an Airflow before 3.3."""
    return context.get("task_state_store")


def _outcome(shown: Mapping[str, Any], word: str, said: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mode": shown["mode"],
        "by": said["by"],
        "reason": said["reason"],
        "answer": word.lower(),
        "request": said["request"],
    }
