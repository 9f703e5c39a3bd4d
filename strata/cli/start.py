"""What stands at the start and the end of a command: its streams, and what it need not wait for.

A process may be started without standard input, output or error (`>&-`). The next file that it
opens would take that place, and what libraries print would be written into it.

Pandas takes half a second to load. Arrow loads it, if it is installed, as soon as it is asked for
an array of a Python list, to see whether the list is a column of pandas. No command has such
columns. `to_pandas` loads it later all the same.
"""

import errno
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from traceback import walk_tb
from types import ModuleType
from typing import Final

from strata.errors import InvalidRequest, StrataError, Unavailable
from strata.store.cures import CURES

LOCALE: Final = ("LC_ALL", "LC_CTYPE", "LANG")  # the first that is set decides
MADE_BEFORE_COLLECTED: Final = 50_000  # objects; Python's own choice is 700
WRITERS: Final = frozenset({"click", "typer", "rich", "pyarrow", "csv", "codecs", "contextlib"})


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise what an import raises that finds nothing."""
        if fullname == "pandas":
            raise ModuleNotFoundError("not while a command starts", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Let Arrow look for pandas, once and in vain. Only for the process of a command."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


def collect_seldom() -> None:
    """Let Python's collector of cycles wait for more objects. Only for the process of a command.

    It would walk through all modules again and again while they are loaded: a tenth of the start.
    """
    gc.set_threshold(MADE_BEFORE_COLLECTED, *gc.get_threshold()[1:])


def end_orderly() -> None:
    """Let SIGTERM end a command as Ctrl-C does. Only for the process of a command.

    Leases, holds and the marks of backups are given back; else others wait for them until they
    expire. A second signal ends the process at once.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _ended)


def _ended(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def open_streams() -> None:
    """Let a stream that is closed lead nowhere. Only for the process of a command."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def check_words(
    words: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    encoding: str = sys.getfilesystemencoding(),
) -> None:
    """Refuse bytes that are no text: no name, path or filter has them, and no person.

    Raises: InvalidRequest with the variable that says how the bytes are to be read.
    """
    places = dict.fromkeys(words, "a word of the command line")
    for word, place in {environ.get("STRATA_USER", ""): "STRATA_USER", **places}.items():
        if word.isascii() or not any("\ud800" <= c <= "\udfff" for c in word):
            continue
        variable = next((v for v in LOCALE if environ.get(v)), LOCALE[0])
        cure = "write it in UTF-8, in a terminal of UTF-8; a file of such a name is renamed"
        if encoding.lower().replace("-", "") != "utf8":
            cure = f"set {variable}=C.UTF-8, which is {environ.get(variable, '')!r} now"
        raise InvalidRequest(
            f"{place} is no text in this locale",
            word=word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
            encoding=encoding,
            cure=cure,
        )


def without_output() -> None:
    """Let standard output lead nowhere, so that the process can end after it has failed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def limit_reached(error: OSError) -> StrataError | None:
    """Return the error of a process that has no number for another open file; None: another one.

    It may arise anywhere, also while a module is imported.
    """
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return None
    return Unavailable(
        "this process may not open another file",
        certain=False,
        file=error.filename,
        reason=error.strerror,
        cure=f"{CURES[errno.EMFILE]}, as `ulimit -n 1024` does, and run again",
    )


def error_without_file(error: OSError) -> StrataError | None:
    """Return what an error of the system means that names no file; None if it is not known.

    The streams of the process and its current folder have no name. Nor do files in the errors of
    some libraries: only what the command line itself writes goes to a stream.
    """
    if error.filename is not None:
        return None
    if error.errno == errno.ENOENT and _is_nowhere():
        return InvalidRequest("the current folder is gone", cure="change into one that is there")
    if not _was_said(error):
        return None
    return Unavailable(
        "the answer cannot be written",
        certain=False,
        reason=error.strerror,
        cure="make room for it; what the command did stays done, and `strata history` shows it",
    )


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _was_said(error: OSError) -> bool:
    """Return whether an error arose while the command line wrote, itself or through a library."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    names = (str(frame.f_globals.get("__name__")) for frame in reversed(frames))
    own = next((name for name in names if name.partition(".")[0] not in WRITERS), "")
    return own == "__main__" or own.startswith(f"{__package__}.")
