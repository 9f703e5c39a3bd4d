"""The command that makes shards what their files declare: apply."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from strata.advise import bring_all_along
from strata.cli.command import command
from strata.cli.context import Answer, Context, ReasonOption, WhoOption, answer
from strata.cli.maintain import TASKS
from strata.cli.remarks import remark
from strata.cli.tables import Table, rows
from strata.cli.visible import shown_count
from strata.config.filters import load_filters
from strata.config.shards import declarations
from strata.errors import InvalidRequest
from strata.ingest.updates import check_spec
from strata.maintain.declare import (
    ShardPlan,
    apply_plans,
    plan_code,
    plan_declarations,
    takes_away,
)
from strata.model.near import one_of
from strata.model.runner import threads

PLANNED = 2  # exit code of --check where there is something to do
_MARKS: Mapping[str, str] = {"create": "+", "change": "~", "refused": "!", "nothing": " "}


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "apply", apply, row="apply", idle=_only_planned)


def apply(
    context: Context,
    path: Annotated[
        str | None,
        typer.Argument(
            help="A file, or a folder of files; default: shards_dir of the settings.",
            metavar="[PATH]",
        ),
    ] = None,
    shard: Annotated[
        list[str] | None,
        typer.Option("--shard", help="Only this shard; repeat for more. Default: all declared."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 2 if there is something to do, else 0.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Apply, unless a column would go.")] = False,
    confirm: Annotated[
        str, typer.Option("--confirm", help="Apply exactly the plan that has shown this code.")
    ] = "",
    stored: Annotated[
        bool,
        typer.Option("--stored", help="Afterwards also bring stored parts along: these commands."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show also the settings that stay.")
    ] = False,
    by: WhoOption = None,
    reason: ReasonOption = "",
) -> Answer:
    """Make shards what their files declare; without --yes or --confirm only show the plan."""
    if check and (yes or confirm):
        raise InvalidRequest("a check changes nothing", cure="either --check, or --yes")
    where = path or context.settings.shards_dir
    plans = plan_declarations(
        context.machine,
        _chosen(where, shard),
        check=check_spec,
        filters=load_filters(context.settings.filters_dir),
    )
    code = plan_code(plans)
    todo = [plan for plan in plans if plan.action != "nothing"]
    wanted = bool(yes or confirm)
    if wanted:
        _agreed(plans, yes=yes, confirm=confirm, code=code)
        apply_plans(context.machine, plans)
        if stored:
            bring_all_along(
                context.stores,
                context.settings,
                [(plan.shard, step) for plan in todo for step in plan.then],
                runner=threads(TASKS),
                log=lambda step: remark(f"{step.command}: {shown_count(step.parts, 'part')}"),
            )
    document = {
        "path": where,
        "code": code,
        "applied": wanted,
        "to_do": len(todo),
        "takes_away": takes_away(plans),
        "shards": [plan.to_json() for plan in plans],
    }
    refused = any(plan.action == "refused" for plan in plans)
    return answer(
        document,
        *_shown(plans, everything=everything),
        _last_words(plans, code, applied=wanted, stored=stored),
        code=PLANNED if refused or (check and todo) else 0,
    )


def _only_planned(given: Mapping[str, Any]) -> bool:
    return not given.get("yes") and not given.get("confirm")


def _chosen(where: str, names: Sequence[str] | None) -> list[Any]:
    found = declarations(where)
    if not found:
        raise InvalidRequest(
            "there is no declaration", path=where, cure="a YAML file, or a folder that has some"
        )
    for name in names or ():
        if name not in found:
            raise InvalidRequest(
                "no file declares this shard", shard=name, path=where, cure=one_of(name, found)
            )
    return [found[name] for name in dict.fromkeys(names or found)]


def _agreed(plans: Sequence[ShardPlan], *, yes: bool, confirm: str, code: str) -> None:
    """Refuse to apply what was not seen. Raises: InvalidRequest."""
    if confirm and confirm != code:
        raise InvalidRequest(
            "this code confirms another plan",
            value=confirm,
            cure="run without --confirm, look at the plan, and use the code that it shows",
        )
    columns = takes_away(plans)
    if yes and not confirm and columns:
        raise InvalidRequest(
            "columns would go, and --yes is not enough for that",
            columns=columns,
            cure="run without --yes, look at the plan, and use --confirm with its code",
        )


def _shown(plans: Sequence[ShardPlan], *, everything: bool) -> list[Table]:
    tables = []
    for plan in plans:
        lines = plan.lines if everything else plan.differences
        if plan.action == "create" and not everything:
            lines = ()
        flat = [
            {
                "setting": line.setting,
                "before": _value(line.before),
                "after": _value(line.after),
                "effect": line.effect.value,
                "note": line.note,
                "cure": line.cure,
            }
            for line in lines
        ]
        title = f"{_MARKS[plan.action]} {plan.shard}: {plan.action}".strip()
        if lines or plan.action != "nothing":
            tables.append(
                rows(title, flat, ("setting", "before", "after", "effect", "note", "cure"))
            )
        then = [
            {"command": step.command, "parts": step.parts, "bytes": step.size_bytes}
            for step in plan.then
        ]
        tables.append(
            rows(f"stored parts of {plan.shard} follow by", then, ("command", "parts", "bytes"))
        )
    return [table for table in tables if table.lines]


def _value(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, value)) if value else "none"
    return "" if value is None else value


def _last_words(plans: Sequence[ShardPlan], code: str, *, applied: bool, stored: bool) -> str:
    counts = {kind: [p.shard for p in plans if p.action == kind] for kind in _MARKS}
    said = [
        f"{len(names)} to {kind}: {', '.join(names)}"
        for kind, names in counts.items()
        if names and kind in ("create", "change")
    ]
    if not said and not counts["refused"]:
        return "Nothing to do: the shards are what their files declare.\n"
    if counts["refused"]:
        names = ", ".join(counts["refused"])
        return f"Nothing is applied while something is refused: {names}\n"
    if not applied:
        how = f"--confirm {code}" if takes_away(plans) else f"--yes, or --confirm {code}"
        return f"{'; '.join(said)}. Nothing was changed. To apply, add: {how}\n"
    if stored or not any(plan.then for plan in plans):
        return "Applied.\n"
    return "Applied. Readers see the same rows; the commands above bring stored parts along.\n"
