"""What every Blob store must do: subclass `BlobSuite` and give it the two fixtures.

`raw` reaches the bytes around the store under test, which must not vouch for itself.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from strata.errors import Corrupt, InvalidRequest
from strata.store.draft import draft_of
from strata.store.interface import Blob, Expunging, Overwriting, Referring
from strata.store.keys import content_hash
from strata.store.reference import look_outside, outside_address, refer_to

REFERENCE = "shards/s/parts/r3/ab.parquet"
KEYS = ["a", "a-b/c", "a/b", "a/b-c", "a/b.d", "a/b0", "a0", "b/c/d", "b/c0"]


class RawBlob(Protocol):
    def read(self, key: str) -> bytes | None: ...
    def write(self, key: str, data: bytes) -> None: ...
    def keys(self) -> list[str]: ...


class BlobSuite:
    @pytest.fixture
    def blob(self) -> Blob:
        raise NotImplementedError

    @pytest.fixture
    def raw(self, blob: Blob) -> RawBlob:
        raise NotImplementedError

    def test_is_a_blob(self, blob: Blob) -> None:
        assert isinstance(blob, Blob)

    def test_get_returns_what_was_stored_around_it(self, blob: Blob, raw: RawBlob) -> None:
        raw.write("a/b", b"hello")
        assert blob.get("a/b") == b"hello"

    def test_set_stores_exactly_the_bytes(self, blob: Blob, raw: RawBlob) -> None:
        data = bytes(range(256)) * 3
        blob.set("a/b/c", data)
        assert raw.read("a/b/c") == data
        assert raw.keys() == ["a/b/c"]

    @pytest.mark.parametrize(
        ("start", "length"),
        [(0, None), (0, 10), (990, 20), (999, 1), (1000, 4), (1003, None), (7, 0), (2000, 5)],
    )
    def test_a_reference_reads_as_the_file_and_its_tail(
        self, blob: Blob, raw: RawBlob, tmp_path: Path, start: int, length: int | None
    ) -> None:
        file, data = tmp_path / "of others.parquet", bytes(range(250)) * 4
        file.write_bytes(data)
        made, _ = refer_to(look_outside(outside_address(str(file))), b"tail")
        raw.write(REFERENCE, made.encoded())
        end = None if length is None else start + length
        assert blob.get(REFERENCE, start, length) == (data + b"tail")[start:end]

    def test_a_reference_whose_bytes_were_taken_in_needs_no_file(
        self, blob: Blob, raw: RawBlob, tmp_path: Path
    ) -> None:
        assert isinstance(blob, Overwriting)
        assert isinstance(blob, Referring)
        file = tmp_path / "a.parquet"
        file.write_bytes(b"PAR1 others")
        made, _ = refer_to(look_outside(outside_address(str(file))), b" tail")
        raw.write(REFERENCE, made.encoded())
        assert blob.referred(REFERENCE) == made
        whole = blob.get(REFERENCE)
        assert whole == b"PAR1 others tail"

        blob.overwrite(REFERENCE, whole)
        file.unlink()

        assert blob.get(REFERENCE) == whole
        assert blob.referred(REFERENCE) is None
        assert blob.referred(REFERENCE.replace("ab", "cd")) is None

    def test_a_reference_to_a_lost_file_says_which(
        self, blob: Blob, raw: RawBlob, tmp_path: Path
    ) -> None:
        file = tmp_path / "a.parquet"
        file.write_bytes(b"PAR1 others")
        made, _ = refer_to(look_outside(outside_address(str(file))), b" tail")
        raw.write(REFERENCE, made.encoded())
        file.write_bytes(b"PAR1 0thers")
        with pytest.raises(Corrupt, match="changed or removed by its owner"):
            blob.get(REFERENCE)
        file.unlink()
        with pytest.raises(Corrupt, match=r"a\.parquet"):
            blob.get(REFERENCE, 3, 2)

    def test_an_empty_blob_is_not_a_missing_one(self, blob: Blob) -> None:
        blob.set("a", b"")
        assert blob.get("a") == b""
        assert blob.get("b") is None

    @pytest.mark.parametrize("key", ["a", "a/b", "a/b/c"])
    def test_a_missing_blob_is_none(self, blob: Blob, key: str) -> None:
        blob.set("a/b-c", b"x")
        assert blob.get(key) is None
        assert blob.get(key, 3, 5) is None

    @pytest.mark.parametrize(
        ("start", "length", "wanted"),
        [
            (0, None, b"01234"),
            (0, 2, b"01"),
            (2, 2, b"23"),
            (3, 9, b"34"),
            (2, None, b"234"),
            (5, 1, b""),
            (9, None, b""),
            (9, 4, b""),
            (1, 0, b""),
        ],
    )
    def test_a_range_is_cut_at_the_end(
        self, blob: Blob, start: int, length: int | None, wanted: bytes
    ) -> None:
        blob.set("a/b", b"01234")
        assert blob.get("a/b", start, length) == wanted

    @pytest.mark.parametrize(("start", "length"), [(-1, None), (0, -1)])
    def test_a_negative_range_is_refused(self, blob: Blob, start: int, length: int | None) -> None:
        blob.set("a/b", b"01234")
        with pytest.raises(InvalidRequest):
            blob.get("a/b", start, length)

    def test_the_same_bytes_again_succeed(self, blob: Blob, raw: RawBlob) -> None:
        blob.set("a/b", b"one")
        blob.set("a/b", b"one")
        assert raw.read("a/b") == b"one"

    @pytest.mark.parametrize("other", [b"two", b"", b"one and more", b"on"])
    def test_other_bytes_are_refused_and_the_first_stay(
        self, blob: Blob, raw: RawBlob, other: bytes
    ) -> None:
        blob.set("a/b", b"one")
        with pytest.raises(InvalidRequest):
            blob.set("a/b", other)
        assert raw.read("a/b") == b"one"

    def test_of_many_writers_one_wins_and_the_others_are_told(
        self, blob: Blob, raw: RawBlob
    ) -> None:
        told: list[str] = []

        def write(data: bytes) -> None:
            try:
                blob.set("a/b", data)
                told.append("won")
            except InvalidRequest:
                told.append("refused")

        _at_once([lambda i=i: write(b"%d" % i) for i in range(8)])
        assert sorted(told) == ["refused"] * 7 + ["won"]
        assert raw.read("a/b") in {b"%d" % i for i in range(8)}

    def test_many_writers_of_the_same_bytes_all_win(self, blob: Blob, raw: RawBlob) -> None:
        _at_once([lambda: blob.set("a/b", b"same")] * 8)
        assert raw.read("a/b") == b"same"
        assert raw.keys() == ["a/b"]

    @pytest.mark.parametrize("huge", [False, True])
    def test_a_draft_becomes_the_blob_that_its_bytes_name(
        self, blob: Blob, raw: RawBlob, huge: bool
    ) -> None:
        data = bytes(range(256)) * 10_000  # more than one step of a file
        draft = draft_of(blob, huge=huge)
        with draft.guarded():
            draft.file.write(data[:1000])
            draft.file.write(data[1000:])
        assert draft.finish() == (content_hash(data), len(data))
        assert list(blob.list("")) == []
        draft.keep("a/b")
        assert raw.read("a/b") == data
        assert raw.keys() == ["a/b"]
        draft.drop()
        assert raw.read("a/b") == data

    @pytest.mark.parametrize("huge", [False, True])
    def test_a_draft_that_is_dropped_leaves_nothing(
        self, blob: Blob, raw: RawBlob, huge: bool
    ) -> None:
        for steps in range(3):
            draft = draft_of(blob, huge=huge)
            if steps:
                draft.file.write(b"some")
            if steps > 1:
                draft.finish()
            draft.drop()
            draft.drop()
        assert raw.keys() == []

    def test_a_draft_keeps_the_rule_of_write_once(self, blob: Blob, raw: RawBlob) -> None:
        blob.set("a/b", b"one")
        for data in (b"one", b"two", b"", b"one and more"):
            draft = draft_of(blob)
            draft.file.write(data)
            draft.finish()
            if data == b"one":
                draft.keep("a/b")
            else:
                with pytest.raises(InvalidRequest):
                    draft.keep("a/b")
            draft.drop()
        assert raw.read("a/b") == b"one"
        assert raw.keys() == ["a/b"]

    @pytest.mark.parametrize("other", [b"two", b"", b"one and more", b"on"])
    def test_other_bytes_under_a_name_that_was_made_from_ours_are_damage(
        self, blob: Blob, raw: RawBlob, other: bytes
    ) -> None:
        key = f"a/g1/{content_hash(b'one')}.parquet"
        raw.write(key, other)
        draft = draft_of(blob)
        draft.file.write(b"one")
        draft.finish()
        for write in (lambda: blob.set(key, b"one"), lambda: draft.keep(key)):
            with pytest.raises(Corrupt, match="its bytes are not those") as caught:
                write()
            assert content_hash(b"one") in str(caught.value)
            assert caught.value.cure
        draft.drop()
        assert raw.read(key) == other
        with pytest.raises(InvalidRequest):
            blob.set(key, b"another")

    def test_many_drafts_of_the_same_bytes_all_win(self, blob: Blob, raw: RawBlob) -> None:
        def write() -> None:
            draft = draft_of(blob)
            draft.file.write(b"same")
            draft.finish()
            draft.keep("a/b")

        _at_once([write] * 8)
        assert raw.read("a/b") == b"same"
        assert raw.keys() == ["a/b"]

    def test_list_is_in_key_order_with_sizes(self, blob: Blob) -> None:
        keys = [k for k in KEYS if k not in ("a",)]  # a folder cannot hold "a" and "a/b"
        for size, key in enumerate(reversed(keys)):
            blob.set(key, b"x" * size)
        found = list(blob.list(""))
        assert [info.key for info in found] == sorted(keys)
        sizes = {key: size for size, key in enumerate(reversed(keys))}
        assert {info.key: info.size_bytes for info in found} == sizes
        assert all(info.modified_ms > 1_600_000_000_000 for info in found)

    @pytest.mark.parametrize(
        "prefix", ["a", "a/", "a/b", "a/b-", "b/c", "b/c/", "b/c/d", "c", "a-"]
    )
    def test_list_gives_every_key_with_the_prefix(self, blob: Blob, prefix: str) -> None:
        keys = [k for k in KEYS if k != "a"]
        for key in keys:
            blob.set(key, b"x")
        assert [i.key for i in blob.list(prefix)] == [
            k for k in sorted(keys) if k.startswith(prefix)
        ]

    def test_list_of_an_empty_store_is_empty(self, blob: Blob) -> None:
        assert list(blob.list("")) == []
        assert list(blob.list("a/b")) == []

    def test_delete_tells_the_size_once(self, blob: Blob, raw: RawBlob) -> None:
        blob.set("a/b", b"12345")
        assert blob.delete("a/b") == 5
        assert blob.delete("a/b") is None
        assert blob.delete("a/never") is None
        assert blob.get("a/b") is None
        assert list(blob.list("")) == []
        assert raw.read("a/b") is None

    def test_restore_brings_the_bytes_back(self, blob: Blob, raw: RawBlob) -> None:
        blob.set("a/b", b"12345")
        blob.delete("a/b")
        blob.restore("a/b")
        blob.restore("a/b")
        assert raw.read("a/b") == b"12345"
        assert blob.delete("a/b") == 5

    def test_restore_of_a_live_blob_changes_nothing(self, blob: Blob) -> None:
        blob.set("a/b", b"1")
        blob.restore("a/b")
        assert blob.get("a/b") == b"1"

    def test_restore_of_what_never_was_is_refused(self, blob: Blob) -> None:
        with pytest.raises(InvalidRequest):
            blob.restore("a/b")

    def test_a_deleted_key_can_be_written_anew_and_is_not_overwritten_by_restore(
        self, blob: Blob
    ) -> None:
        blob.set("a/b", b"old")
        blob.delete("a/b")
        blob.set("a/b", b"new")
        blob.restore("a/b")
        assert blob.get("a/b") == b"new"

    @pytest.mark.parametrize(
        "key",
        ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/../b", ".deleted/a", ".tmp",
         "a/.b", "a\\b", "a\0b", "a b", "a\n", "~", "c:/a", "ä", "x" * 201,
         "/".join(["x" * 9] * 103)],
    )  # fmt: skip
    def test_a_key_that_could_lead_astray_is_refused(self, blob: Blob, key: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: blob.get(key),
            lambda: blob.set(key, b"x"),
            lambda: blob.delete(key),
            lambda: blob.restore(key),
            lambda: _drafted(blob, key),
        ]
        for call in calls:
            with pytest.raises(InvalidRequest):
                call()

    def test_what_is_set_aside_is_listed_and_can_be_removed_for_good(self, blob: Blob) -> None:
        assert isinstance(blob, Expunging)
        for key in ("a/b", "a/c", "b"):
            blob.set(key, key.encode())
            blob.delete(key)
        blob.set("a/b", b"again")
        assert [info.key for info in blob.set_aside("a/")] == ["a/b", "a/c"]

        assert blob.expunge("a/b") == 3
        assert blob.expunge("a/b") == blob.expunge("a/never") == 0

        assert blob.get("a/b") == b"again", "a blob that exists stays"
        assert [info.key for info in blob.set_aside("a/")] == ["a/c"]
        assert blob.expunge("a/c") == 3
        assert list(blob.set_aside("a/")) == [], "an empty folder is no blob"
        with pytest.raises(InvalidRequest):
            blob.restore("a/c")
        blob.restore("b")

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", ".", "a//"])
    def test_a_prefix_that_could_lead_astray_is_refused(self, blob: Blob, prefix: str) -> None:
        with pytest.raises(InvalidRequest):
            list(blob.list(prefix))


def _drafted(blob: Blob, key: str) -> None:
    draft = draft_of(blob)
    draft.finish()
    draft.keep(key)


def _at_once(calls: list[Callable[[], object]]) -> None:
    """Run the calls in threads that start together; fail with the first that fails."""
    gate, failed = threading.Barrier(len(calls)), []

    def run(call: Callable[[], object]) -> None:
        gate.wait()
        try:
            call()
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=run, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
