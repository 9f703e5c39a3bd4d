"""S3: text of data, names and errors is text in chat, in mail, and where an approver reads it."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.attacks.hostile import HOSTILE, live

pytestmark = pytest.mark.dags

CHAT = ("<!channel>", "<@U123>", "<https://evil.example|the report>", "&lt;!here&gt;")
MARKDOWN = (
    "![](https://evil.example/x.png)",
    "[Approve](javascript:go())",
    "</td><td>x",
    "a|b",
    "`a`|",
    "a\n\n# Approved by all",
    "<https://evil.example>",
    "https://evil.example",
    "a\\|b",
    "&#x3c;b>",
)


def context(text: str) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", log_url="http://here/log")
    return {"ti": ti, "exception": f"it failed: {text}\nALERT column={text}"}


@pytest.mark.parametrize("text", [*CHAT, *HOSTILE])
def test_chat_calls_nobody_and_links_nowhere(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from strata_airflow import notify

    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(notify, "_post", lambda _, document: sent.append(document))
    assert notify.send(notify.message_of(context(text)), "slack+https://x.example/a")
    assert not re.search("[<>]", sent[0]["text"])
    assert sent[0]["mrkdwn"] is False
    assert json.dumps(sent[0])


@pytest.mark.parametrize(
    "text", ["a\r\nBcc: all@evil.example", "a\nX: y", "\x1b[2Ja", "\u202egood", "bob\u3164"]
)
def test_no_text_keeps_a_mail_from_being_sent_or_adds_to_its_head(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strata_airflow import notify

    mails: list[Any] = []

    class Server:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...
        def send_message(self, mail: Any) -> None:
            mails.append(mail)

    monkeypatch.setattr(notify.smtplib, "SMTP", Server)
    told = notify.Message(text, text, (text,), (), "0")
    assert notify.send(told, "mailto:ops@example.org?server=127.0.0.1:25")
    (mail,) = mails
    assert mail["Bcc"] is mail["X"] is None
    assert not re.search("[\x1b\u202e\u3164]", mail.get_content() + mail["Subject"])


@pytest.mark.parametrize("text", [*MARKDOWN, *HOSTILE])
def test_what_an_approver_reads_is_text(text: str) -> None:
    """Rendered by a Markdown that lets HTML through, links what looks so, and has tables."""
    import mistune

    from strata_airflow import approval

    shown = {
        "shard": "s", "mode": "off", "quarantine": [text], "gates": [],
        "policy": {"number": 1},
        "request": {
            "id": "0", "to": "soft", "by": text, "by_is": text, "reason": text,
            "audit_percent": 1, "clear": [text], "at_ms": 0,
        },
        "evidence": {
            "runs": 0, "days": 0, "parts": 0, "rows": 0, "size_bytes": 0, "failed": 0, "missing": 0,
            "distinct_parts": 0, "filters": 0, "repeats": 0, "bound": text, "basis": text,
            "strata": [{"name": text, "parts": 1}],
        },
    }  # fmt: skip
    render = mistune.create_markdown(escape=False, plugins=["table", "url", "strikethrough"])
    plain = approval.body(shown).replace(approval.escaped.markdown(text), "x")
    page, quiet = str(render(approval.body(shown))), str(render(plain))
    assert not live(page)
    assert re.findall("<[a-z0-9]+", page) == re.findall("<[a-z0-9]+", quiet)
