"""What `strata rollout show` shows to people."""

from collections.abc import Mapping
from typing import Any, Final

from strata.audit.standing import COST
from strata.cli.tables import Table, pairs, rows, shown_bytes
from strata.cli.visible import shown_count
from strata.model.time import format_time
from strata.rollout.gates import LADDER

_EVENT: Final = ("at", "what", "step", "by", "asked by", "reason")


def rollout_tables(document: Mapping[str, Any]) -> list[Table]:
    """Return where a shard stands, what the next step needs, and how it came here."""
    tables = [pairs(document["shard"], _standing(document))]
    if document["request"]:
        tables.append(pairs("asked for", _request(document["shard"], document["request"])))
    if document["next"]:
        title = f"gates to {document['next']}"
        tables.append(rows(title, document["gates"], ("passed", "name", "found", "wanted")))
    pool = document["pool"]
    named = {name: " ".join(pool[name]) for name in ("shards", "lied", "copies", "unknown")}
    if any(named.values()):
        flat = {**pool, **named}
        tables.append(pairs("other shards of this class", flat))
    evidence = document["evidence"]
    return [
        *tables,
        pairs("evidence", _evidence(evidence)),
        rows("evidence by kind of filter and statistics", evidence["strata"], ("parts", "name")),
        rows("an audit of", document["audit_cost"], COST),
        rows("history", [_event(entry) for entry in document["history"]], _EVENT),
    ]


def _standing(document: Mapping[str, Any]) -> dict[str, Any]:
    mode, obeyed = document["mode"], document["obeyed"]
    found = {
        "ladder": " → ".join(f"[{one}]" if one == mode else one for one in LADDER),
        "mode": mode if mode == obeyed else f"{mode}, but {obeyed} is obeyed",
        "audits": f"{document['audit_percent']} % of what is skipped"
        if document["audit_percent"]
        else "",
        "since": document["changed_at"],
        "by": document["changed_by"],
        "reason": document["reason"],
        "quarantine": " ".join(document["quarantine"]),
        "other code since": "yes: evidence of it counts anew"
        if document["basis"] and document["basis"] != document["code"]
        else "",
    }
    return {name: value for name, value in found.items() if value}


def _request(shard: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        "step to": asked["to"],
        "audits": f"{asked['audit_percent']} % of what is skipped",
        "by": f"{asked['by']} ({asked['by_is']})" if asked["by_is"] else asked["by"],
        "reason": asked["reason"],
        "at": format_time(asked["at_ms"]),
        "expires": format_time(asked["expires_ms"]),
        "may answer": " ".join(asked.get("may_answer", ())),
        "approve": f"strata rollout approve {shard} --request {asked['id']} --reason WHY",
        "reject": f"strata rollout reject {shard} --request {asked['id']} --reason WHY",
    }
    return {name: value for name, value in found.items() if value}


def _evidence(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was audited, in lines that read as sentences."""
    times = [format_time(seen[name]) for name in ("first_ms", "last_ms") if seen[name]]
    return {
        "bound": seen["bound"],
        "judged": f"{shown_count(seen['parts'], 'part')}, each once for a filter;"
        f" {seen['repeats']:,} again; {seen['distinct_parts']:,} distinct",
        "filters": seen["filters"],
        "runs": f"{seen['runs']:,} on {shown_count(seen['days'], 'day')}",
        "between": " and ".join(times),
        "looked into": f"{shown_count(seen['rows'], 'row')}, {shown_bytes(seen['size_bytes'])}",
        "failed": seen["failed"],
        "missing": seen["missing"],
    }


def _event(entry: Mapping[str, Any]) -> dict[str, Any]:
    before, after = entry["before"], entry["after"]
    return {
        **entry,
        "step": after if before == after else f"{before} → {after}",
        "asked by": entry["asked_by"],
    }
