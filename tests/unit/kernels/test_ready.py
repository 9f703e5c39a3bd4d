"""Kernels of a wheel are taken if they are of these sources and run on this machine."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

from strata.kernels import ready

STAMP = "the sources"


@pytest.fixture
def dispatcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return what makes a kernel anew, by its stamp; a ready one lies where a wheel has it."""
    source = tmp_path / "doubled.py"
    source.write_text("def doubled(n):\n    return 2 * n\n")
    spec = importlib.util.spec_from_file_location("doubled", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "doubled", module)  # a kernel that is loaded imports it again
    monkeypatch.setattr(ready, "FOLDER", tmp_path / "ready")
    monkeypatch.setattr(ready, "_use", [True])
    monkeypatch.setattr(ready, "runs_here", lambda: True)
    ready.FOLDER.mkdir()

    def made(stamp: str) -> Any:
        kernel: Any = numba.njit(module.doubled)
        kernel._cache = ready.KernelCache(module.doubled, stamp)
        return kernel

    kernel = made(STAMP)
    assert kernel(21) == 42
    cache, codegen = kernel._cache, kernel.targetctx.codegen()
    (sig,) = kernel.signatures
    key = cache._index_key(sig, codegen)
    wanted = (sig, (key[1][0], ready.BASELINE, ""), key[2])
    place = IndexDataCacheFile(str(ready.FOLDER), cache._impl.filename_base, STAMP)
    place.save(wanted, cache._cache_file.load(key))
    shutil.rmtree(cache.cache_path)
    Path(cache.cache_path).mkdir()
    return made


def compiled(kernel: Any) -> bool:
    assert kernel(4) == 8
    return not kernel.stats.cache_hits


def test_a_ready_kernel_is_not_compiled(dispatcher: Callable[[str], Any]) -> None:
    assert not compiled(dispatcher(STAMP))


def test_one_of_other_sources_is(dispatcher: Callable[[str], Any]) -> None:
    assert compiled(dispatcher("other sources"))


def test_so_is_one_for_a_processor_that_this_is_not(
    dispatcher: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "runs_here", lambda: False)
    assert compiled(dispatcher(STAMP))


def test_so_is_every_kernel_that_is_to_be_made_for_this_machine(
    dispatcher: Callable[[str], Any],
) -> None:
    ready.compile_again()
    assert compiled(dispatcher(STAMP))


def test_what_this_machine_has_compiled_comes_first(dispatcher: Callable[[str], Any]) -> None:
    ready.compile_again()
    assert compiled(dispatcher(STAMP))
    assert not compiled(dispatcher(STAMP))


def test_nothing_kept_of_a_kernel_names_a_place(
    dispatcher: Callable[[str], Any], tmp_path: Path
) -> None:
    kept = list(ready.FOLDER.glob("*.nbc"))
    assert kept
    assert not [file for file in kept if str(tmp_path).encode() in file.read_bytes()]


LOADED = """
import json, sys
import numba
import numpy as np
from strata.kernels import digits

def counted(numbers):
    found = np.zeros(3, np.int64)  # an array and a dictionary: much of what a compiler knows
    several = {}
    for number in numbers:
        several[number] = True
        found[number % 3] += 1
    return found, len(several)

def used():
    days = np.array([0, 59, 20_000])
    year, day = np.zeros_like(days), np.zeros_like(days)
    digits.split_days(days, year, day)
    words = digits.decimal_digits(np.array([[42, 0]], np.uint64), np.array([True]))
    return [year.tolist(), day.tolist(), words.tolist()]

if sys.argv[1] == "before":  # what numba does by itself
    digits.split_days.targetctx.refresh()
first, knows = used(), "numba.np.linalg" in sys.modules
made, several = numba.njit(counted)(np.array([1, 2, 4, 4]))
print(json.dumps([knows, first, used(), made.tolist(), several]))
"""


def test_a_kernel_that_is_there_is_loaded_without_what_compilers_know() -> None:
    from strata.format.rowcodec.warm import warm

    warm()  # all of them are there now
    found = {
        when: json.loads(
            subprocess.run(
                [sys.executable, "-c", LOADED, when], capture_output=True, text=True, check=True
            ).stdout
        )
        for when in ("before", "never")
    }
    assert [found[when].pop(0) for when in ("before", "never")] == [True, False]
    assert found["before"] == found["never"]
    (first, again, made, several) = found["never"]
    assert first == again == [[1970, 1970, 2024], [1, 60, 278], [[0x42C, 0, 0]]]
    assert (made, several) == ([0, 3, 1], 3)
