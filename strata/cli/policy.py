"""Commands about the policy of a store: what a step requires, and who may approve one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, ReasonOption, WhoOption, answer
from strata.cli.tables import pairs, rows
from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.rollout import policy
from strata.rollout.people import Person
from strata.rollout.policy import Book

RequestOption = Annotated[
    str, typer.Option("--request", help="The id of the request, as `rollout gates show` prints it.")
]
HISTORY = ("at", "what", "number", "changes", "by", "by_is", "asked_by", "request", "reason")


def commands() -> typer.Typer:
    """Return these commands."""
    app = typer.Typer(help="What a step requires, and who may approve one.", no_args_is_help=True)
    command(app, "show", show)
    command(app, "request", request, row="rollout gates request")
    command(app, "approve", approve, row="rollout gates approve")
    command(app, "reject", reject, row="rollout gates reject")
    return app


def show(context: Context) -> Answer:
    """Show the policy of the store, its values under the local settings, and who changed it."""
    return _answer(context, policy.book_of(context.stores)[0])


def request(
    context: Context,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="A threshold, release_people, or approvers and vouchers (names, with commas).",
        ),
    ],
    reason: ReasonOption,
    by: WhoOption = None,
) -> Answer:
    """Ask for a change of the policy; somebody else has to approve it."""
    return _change(context, policy.ask, by, reason, to=_parsed(values))


def approve(
    context: Context, reason: ReasonOption, request: RequestOption, by: WhoOption = None
) -> Answer:
    """Approve the change that somebody else asked for."""
    return _change(context, policy.approve, by, reason, request=request)


def reject(
    context: Context, reason: ReasonOption, request: RequestOption, by: WhoOption = None
) -> Answer:
    """Refuse the change that was asked for."""
    return _change(context, policy.reject, by, reason, request=request)


def _change(
    context: Context, move: Callable[..., Book], by: str | None, reason: str, **how: Any
) -> Answer:
    """Let a person change the policy, and show the result."""
    change = partial(move, who=context.person(by), reason=reason, **how)
    return _answer(context, policy.change(context.stores, change))


def _parsed(values: Sequence[str]) -> dict[str, Any]:
    """Return the requested values by name."""
    found: dict[str, Any] = {}
    for text in values:
        name, given, value = text.partition("=")
        if not given:
            raise InvalidRequest("this sets nothing", text=text, cure="NAME=VALUE")
        if name in ("approvers", "vouchers"):
            found[name] = tuple(one.strip() for one in value.split(",") if one.strip())
        else:
            found[name] = int(value) if value.isascii() and value.isdigit() else value
    return found


def _answer(context: Context, book: Book) -> Answer:
    asked, vouchers = book.request, book.policy.vouchers
    opened = None
    if asked is not None:
        opened = {
            "id": policy.request_id(asked),
            "changes": list(policy.what_differs(book.policy, asked.policy)),
            "by": asked.by,
            "by_is": Person(asked.by, asked.user).proof(vouchers),
            "reason": asked.reason,
            "at": format_time(asked.at_ms),
            "expires": format_time(asked.expires_ms),
        }
    document: dict[str, Any] = {
        "store": policy.as_document(book.policy),
        "here": policy.as_document(book.policy.tightened(context.settings.rollout)),
        "request": opened,
        "history": [
            {
                "at": format_time(entry.at_ms),
                "what": entry.what,
                "number": entry.number,
                "changes": list(entry.changes),
                "by": entry.by,
                "by_is": Person(entry.by, entry.user).proof(vouchers),
                "asked_by": entry.asked_by,
                "request": entry.request,
                "reason": entry.reason,
            }
            for entry in reversed(book.entries)
        ],
    }
    figures = [
        {"name": name, "store": value, "here": document["here"][name]}
        for name, value in document["store"].items()
    ]
    tables = [rows("policy", figures, ("name", "store", "here"))]
    if opened is not None:
        tables.append(pairs("asked for", opened))
    return answer(document, *tables, rows("history", document["history"], HISTORY))
