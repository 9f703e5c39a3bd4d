"""The command that checks the environment: strata doctor."""

import typer

from strata.cli.context import ConfigOption, Context, JsonOption, answer, rows
from strata.config.environment import check_all


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command("doctor")(doctor)


def doctor(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Check Python, Java, PySpark, libraries and stores; exit 1 when something is wrong."""
    checks = check_all(Context(config).settings.store)
    items = [
        {"check": c.name, "ok": "yes" if c.ok else "NO", "found": c.found, "cure": c.cure}
        for c in checks
    ]
    document = {
        "ok": all(c.ok for c in checks),
        "checks": [{**item, "ok": c.ok} for item, c in zip(items, checks, strict=True)],
    }
    answer(document, json, rows("doctor", items, ("check", "ok", "found", "cure")))
    if not document["ok"]:
        raise typer.Exit(1)
