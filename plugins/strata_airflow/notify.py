"""Notify people that a task failed for good: one message, by any carrier.

`STRATA_NOTIFY` names the receivers, separated by spaces; if it is empty, there are none:

    slack+https://hooks.example.org/services/...     a Slack webhook
    webhook+https://alerts.example.org/strata        the message as JSON
    mailto:ops@example.org?server=mail:25&from=strata@example.org

Each failed task sends one message. It has a line for each alert of the job (shard, part, column,
filter, the bound that lied, and the command that replays it), and a key by which receivers
recognise a repetition. It holds no value of a row; text from data and filters is escaped, in mail
and in chat (`strata_airflow.escaped`). If a receiver cannot be reached, the failure is logged, and
the others still get the message. The trip itself is in the shard's state by then.
"""

import json
import logging
import os
import smtplib
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from airflow.sdk import BaseNotifier, Context

from strata_airflow import escaped

VARIABLE: Final = "STRATA_NOTIFY"
TIMEOUT_S: Final = 10.0
LINES_MAX: Final = 20  # alerts in a message; the report has all
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """What every receiver gets."""

    subject: str
    reason: str  # the error; for a mismatch, one line per alert follows
    lines: tuple[str, ...]
    links: tuple[str, ...]
    dedupe: str  # the same for a repetition of the same failure

    @property
    def text(self) -> str:
        """Return the message as plain text."""
        return "\n".join([self.subject, "", self.reason, *self.lines, "", *self.links]).strip()


class StrataNotifier(BaseNotifier):
    """Send the message about a failed task to every address in `STRATA_NOTIFY`."""

    def notify(self, context: Context) -> None:
        """Build the message and send it."""
        send(message_of(context), os.environ.get(VARIABLE, ""))


def tell_late(what: str, hours: float, context: Mapping[str, Any] | None = None) -> None:
    """Notify people of a run that missed its deadline; Airflow calls it while the run goes on."""
    run = (context or {}).get("dag_run") or {}
    dag, run_id = run.get("dag_id", "a run"), run.get("run_id", "")
    reason = f"{what}: not at its end {hours:g} hours after it was queued"
    dedupe = blake2b(json.dumps(["late", dag, run_id]).encode(), digest_size=8).hexdigest()
    late = Message(f"Strata: {dag} is late, {run_id}", reason, (), (), dedupe)
    send(late, os.environ.get(VARIABLE, ""))


def message_of(context: Mapping[str, Any]) -> Message:
    """Return the message about the task of a context."""
    ti = context["ti"]
    said = str(context.get("exception") or "the task failed").splitlines()
    lines = [line for line in said[1:] if line.strip()]
    more = [f"... and {len(lines) - LINES_MAX} more"] if len(lines) > LINES_MAX else []
    subject = f"Strata: {ti.dag_id}.{ti.task_id} failed in {ti.run_id}"
    report = getattr(context.get("task"), "report_links", ())
    links = [link for link in (getattr(ti, "log_url", ""), *report) if link]
    # The key omits the run: the same lie found again tomorrow is the same incident.
    identity = json.dumps([ti.dag_id, ti.task_id, *said])
    return Message(
        subject,
        said[0],
        tuple(lines[:LINES_MAX] + more),
        tuple(links),
        blake2b(identity.encode(), digest_size=8).hexdigest(),
    )


def send(message: Message, addresses: str) -> list[str]:
    """Send to each address; return the addresses that were reached."""
    reached = []
    for address in addresses.split():
        try:
            _carry(message, address)
            reached.append(address)
        except Exception as error:  # no answer may change how the task ends
            _LOG.error(
                "no message could be sent through %s: %s", _host(address), type(error).__name__
            )
    return reached


def _host(address: str) -> str:
    """Return the host in an address: a webhook's path is a secret."""
    try:
        return urlsplit(address).hostname or "mail"
    except ValueError:
        return "an address that is none"


def _carry(message: Message, address: str) -> None:
    scheme, _, rest = address.partition(":")
    kind, _, inner = scheme.partition("+")
    if kind == "slack" and inner in ("http", "https"):
        _post(f"{inner}:{rest}", {"text": escaped.chat(message.text), "mrkdwn": False})
    elif kind == "webhook" and inner in ("http", "https"):
        _post(f"{inner}:{rest}", {**asdict(message), "text": message.text})
    elif kind == "mailto":
        _mail(message, rest)
    else:
        raise ValueError("no address of a receiver")


def _post(url: str, document: Mapping[str, Any]) -> None:
    request = urllib.request.Request(
        url,
        data=json.dumps(document).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):
        pass


def _mail(message: Message, rest: str) -> None:
    to, _, query = rest.partition("?")
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    host, _, port = options.get("server", "localhost:25").partition(":")
    mail = EmailMessage()
    mail["Subject"], mail["To"] = escaped.line(message.subject), to
    mail["From"] = options.get("from", "strata@localhost")
    mail["Message-ID"] = f"<{message.dedupe}@strata>"
    mail.set_content(escaped.seen(message.text))
    with smtplib.SMTP(host, int(port or 25), timeout=TIMEOUT_S) as server:
        server.send_message(mail)
