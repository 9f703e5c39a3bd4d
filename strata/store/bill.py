"""The bill: requests of this process to object stores, by kind, since it was last settled.

A task on another machine returns its bill with its result (`strata.spark.runner`), and the history
of operations settles the bill with each row (`strata.history.operations`).

Errs: too low, because failed tasks and rows that Spark reads on its own are missing.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

# Prices of S3: writing and listing cost some twelve times as much as reading, deleting nothing.
PUTS: Final = frozenset(
    {
        "put_object",
        "copy_object",
        "list_objects_v2",
        "list_multipart_uploads",
        "create_multipart_upload",
        "upload_part",
        "complete_multipart_upload",
    }
)
GETS: Final = frozenset({"get_object", "head_object", "head_bucket"})
_LOCK: Final = threading.Lock()
_ACCOUNT: Final[Counter[str]] = Counter()


def charge(spent: Mapping[str, int]) -> None:
    """Add requests by operation, and `bytes_in` and `bytes_out`."""
    with _LOCK:
        _ACCOUNT.update(spent)


def settle() -> dict[str, int]:
    """Return the bill, and begin a new one."""
    with _LOCK:
        found = dict(_ACCOUNT)
        _ACCOUNT.clear()
    return found


def bill_counts(spent: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a bill for the history; empty if nothing was spent.

    >>> bill_counts({"put_object": 2, "copy_object": 1, "delete_object": 1, "bytes_out": 70})
    {'s3_puts': 3, 's3_gets': 0, 's3_bytes_in': 0, 's3_bytes_out': 70}
    """
    if not spent:
        return {}
    return {
        "s3_puts": sum(number for what, number in spent.items() if what in PUTS),
        "s3_gets": sum(number for what, number in spent.items() if what in GETS),
        "s3_bytes_in": spent.get("bytes_in", 0),
        "s3_bytes_out": spent.get("bytes_out", 0),
    }
