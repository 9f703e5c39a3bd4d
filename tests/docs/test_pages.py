"""Links and anchors lead somewhere, code is what it says, the menu has every page."""

import ast
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import today
from strata.config.filters import parse_filter
from strata.config.settings import load_settings
from strata.model.spec import parse_spec
from tools import cli_page, pictures, site

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / page for page in site.pages()]
LINK = re.compile(r"\]\((?![a-z+]+:)([^)\s]+)\)")
FENCE = re.compile(r"^(?P<in> *)```(?P<kind>\w*)\n(?P<body>.*?)^ *```$", re.MULTILINE | re.DOTALL)
# What the lines of a usage summary hold besides the command: an ellipsis, words behind two blanks.
COMMENT = re.compile(r"(?:\s{2,}|\s#\s).*$")
GLOBAL = {"-h", "--help"}


def name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def blocks(page: Path, *kinds: str) -> Iterator[str]:
    for match in FENCE.finditer(page.read_text("utf-8")):
        if match["kind"] in kinds:
            yield textwrap.dedent(match["body"])


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]", "", heading.strip()))
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(slug(h) for h in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE))


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of it."""
    found = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        missing = anchor and target.suffix == ".md" and anchor not in anchors(target)
        if not target.exists() or missing:
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n\n[x](#a-b-c) [y](#a-b) [z](none.md)\n", "utf-8")
    assert broken(page) == ["#a-b", "none.md"]


def test_the_menu_names_every_page() -> None:
    menu = (PROJECT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"([\w./-]+\.md)\b", menu)
    assert sorted(named) == sorted(map(str, site.pages()))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_python_compiles(page: Path) -> None:
    for body in blocks(page, "python"):
        ast.parse(body.replace("=...", "=None"), name(page))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_block_of_python_imports_from_strata_is_there(page: Path) -> None:
    for body in blocks(page, "python"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strata"):
                module = __import__(node.module or "", fromlist=["_"])
                assert all(hasattr(module, alias.name) for alias in node.names), node.module


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_toml_is_a_settings_file(page: Path, tmp_path: Path) -> None:
    for body in blocks(page, "toml"):
        assert tomllib.loads(body)
        file = tmp_path / "settings.toml"
        file.write_text(body, "utf-8")
        load_settings(str(file), {})


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_yaml_is_a_declaration_or_a_filter(page: Path) -> None:
    for body in blocks(page, "yaml"):
        told = yaml.safe_load(body)
        if "columns" in told and "where" not in told:
            parse_spec(told)
        elif "where" in told:
            parse_filter(told)
        else:  # some fields of a declaration
            parse_spec({"name": "s", "columns": [{"name": "a", "type": "int64"}], **told})


@cache
def options() -> dict[str, set[str]]:
    """Return the options of each command, by its full name."""
    return {
        full: {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o[0] == "-"}
        for full, command in cli_page.commands().items()
    }


def wrong_calls(line: str) -> list[str]:
    """Return what a line of a shell or a usage summary says of `strata` that is not so."""
    found = re.search(r"(?:^|[\s;&|`(])strata ([a-z]+(?: [a-z][a-z-]*)*)(.*)", line)
    if not found:
        return []
    words = found[1].split()
    for count in range(len(words), 0, -1):
        command = " ".join(words[:count])
        if command in options():
            flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", _flags(found[2]))
            return [f"{command} {f}" for f in flags if f not in options()[command] | GLOBAL]
    groups = {full.rpartition(" ")[0] for full in options() if " " in full}
    groups |= {group.partition(" ")[0] for group in groups}
    return [] if " ".join(words) in groups else [found[0].strip()]


def _flags(rest: str) -> str:
    """Return the part of a command line in which its own flags stand."""
    try:
        quoted = [w for w in shlex.split(rest, comments=True) if " " in w]
    except ValueError:
        quoted = []
    for text in quoted:
        rest = rest.replace(text, "")
    return re.split(r" \| | && | > ", rest)[0]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_in_a_block_exists(page: Path) -> None:
    bodies = "\n".join(blocks(page, "console", "bash", "sh", "text", ""))
    lines = re.findall(r"^\s*(?:\$ )?strata .*$", bodies, re.MULTILINE)
    assert [wrong for line in lines for wrong in wrong_calls(COMMENT.sub("", line))] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_in_the_text_exists(page: Path) -> None:
    spans = re.findall(r"`(strata [^`\n]+)`", prose(page))
    assert [wrong for span in spans for wrong in wrong_calls(span)] == []


def test_a_command_and_an_option_that_do_not_exist_are_found() -> None:
    assert wrong_calls("$ strata explode orders") == ["strata explode orders"]
    assert wrong_calls("strata read orders --wherever x") == ["read --wherever"]
    assert wrong_calls('strata read orders --where "a --b > 1" --out f') == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_target_of_make_exists(page: Path) -> None:
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z][a-z-]*)", prose(page)))
    for body in blocks(page, "console", "bash"):
        named |= set(re.findall(r"^\$ make ([a-z][a-z-]*)", body, re.MULTILINE))
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_module_that_is_run_is_there(page: Path) -> None:
    for module in re.findall(
        r"python -m ((?:benchmarks|tools|tests|strata|demo)(?:\.\w+)+)", prose(page)
    ):
        place = PROJECT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


def test_the_page_of_the_command_line_is_up_to_date() -> None:
    assert cli_page.PAGE.read_text("utf-8") == cli_page.page(), "run: python -m tools.cli_page"


@pytest.mark.parametrize("picture", pictures.PICTURES)
def test_the_pictures_are_up_to_date(picture: str) -> None:
    drawn = (pictures.IMAGES / picture).read_text("utf-8")
    assert drawn == pictures.PICTURES[picture](), "run: python -m tools.pictures"


def test_table_and_chart_of_the_benchmarks_are_up_to_date() -> None:
    page = today.PAGE.read_text("utf-8")
    assert page == today.filled(page), "run: python -m benchmarks.today"
    assert today.CHART.read_text("utf-8") == today.chart()
    peers = today.PEERS_PAGE.read_text("utf-8")
    assert peers == today.filled_peers(peers), "run: python -m benchmarks.today"


def test_every_benchmark_that_is_named_exists() -> None:
    for figure in today.figures():
        assert (PROJECT / "benchmarks" / f"{figure.command.split()[0]}.py").exists()


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/a">', ["//fonts.example/a"]),
        ("body { background: url(https://x.example/y) }", ["https://x.example/y"]),
        ('<a href="https://x.example">x</a> <img src="images/a.png">', []),
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_found(html: str, found: list[Any]) -> None:
    assert site.outside(html) == found


def test_the_site_wears_the_colours_of_the_console() -> None:
    style = (PROJECT / "docs/images/site.css").read_text("utf-8")
    console = (PROJECT / "strata/ui/templates/console.css").read_text("utf-8")
    colours = re.findall(r"#[0-9a-f]{6}", style)
    assert len(colours) > 20
    assert not [colour for colour in colours if colour not in console]
