"""The report on S3: pages and results side by side, updated after every run.

    s3://bucket/prefix/site/index.html ...      the pages, as they were made to open offline
    s3://bucket/prefix/results/SUITE/RUN/...    the results that the index is built from

A worker may have no disk of its own. Results of other runs are therefore fetched before the site
is built, so that the index lists all of them. At most `limit` results are kept, locally and on S3.
Pages of older results stay, so links in alerts keep working. Great Expectations makes pages on this
machine, not with its own backend for S3, because they are rewritten before anybody may see them.
"""

import mimetypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any, Final

from strata.errors import Corrupt
from strata.jobs.validate.whole import write_whole
from strata.store.s3_client import (
    MISSING,
    S3Address,
    S3Client,
    body_of,
    client_error,
    outside,
    refusal_code,
)

SITE: Final = "site"
RESULTS: Final = "results"
INDEX: Final = "index.html"
LIBRARIES: Final = "static"  # of the site: copies by Great Expectations and by former versions


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a report lies on this machine."""

    site: Path
    results: Path  # of Great Expectations: SUITE/RUN/TIME/BATCH.json


class ReportOnS3:
    """The place of a report on S3."""

    def __init__(self, url: str) -> None:
        """Take an address in the blob store's form. Raises: InvalidRequest for any other."""
        self._address = S3Address.parse(url, "validate.report_url")
        self._client = S3Client(self._address)

    @property
    def index(self) -> str:
        """Return the address of the first page."""
        return f"s3://{self._address.bucket}/{self._address.prefix}{SITE}/{INDEX}"

    def fetch(self, folders: Folders, limit: int) -> int:
        """Fetch the newest results that are missing here; return their number.

        Raises: Corrupt for a name that leads elsewhere; Unavailable.
        """
        fetched = 0
        for name in newest(self._listed(RESULTS), limit):
            if not _is_result(name):
                raise Corrupt(
                    "a result in the bucket has a name that no report gave it",
                    bucket=self._address.bucket,
                    name=name,
                    cure="see who wrote it, and delete it",
                )
            target = folders.results / name
            if target.exists() or (data := self._get(f"{RESULTS}/{name}")) is None:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, data)
            fetched += 1
        return fetched

    def publish(self, folders: Folders, limit: int, under_way: Callable[[str], str] = str) -> int:
        """Upload changed files, the index last; return their number.

        Where anything but the index changes, the index that is there is first replaced by what
        `under_way` makes of it: an upload that breaks off leaves no mixed report that looks whole.
        Old results are deleted, and so are the libraries that pages of former versions loaded.
        Raises: Unavailable.
        """
        first = f"{SITE}/{INDEX}"
        site = self._listed(SITE)
        changed = _changed(folders.results, RESULTS, self._listed(RESULTS))
        changed |= _changed(folders.site, SITE, site)
        if changed.keys() - {first} and (folders.site / INDEX).exists():
            before = (INDEX in site and self._get(first)) or b""
            self._put(first, under_way(before.decode("utf-8", "replace")).encode())
            changed[first] = folders.site / INDEX
        for name in sorted(changed, key=lambda name: (name == first, name)):
            self._put(name, changed[name].read_bytes())
        for name in self._listed(f"{SITE}/{LIBRARIES}"):
            self._ask("delete_object", f"{SITE}/{LIBRARIES}/{name}")
        listed = set(self._listed(RESULTS))
        for name in sorted(listed - set(newest(listed, limit))):
            self._ask("delete_object", f"{RESULTS}/{name}")
        return len(changed)

    def _put(self, name: str, data: bytes) -> None:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._ask("put_object", name, Body=data, ContentType=kind, CacheControl="no-cache")

    def _listed(self, folder: str) -> dict[str, str]:
        """Return the files in a folder: S3's digest of each, by name."""
        prefix = f"{self._address.prefix}{folder}/"
        with outside(self._address, f"{folder}/"):
            return {
                one["Key"].removeprefix(prefix): one["ETag"].strip('"')
                for one in self._client.listed(prefix)
            }

    def _get(self, name: str) -> bytes | None:
        """Return a whole file; None where another machine has just deleted it."""
        key = f"{self._address.prefix}{name}"
        with outside(self._address, name):
            try:
                return body_of(self._client.ask("get_object", Key=key))
            except client_error() as error:
                if refusal_code(error) in MISSING:
                    return None
                raise

    def _ask(self, operation: str, name: str, **more: Any) -> Any:
        with outside(self._address, name, certain=False):
            return self._client.ask(operation, Key=f"{self._address.prefix}{name}", **more)


def _changed(folder: Path, name: str, there: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of a folder that differ from what is there, by their names on S3."""
    found = {}
    for file in filter(Path.is_file, folder.rglob("*")):
        relative = file.relative_to(folder).as_posix()
        if there.get(relative) != md5(file.read_bytes(), usedforsecurity=False).hexdigest():
            found[f"{name}/{relative}"] = file
    return found


def newest(results: Iterable[str], limit: int) -> list[str]:
    """Return at most `limit` of the newest results; the name of a result's folder is its time.

    >>> newest(["a/run 2/20261102T1/x.json", "a/run 1/20261101T1/x.json"], 1)
    ['a/run 2/20261102T1/x.json']
    """
    found = [name for name in results if name.endswith(".json")]
    return sorted(found, key=lambda name: name.split("/")[-2:])[-limit:] if limit else []


def _is_result(name: str) -> bool:
    """Return whether a name stays below the folder of results, and holds no markup.

    >>> _is_result("a/run 2/20261102T1/x.json"), _is_result("../site/index.json")
    (True, False)
    """
    pieces = name.split("/")
    marked = any(c in "\\<>\"'&" or not c.isprintable() for c in name)
    return not marked and all(piece.strip(".") for piece in pieces)


def prune(folders: Folders, limit: int) -> int:
    """Delete all but the newest results on this machine; return their number. Pages stay."""
    here = {f.relative_to(folders.results).as_posix() for f in folders.results.rglob("*.json")}
    old = here - set(newest(here, limit))
    for name in old:
        (folders.results / name).unlink()
    return len(old)
