"""The report on a real S3 server: every run of every machine in one index, which stays bounded."""

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from strata.errors import InvalidRequest, Unavailable
from strata.jobs.validate.mark import BANNER, under_way
from strata.jobs.validate.publish import INDEX, Folders, ReportOnS3, newest, prune
from tests.support import seaweed


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    try:
        found = seaweed.fresh_prefix()
    except seaweed.MissingError as missing:
        pytest.skip(str(missing))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seaweed.IDENTITY.items():
            patch.setenv(name, value)
        yield found


def machine(root: Path, runs: range) -> Folders:
    """Return the folders of a machine that made these runs."""
    folders = Folders(root / "site", root / "results")
    for number in runs:
        result = folders.results / f"format/run {number:02}/2026110{number}T000000Z/all.json"
        result.parent.mkdir(parents=True)
        result.write_text(f'{{"run": {number}}}')
    (folders.site / "validations").mkdir(parents=True)
    for number in runs:
        (folders.site / f"validations/{number}.html").write_text(f"page {number}")
    (folders.site / INDEX).write_text(f"index of {list(runs)}")
    return folders


def stored(address: str) -> dict[str, bytes]:
    bucket = ReportOnS3(address)
    return {
        f"{folder}/{name}": bucket._get(f"{folder}/{name}")
        for folder in ("site", "results")
        for name in bucket._listed(folder)
    }


def test_two_machines_share_one_index_that_stays_bounded(address: str, tmp_path: Path) -> None:
    first, second = machine(tmp_path / "a", range(1, 4)), machine(tmp_path / "b", range(4, 6))
    bucket = ReportOnS3(address)
    bucket._ask("put_object", "site/static/vendor/old.js", Body=b"of a former version")
    assert bucket.fetch(first, 3) == 0
    assert bucket.publish(first, 3) == 3 + 3 + 1
    assert bucket.publish(first, 3) == 0  # nothing changed, nothing goes

    assert bucket.fetch(second, 3) == 3
    assert prune(second, 3) == 2
    (second.site / INDEX).write_text("index of [3, 4, 5]")
    assert bucket.publish(second, 3) == 2 + 2 + 1

    there = stored(address)
    assert there["site/index.html"] == b"index of [3, 4, 5]"
    assert [n.split("/")[2] for n in sorted(there) if "results" in n] == [
        "run 03",
        "run 04",
        "run 05",
    ]
    assert not [name for name in there if "static" in name]
    assert {f"site/validations/{n}.html" for n in range(1, 6)} <= there.keys()  # old links work
    assert bucket.index.endswith("/site/index.html")


def test_an_upload_that_breaks_off_leaves_no_index_that_looks_whole(
    address: str, tmp_path: Path
) -> None:
    """It left the index of before over some pages of this run."""
    place = address.replace("?", "/broken-off?", 1)
    first = machine(tmp_path / "a", range(1, 3))
    index = first.site / INDEX
    index.write_text("<main>index of [1, 2]")
    whole = ReportOnS3(place)
    whole.publish(first, 9, partial(under_way, "<main>"))
    page = first.site / "validations/1.html"
    for calls in count():
        page.write_text(f"page 1 anew {calls}")
        other = machine(tmp_path / f"b{calls}", range(3, 4))
        (other.site / INDEX).write_text(f"<main>index of all {calls}")
        page.rename(other.site / "validations/1.html")
        before = stored(place)

        dying = Dying(place, calls)
        try:
            dying.publish(other, 9, partial(under_way, "<main>"))
        except KeyboardInterrupt:
            now = stored(place)
            untouched = now == before
            assert untouched or BANNER in now["site/index.html"].decode()
        else:
            break
        page = other.site / "validations/1.html"
    assert calls > 3
    assert stored(place)["site/index.html"].decode() == f"<main>index of all {calls}"


class Dying(ReportOnS3):
    """A machine that is killed before a request that changes something."""

    def __init__(self, address: str, changes: int) -> None:
        super().__init__(address)
        self.changes = changes

    def _ask(self, operation: str, name: str, **more: Any) -> Any:
        if operation != "get_object":
            if not self.changes:
                raise KeyboardInterrupt
            self.changes -= 1
        return super()._ask(operation, name, **more)


class Replies:
    """A server that lists one result, and answers a request for it so."""

    def __init__(self, reply: dict[str, Any] | None) -> None:
        self.reply = reply

    def listed(self, prefix: str) -> list[dict[str, str]]:
        return [{"Key": f"{prefix}format/run 1/20261101T000000Z/all.json", "ETag": '"1"'}]

    def ask(self, operation: str, **_: Any) -> dict[str, Any]:
        assert operation == "get_object"
        if self.reply is None:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, operation)
        return self.reply


def asked(reply: dict[str, Any] | None) -> ReportOnS3:
    bucket = ReportOnS3("s3://bucket/prefix")
    bucket._client = Replies(reply)  # type: ignore[assignment]
    return bucket


def test_a_result_whose_reply_is_cut_off_is_not_kept(tmp_path: Path) -> None:
    """Half of one stays on the machine, where no later report could be built with it."""
    folders = machine(tmp_path, range(0))
    for reply in ({"Body": BytesIO()}, {"Body": BytesIO(b'{"run"'), "ContentLength": 10}):
        with pytest.raises(Unavailable, match="ended early"):
            asked(reply).fetch(folders, 3)
    assert not folders.results.exists()


def test_a_result_that_another_machine_has_just_deleted_is_passed_over(tmp_path: Path) -> None:
    folders = machine(tmp_path, range(0))
    assert asked(None).fetch(folders, 3) == 0
    assert not folders.results.exists()


def test_pages_can_be_opened_by_a_browser(address: str, tmp_path: Path) -> None:
    bucket = ReportOnS3(address.replace("?", "/opened?", 1))
    bucket.publish(machine(tmp_path, range(1, 2)), 3)
    key = f"{bucket._address.prefix}site/{INDEX}"
    endpoint = seaweed.server()
    head = seaweed.client(endpoint).head_object(Bucket=seaweed.BUCKET, Key=key)
    assert (head["ContentType"], head["CacheControl"]) == ("text/html", "no-cache")


def test_what_s3_refuses_is_said(address: str, tmp_path: Path) -> None:
    bucket = ReportOnS3(address.replace(f"/{seaweed.BUCKET}/", "/nobodys-bucket/"))
    with pytest.raises(Unavailable, match="S3 refused a request"):
        bucket.publish(machine(tmp_path, range(1, 2)), 3)
    with pytest.raises(InvalidRequest, match="not an address"):
        ReportOnS3("https://bucket/prefix")


def test_the_newest_results_are_those_of_the_newest_runs() -> None:
    names = ["b/run/3/x.json", "a/run/1/x.json", "a/run/2/x.json", "a/run/2/x.txt"]
    assert newest(names, 2) == ["a/run/2/x.json", "b/run/3/x.json"]
    assert newest(names, 0) == []
