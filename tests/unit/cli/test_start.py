"""A command loads neither pandas nor what it does not need; Arrow still makes frames later."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from strata.cli.app import main
from strata.cli.start import check_words
from strata.errors import InvalidRequest

ROOT = Path(__file__).parents[3]
FIXED = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
WATCHED = ("pandas", "numba", "sqlglot", "pyspark", "strata.decide.decision", "strata.shard")
SCRIPT = """
import json, sys
from strata.cli.app import main
sys.argv = ["strata", *{argv!r}]
try:
    main()
except SystemExit:
    pass
import pyarrow as pa
loaded = [name for name in {watched!r} if name in sys.modules]
frame = pa.table({{"x": [1, None]}}).to_pandas() if {frame} else None
sys.stderr.write("\\n" + json.dumps([loaded, None if frame is None else len(frame)]))
"""


def loaded(folder: Path, *argv: str, frame: bool = False) -> tuple[set[str], object]:
    """Return what of the watched modules a command loads, and the rows of a frame made later."""
    script = SCRIPT.format(argv=argv, watched=WATCHED, frame=frame)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=True
    )
    names, rows = json.loads(done.stderr.splitlines()[-1])
    return set(names), rows


def test_listing_shards_loads_nothing_that_plans_or_reads(tmp_path: Path) -> None:
    assert loaded(tmp_path, "shards") == (set(), None)


@pytest.mark.parametrize("argv", [["read", "nothing"], ["explain", "nothing", "--where", "a = 1"]])
def test_no_command_loads_pandas_and_frames_are_made_later(tmp_path: Path, argv: list[str]) -> None:
    names, rows = loaded(tmp_path, *argv, frame=True)

    assert not {"pandas", "pyspark"} & names
    assert rows == 2


def test_a_command_does_not_walk_through_its_modules_again_and_again(tmp_path: Path) -> None:
    script = """
import gc, sys
from strata.cli.app import main
passes = []
gc.callbacks.append(lambda phase, _: passes.append(phase) if phase == "start" else None)
sys.argv = ["strata", "explain", "nothing", "--where", "a = 1"]
try:
    main()
finally:
    print(len(passes))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert int(done.stdout.split()[-1]) < 100, done.stderr


@pytest.mark.parametrize(
    ("variables", "word", "cure"),
    [
        ({"LC_ALL": "C"}, "Größe", "set LC_ALL=C.UTF-8, which is 'C' now"),
        ({"LC_CTYPE": "POSIX"}, "Größe", "set LC_CTYPE=C.UTF-8, which is 'POSIX' now"),
        ({"LANG": "C"}, "Größe", "set LANG=C.UTF-8, which is 'C' now"),
        ({}, "Größe", "set LC_ALL=C.UTF-8, which is '' now"),
        ({"LC_ALL": "C.UTF-8"}, b"Gr\xf6\xdfe", "write it in UTF-8, in a terminal of UTF-8"),
    ],
)
def test_a_word_that_is_no_text_names_the_variable_to_set(
    tmp_path: Path, variables: dict[str, str], word: str | bytes, cure: str
) -> None:
    """Python reads bytes that are no text as halves of pairs, at which Arrow broke off."""
    word = word.encode() if isinstance(word, str) else word
    program = "from strata.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "read", "s", "--where", b"b = '" + word + b"'"],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        env={**FIXED, **variables},
    )
    said = done.stderr.decode()
    assert done.returncode == 2
    assert said.startswith("InvalidRequest: a word of the command line is no text in this locale")
    assert cure in said
    assert len(said.splitlines()) == 1


def test_a_person_whose_name_is_no_text_is_refused_before_anything_is_done() -> None:
    """A command ended with an error of the history of operations, or blamed a state."""
    with pytest.raises(InvalidRequest, match="STRATA_USER is no text in this locale"):
        check_words(["create", "s"], {"STRATA_USER": "J\udcfcrg", "LC_ALL": "C.UTF-8"}, "utf-8")
    check_words(["create", "s"], {"STRATA_USER": "J\u00fcrg"}, "utf-8")


def test_a_process_without_a_file_left_ends_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def imports(app: object, words: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "operations.py")

    monkeypatch.setattr("strata.cli.app._run", imports)
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "Unavailable: this process may not open another file file='operations.py'"
    )
    assert "ulimit -n" in said
