"""Commands about the deployment: doctor checks it, settings shows each value and its source."""

import os

import typer

from strata.cli.command import command
from strata.cli.context import Answer, Context, answer
from strata.cli.tables import rows
from strata.config.environment import check_all
from strata.config.settings import effective_settings


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "doctor", doctor)
    command(app, "settings", settings)


def doctor(context: Context) -> Answer:
    """Check Python, Java, PySpark, libraries and stores; exit 1 when something is wrong."""
    checks = check_all(context.settings.store)
    items = [{"check": c.name, "ok": c.ok, "found": c.found, "cure": c.cure} for c in checks]
    ok = all(c.ok for c in checks)
    shown = [{**item, "ok": "yes" if item["ok"] else "NO"} for item in items]
    table = rows("doctor", shown, ("check", "ok", "found", "cure"))
    return answer({"ok": ok, "checks": items}, table, code=0 if ok else 1)


def settings(context: Context) -> Answer:
    """Show every setting's value, and whether a file, a variable or the default sets it."""
    found = effective_settings(context.config, os.environ)
    items = [
        {"setting": name, "value": given.value, "from": given.source}
        for name, given in found.items()
    ]
    shown = [{**item, "value": _as_written(item["value"])} for item in items]
    return answer({"settings": items}, rows("settings", shown, ("setting", "value", "from")))


def _as_written(value: object) -> str:
    """Return a setting as its file has it; what is not set is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
