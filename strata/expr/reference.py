"""Write the reference of functions, `docs/reference/functions.md`, from the registry."""

from strata.expr.registry import REGISTRY, SUBJECTS

_HEAD = """# Functions that prune

Generated from the registry by `python -m strata.expr.reference`; do not edit. Names are Spark's
Catalyst class names in lower case. A function that is not listed may yield any value, null or an
error: a part is then kept, unless a conjunct in front of it is certainly false. How each rule was
checked against Spark is in [certificates](certificates/); what became of each rule turned into a
false one is in [mutations](mutations.md).
"""


def markdown() -> str:
    """Return the text of `docs/reference/functions.md`."""
    lines = [_HEAD]
    for subject in SUBJECTS:
        title = subject.__name__.rsplit(".", 1)[1].capitalize()
        first, _, rest = (subject.__doc__ or "").strip().partition("\n\n")
        lines += [f"## {title}\n", first + "\n"]
        lines += [rest.strip() + "\n"] if rest.strip() else []
        lines += ["| Function | Arguments | Result |", "|---|---|---|"]
        lines += [f"| `{e.name}` | {e.arguments or '–'} | {e.note} |" for e in subject.ENTRIES]
        lines.append("")
    return "\n".join([*lines, f"{len(REGISTRY)} functions.\n"])


if __name__ == "__main__":
    from pathlib import Path

    (Path(__file__).parents[2] / "docs" / "reference" / "functions.md").write_text(
        markdown(), encoding="utf-8"
    )
