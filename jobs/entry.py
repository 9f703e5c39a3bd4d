"""How every job ends: a result file for Airflow, one line for people, an exit code for both."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from strata.errors import StrataError


def run_job(result: str | None, work: Callable[[], tuple[Mapping[str, Any], int]]) -> int:
    """Do the work, write its document to `result`, and return the exit code.

    `work` returns the document and 0, or 3 when a mismatch was found. A `StrataError` becomes
    its own exit code, one line on standard error, and a document with the key `error`.
    """
    try:
        document, code = work()
    except StrataError as error:
        kind = type(error).__name__
        sys.stderr.write(f"{kind}: {error}\n")
        document = {"error": {"kind": kind, "message": str(error), "exit_code": error.exit_code}}
        code = error.exit_code
    if result:
        path = Path(result)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2))
    return code
