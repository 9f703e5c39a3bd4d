"""What makes a command start sooner: Arrow does without pandas, which takes half a second to load.

Arrow loads pandas, if it is installed, as soon as it is asked for an array of a Python list, to see
whether the list is a column of pandas. No command has such columns. `to_pandas` loads it later all
the same.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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
