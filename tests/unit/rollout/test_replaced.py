"""A process whose code is replaced in place decides nothing that counts, and skips nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from strata.model import loaded
from strata.model.loaded import ROOMS, Loaded
from strata.rollout.basis import code_of

STRATA: Final = Path(__file__).resolve().parents[3] / "strata"

EDIT: Final = "\nSPARE = 1\n"

PROGRAM: Final = """
import sys
from dataclasses import replace

import strata
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model import loaded
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.rollout.basis import basis_of, recorded_basis
from strata.rollout.obey import mode_of
from strata.stats import STATS_VERSION
from strata.store.open import open_stores

columns = [{"name": "id", "type": "int64"}]
stores = open_stores(StoreSettings("memory://replaced", "memory://replaced"))
state = Machine(stores).create(parse_spec({"name": "s", "columns": columns, "key": ["id"]}))

def mode(code):
    "Return the mode that is obeyed if others have approved skipping for this code."
    basis = f"{code}.{STATS_VERSION}.{state.spec.stats.budget_bytes}"
    return mode_of(replace(state, rollout=replace(state.rollout, mode="on", basis=basis)))

asks, old, new = sys.argv[1:]
print(mode(old) if asks == "before" else "ready", flush=True)
sys.stdin.readline()
loaded.OURS._due = 0.0  # a second has passed
print(mode(old))
print(mode(new))
try:
    print(recorded_basis(state))
except InvalidRequest as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("asks", "first"), [("before", "on"), ("after", "ready")])
def test_a_process_skips_nothing_by_code_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str, first: str
) -> None:
    copy = tmp_path / "strata"
    shutil.copytree(STRATA, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "decide" / "decision.py"
    old, text = code_of(copy), file.read_text()
    file.write_text(text + EDIT)
    new = code_of(copy)
    file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    command = [sys.executable, "-c", PROGRAM, asks, old, new]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{first}\n"
        file.write_text(text + EDIT)
        by_old, by_new, *said = process.communicate("go\n")[0].splitlines()

    assert old != new
    assert (by_old, by_new) == ("soft", "soft")
    assert "replaced beneath this process" in said[0]
    assert "start the process again" in said[0]


@pytest.mark.parametrize("room", ROOMS)
def test_a_file_that_changes_comes_or_goes_counts(tmp_path: Path, room: str) -> None:
    file = tmp_path / room / "inner" / "one.py"
    file.parent.mkdir(parents=True)
    file.write_text("A = 1\n")
    cache = file.parent / "__pycache__" / "one.cpython-311.pyc"
    cache.parent.mkdir()

    def replaced(how: str) -> bool:
        seen = Loaded(str(tmp_path))
        assert not seen.replaced(at_once=True)
        if how == "changes":
            file.write_text("A = 2\n")
        elif how == "comes":
            file.with_name("two.py").write_text("")
        elif how == "goes":
            file.with_name("two.py").unlink()
        else:
            cache.write_bytes(how.encode())
        return seen.replaced(at_once=True)

    assert [replaced(how) for how in ("changes", "comes", "goes", "cache")] == [True] * 3 + [False]


def test_what_was_replaced_stays_so_and_is_looked_for_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "decide" / "one.py"
    file.parent.mkdir()
    seen = Loaded(str(tmp_path))
    assert not seen.replaced()
    file.write_text("")

    assert not seen.replaced()
    monkeypatch.setattr(loaded.time, "monotonic", lambda: float("inf"))
    assert seen.replaced()
    file.unlink()
    assert seen.replaced(at_once=True)


def test_a_link_to_nothing_hides_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "decide"
    folder.mkdir()
    for name in "bdfhj":
        (folder / f"{name}.py").write_text("A = 1\n")
    for name in "acegik":  # some stand before each file, however a folder is listed
        (folder / f"{name}.py").symlink_to(tmp_path / "nowhere")

    for name in "bdfhj":
        seen = Loaded(str(tmp_path))
        (folder / f"{name}.py").write_text("A = 22\n")
        assert seen.replaced(at_once=True)
        (folder / f"{name}.py").write_text("A = 1\n")


def test_an_archive_is_not_watched(tmp_path: Path) -> None:
    assert not Loaded(str(tmp_path / "strata.zip" / "strata")).replaced()


def test_another_file_of_the_same_size_and_time_counts_and_a_link_does_not(tmp_path: Path) -> None:
    """An installer sets the time of a file to that of its build, and may share it by links."""
    file = tmp_path / "decide" / "one.py"
    file.parent.mkdir()
    file.write_text("A = 1\n")
    os.utime(file, (0, 0))
    seen = Loaded(str(tmp_path))

    os.link(file, tmp_path / "shared.py")
    assert not seen.replaced(at_once=True)

    other = tmp_path / "other.py"
    other.write_text("A = 2\n")
    os.utime(other, (0, 0))
    other.replace(file)
    assert seen.replaced(at_once=True)
