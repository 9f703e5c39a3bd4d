"""What the documents name exists: targets of make, commands of strata, files."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    PROJECT / name
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md")
    if (PROJECT / name).exists()
]
MAKEFILE = (PROJECT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
COMMANDS = {
    "doctor",
    "shards",
    "create",
    "inspect",
    "history",
    "ingest",
    "compact",
    "stats",
    "validate",
    "explain",
    "read",
    "schema",
}


def test_there_are_documents_and_targets_to_check():
    assert PROJECT / "CONTRIBUTING.md" in DOCUMENTS
    assert {"demo", "demo-lie", "up", "down", "test", "setup", "lint", "types", "arch"} <= TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_make_target_that_is_named_exists(document):
    named = set(re.findall(r"`make ([a-z][a-z-]*)", document.read_text("utf-8")))
    assert named - TARGETS == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)
def test_every_link_to_a_file_leads_somewhere(document):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_target_has_one_line_of_help_and_is_phony_or_a_file():
    shown = set(re.findall(r"^([a-z][a-z-]*):.*## \S", MAKEFILE, re.MULTILINE))
    assert shown == TARGETS
    assert set(re.findall(r"^\.PHONY: (\S+)", MAKEFILE, re.MULTILINE)) == TARGETS


def test_the_readme_names_the_two_commands_and_the_commands_of_strata():
    readme = PROJECT / "README.md"
    text = readme.read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize("page", ["README.md", "benchmarks/README.md"])
def test_a_front_page_stays_one_page(page: str) -> None:
    assert len((PROJECT / page).read_text("utf-8").splitlines()) < 150


def test_the_command_line_has_every_command():
    import typer.main

    from strata.cli.app import whole

    known = set(typer.main.get_command(whole()).commands)
    assert COMMANDS - known == set()


def test_no_requirement_list_names_an_address():
    lists = sorted((PROJECT / "requirements").glob("*.txt"))
    assert len(lists) >= 4
    for file in lists:
        assert "://" not in file.read_text("utf-8"), file.name


def test_the_client_that_overwrites_pyspark_is_in_no_list():
    for name in ("runtime.txt", "dev.txt"):
        text = (PROJECT / "requirements" / name).read_text("utf-8")
        assert re.search(r"^pyspark==", text, re.MULTILINE)
        assert not re.search(r"^pyspark-client==", text, re.MULTILINE)
