"""Read blobs that are named by their content, and detect damage.

Disks, networks and memory flip bits. A Parquet part has checksums of its own. The smaller blobs
have their hash in the name, which is compared each time that one is read whole. Documents that
people take away have a digest in themselves.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import orjson

from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.store.cures import folder_gone
from strata.store.interface import Blob, Rooted
from strata.store.keys import content_hash, named_hash, names_content
from strata.store.retry import Sleep, retry

CURE: Final = "bring back the blob from a backup of the bucket; `strata validate` looks at the rest"


def get_named(
    blob: Blob,
    key: str,
    what: str,
    *,
    cure: str = CURE,
    sleep: Sleep = time.sleep,
    **details: Any,
) -> bytes:
    """Return the bytes of a blob that is named by its content; `what` names it in errors.

    Raises: Corrupt when it is missing or its bytes differ from what was written; Unavailable, also
    when the folder of all blobs is gone.
    """
    data = retry(partial(blob.get, key), sleep=sleep)
    if data is None:
        raise lost_blob(blob, Corrupt(f"{what} is missing", key=key, **details, cure=cure))
    if not names_content(key, data):
        raise Corrupt(
            f"{what} is damaged: its bytes are not those that its name was made from",
            key=key,
            size=len(data),
            **details,
            cure=cure,
        )
    return data


def lost_blob(blob: Blob, error: Corrupt) -> StrataError:
    """Return the error for a missing blob, or another one if the whole folder of blobs is gone."""
    if isinstance(blob, Rooted) and not blob.is_there():
        return folder_gone(blob.place)
    return error


def fields_digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a JSON object for its field `digest`: that of all other fields."""
    fields = {name: value for name, value in document.items() if name != "digest"}
    return content_hash(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))


def other_bytes(key: str, digest: str, /, **where: Any) -> StrataError:
    """Return the error of a write to a key that holds other bytes than those with this hash.

    Where the name was made from these, what is stored is damaged; else the key is taken.
    """
    if named_hash(key) != digest:
        return InvalidRequest("a blob is write-once and this key holds other bytes", **where)
    return Corrupt(
        "a blob is damaged: its bytes are not those that its name was made from",
        **where,
        cure="bring it back from a backup, or delete it and run again, which writes it anew",
    )
