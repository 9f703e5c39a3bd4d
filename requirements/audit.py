"""Check what is installed and what is known against it: `make audit`.

1. Each list in requirements/ names every distribution once, with one version and with hashes.
2. What is installed in .venv is what the lists say.
3. No version in the lists, and no package of front-end.json, has a known vulnerability, by the
   advisories of the OSV database.

The first two need no network. Where the database cannot be reached that is said, loudly, and is no
failure; `--strict` makes it one (exit code 3). `--advisories FILE` reads the database's answers
from a file instead: a JSON object, from "name==version" to a list of advisory ids.
"""

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
FRONT_END: Final = HERE / "front-end.json"
DATABASE: Final = "https://api.osv.dev/v1/querybatch"
INSTALLED: Final = ("runtime", "dev")
SECONDS: Final = 20
BATCH: Final = 500
UNREACHABLE, FOUND = 3, 1
_LINE: Final = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+))?", re.M
)

Pins = dict[str, str]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks, print what was found, return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--strict", action="store_true", help="an unreachable database fails")
    parser.add_argument("--advisories", type=Path, help="a file instead of the database")
    parser.add_argument("--lists", type=Path, default=HERE, help="the folder of the lists")
    parser.add_argument("--front-end", type=Path, default=FRONT_END, help="front-end packages")
    asked = parser.parse_args(argv)
    files = [
        file for file in sorted(asked.lists.glob("*.txt")) if not file.stem.startswith("excludes")
    ]
    lists = {file.stem: file.read_text("utf-8") for file in files}
    wrong = [f"{name}.txt: {line}" for name, text in lists.items() for line in unpinned(text)]
    pins = {name: pins_of(text) for name, text in lists.items()}
    for name in INSTALLED:
        wrong += [f"{name}.txt: {line}" for line in differing(pins.get(name, {}))]
    every = sorted({(n, v) for found in pins.values() for n, v in found.items()})
    named = [("PyPI", *one) for one in every] + [("npm", *one) for one in vendored(asked.front_end)]
    code = 0
    try:
        known = from_file(asked.advisories) if asked.advisories else from_database(named)
    except (OSError, ValueError, LookupError, TypeError) as error:
        _say(
            f"ADVISORIES NOT CHECKED: the database cannot be reached ({error}).\n"
            f"  None of the {len(named)} packages was compared with what is known against it.\n"
            "  Run `make audit` where the network is, or give --advisories FILE."
        )
        known, code = {}, UNREACHABLE if asked.strict else 0
    for _, distribution, installed in named:
        ids = known.get(f"{distribution}=={installed}", ())
        wrong += [f"{distribution} {installed}: {identifier}" for identifier in ids]
    for line in wrong:
        _say(line)
    _say(
        f"{len(every)} distributions in {len(lists)} lists, {len(named) - len(every)} front-end"
        f" packages, {len(wrong)} findings"
    )
    return FOUND if wrong else code


def pins_of(text: str) -> Pins:
    """Return name and version of each line of a list that holds for this interpreter."""
    from packaging.markers import Marker

    return {
        match[1].lower(): match[2]
        for match in _LINE.finditer(text)
        if not match[3] or Marker(match[3].strip()).evaluate()
    }


def unpinned(text: str) -> Iterable[str]:
    """Yield the entries of a list without one version or without a hash, and foreign addresses."""
    for entry in text.replace("\\\n", " ").splitlines():
        line = entry.strip()
        if not line or line.startswith("#"):
            continue
        if "://" in line or line.startswith("-"):
            yield f"an address or an option: {line[:80]}"
        elif not _LINE.match(line) or "--hash=sha256:" not in line:
            yield f"not pinned with a hash: {line[:80]}"


def differing(pins: Pins) -> Iterable[str]:
    """Yield what is installed in another version than the list says, or not at all."""
    for name, wanted in pins.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "nothing"
        if found != wanted:
            yield f"{name} should be {wanted}, {found} is installed"


def from_file(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the advisories in a file. Raises: ValueError."""
    found: Mapping[str, Sequence[str]] = json.loads(path.read_text("utf-8"))
    return found


def vendored(file: Path) -> list[tuple[str, str]]:
    """Return name and version of each front-end package that files are kept of."""
    said = json.loads(file.read_text("utf-8"))
    return [(one["name"], one["version"]) for one in said]


def from_database(every: Sequence[tuple[str, str, str]]) -> Mapping[str, Sequence[str]]:
    """Return the advisories on each version of (ecosystem, name, version).

    Raises: OSError, ValueError; LookupError or TypeError for an answer of another form.
    """
    found: dict[str, Sequence[str]] = {}
    for start in range(0, len(every), BATCH):
        some = every[start : start + BATCH]
        queries = [
            {"package": {"name": name, "ecosystem": ecosystem}, "version": wanted}
            for ecosystem, name, wanted in some
        ]
        body = json.dumps({"queries": queries}).encode()
        request = urllib.request.Request(DATABASE, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            results: list[dict[str, Any]] = json.load(answer)["results"]
        for (_, name, wanted), result in zip(some, results, strict=True):
            found[f"{name}=={wanted}"] = [each["id"] for each in result.get("vulns", ())]
    return found


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
