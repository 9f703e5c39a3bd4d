"""The bill: what this process has asked of an object store, by kind, since it was last settled.

A task on another machine sends what it spent with its result (`strata.spark.runner`), and the
history of operations settles the account with each row (`strata.history.operations`).

Errs: low, by tasks that failed, and by rows that Spark reads by itself.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

# How S3 charges: writing and listing some twelve times as much as reading, deleting nothing.
PUTS: Final = frozenset({
    "put_object", "copy_object", "list_objects_v2", "list_multipart_uploads",
    "create_multipart_upload", "upload_part", "complete_multipart_upload",
})  # fmt: skip
GETS: Final = frozenset({"get_object", "head_object", "head_bucket"})
_LOCK: Final = threading.Lock()
_ACCOUNT: Final[Counter[str]] = Counter()


def charge(spent: Mapping[str, int]) -> None:
    """Add requests by operation, and `bytes_in` and `bytes_out`."""
    with _LOCK:
        _ACCOUNT.update(spent)


def settle() -> dict[str, int]:
    """Return what was spent, and begin anew."""
    with _LOCK:
        found = dict(_ACCOUNT)
        _ACCOUNT.clear()
    return found


def told(spent: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a bill as the history has them; nothing, if nothing was spent.

    >>> told({"put_object": 2, "copy_object": 1, "delete_object": 1, "bytes_out": 70})
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
