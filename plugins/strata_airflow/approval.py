"""The question to an approver, as plain Markdown made from `strata rollout show --json`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strata_airflow import escaped

APPROVE: Final = "Approve"
REJECT: Final = "Reject"
CHANGES: Final = {
    "soft": "Nothing for readers: they fetch every part. Evidence begins to be collected.",
    "audit": "Readers skip parts that a filter rules out, but for a sample of them.",
    "on": "Readers skip parts that a filter rules out. A small sample stays audited, for ever.",
}


def chosen(options: Sequence[str]) -> tuple[str, str]:
    """Return the word and the request id of an answer: an option names both.

    >>> chosen(["Approve 1f2e"])
    ('Approve', '1f2e')

    Anything except one plain approval is a rejection.
    """
    word, _, request = (options[0] if len(options) == 1 else "").partition(" ")
    return (APPROVE if word == APPROVE and request else REJECT), request


def carried_out(history: Sequence[Mapping[str, Any]], noted: Mapping[str, Any]) -> bool:
    """Return whether a noted answer is in a shard's history.

    `history`: lines of `strata rollout show`, newest first. `noted`: word, request, person, reason,
    and when the answer was given (`at_ms`). What was done before the answer is not its own. An
    approval counts only as the last step of the shard; a rejection moves nothing, so it always
    counts.
    """
    if noted.get("word") == REJECT:
        done = [line for line in history if line["what"] == "rejected"]
    else:
        steps = [line for line in history if line["before"] != line["after"]]
        done = [line for line in steps[:1] if line["what"] == "approved"]
    at_ms = noted.get("at_ms")
    return isinstance(at_ms, int) and any(
        all(line[name] == noted.get(name) for name in ("request", "by", "reason"))
        and line["at_ms"] >= at_ms
        for line in done
    )


def subject(shown: Mapping[str, Any]) -> str:
    """Return the headline of the question."""
    asked = shown["request"]
    return f"{shown['shard']}: {shown['mode']} to {asked['to']}? {asked['id']}"  # lists cut it


def body(shown: Mapping[str, Any]) -> str:
    """Return the evidence as Markdown: who asks and why, the gates, what changes, the way back."""
    asked, seen = shown["request"], shown["evidence"]
    facts = [
        ("Request", asked["id"]),
        ("Asked by", f"{asked['by']} ({asked['by_is']})"),
        ("Reason", asked["reason"]),
        ("Step", f"{shown['mode']} → {asked['to']}, {asked['audit_percent']} % audited"),
        ("Released from quarantine", " ".join(asked["clear"]) or "nothing"),
        ("Still in quarantine", _left(shown["quarantine"], asked["clear"])),
        ("Runs, days", f"{seen['runs']}, {seen['days']}"),
        (
            "Parts, rows, bytes audited",
            f"{seen['parts']:,}, {seen['rows']:,}, {seen['size_bytes']:,}",
        ),
        ("Distinct parts, filters", f"{seen['distinct_parts']:,}, {seen['filters']:,}"),
        ("The same part and filter again", f"{seen['repeats']:,} times, counted as nights only"),
        ("Policy of the store", f"number {shown['policy']['number']}"),
        ("Failed, missing checks", f"{seen['failed']}, {seen['missing']}"),
        ("Mismatches", "0: a mismatch begins anew"),
        ("Bound", seen["bound"]),
        ("Code", seen["basis"] or "no audit yet"),
    ]
    thin = sorted(seen["strata"], key=lambda stratum: stratum["parts"])[:10]
    return "\n\n".join(
        [
            table(("", ""), facts),
            "**Gates**",
            table(
                ("Gate", "Wanted", "Found", ""),
                [
                    (g["name"], g["wanted"], g["found"], "passed" if g["passed"] else "NOT PASSED")
                    for g in shown["gates"]
                ],
            )
            if shown["gates"]
            else "None: after this step nothing is skipped yet.",
            "**Thinnest strata**",
            table(("Stratum", "Audited parts"), [(s["name"], s["parts"]) for s in thin])
            if thin
            else "None: nothing was audited yet.",
            f"**What changes:** {CHANGES[asked['to']]}",
            "**The way back:** by itself, in the commit that records a mismatch; by hand"
            f" `strata rollout step-down {shown['shard']} --reason ...`; for all shards at once"
            " `strata rollout kill --reason ...`.",
        ]
    )


def _left(quarantine: Sequence[str], clear: Sequence[str]) -> str:
    return " ".join(word for word in quarantine if word not in clear) or "nothing"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    r"""Return a Markdown table; the contents of a cell are escaped text.

    >>> print(table(("a", "b"), [(1, "x|y")]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    cells = [[escaped.markdown(str(cell)) for cell in row] for row in (head, *rows)]
    cells.insert(1, ["---"] * len(head))
    return "\n".join(
        "|" + "|".join(row) + "|" if n == 1 else "| " + " | ".join(row) + " |"
        for n, row in enumerate(cells)
    )
