"""Keys say what they name and lead nowhere else."""

from hashlib import blake2b

import pytest

from strata.errors import InvalidRequest
from strata.store import keys
from strata.store.keys import BlobKey, BlobKind

DIGEST = keys.content_hash(b"some bytes")
MADE = [
    (keys.part_key(keys.part_prefix("flights"), DIGEST), BlobKind.PART),
    (keys.manifest_key("flights", DIGEST), BlobKind.MANIFEST),
    (keys.quarantine_key("flights", "run-1"), BlobKind.QUARANTINE),
    (keys.verdict_key("flights", "run-1"), BlobKind.VERDICT),
    (keys.ledger_key("flights", -5, 10, DIGEST), BlobKind.LEDGER),
    (keys.usage_key("flights", "2013-01-31", "summary"), BlobKind.USAGE),
    (keys.backfill_key("flights", 1_356_998_400_000, DIGEST), BlobKind.BACKFILL),
]


@pytest.mark.parametrize(("key", "kind"), MADE)
def test_every_key_is_parsed_back(key: str, kind: BlobKind) -> None:
    parsed = keys.parse_key(key)
    assert (parsed.shard, parsed.kind, str(parsed)) == ("flights", kind, key)
    assert key.startswith(keys.shard_prefix("flights"))


def test_no_shard_lies_below_another() -> None:
    """The prefix ends with a slash, so that listing `a` does not list `ab`."""
    assert not keys.part_prefix("ab").startswith(keys.shard_prefix("a"))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "shards",
        "shards/a",
        "shards/a/parts",
        "shards/a/parts/",
        "other/a/parts/x",
        "shards/a/unknown/x",
        "shards/../parts/x",
    ],
)
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(InvalidRequest):
        keys.parse_key(key)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".a", "a b", "a" * 129])
def test_a_shard_cannot_be_named_into_another_place(name: str) -> None:
    for make in (keys.part_prefix, keys.state_key, lambda n: keys.manifest_key(n, DIGEST)):
        with pytest.raises(InvalidRequest):
            make(name)


def test_a_ledger_key_promises_its_range() -> None:
    assert keys.ledger_range(keys.ledger_key("moments", -62_135_596_800_000, -7, DIGEST)) == (
        -62_135_596_800_000,
        -7,
    )
    with pytest.raises(InvalidRequest):
        keys.ledger_range(str(BlobKey("a", BlobKind.LEDGER, "nonsense.json")))


def test_state_keys_are_parsed_back_and_others_are_not_shards() -> None:
    assert keys.parse_state_key(keys.state_key("flights")) == "flights"
    assert keys.parse_state_key("shards/a/b") is None
    assert keys.parse_state_key("something") is None


def test_content_names_depend_on_every_byte() -> None:
    assert keys.content_hash(b"a") != keys.content_hash(b"b")
    assert keys.content_hash(b"a") == keys.content_hash(bytes(bytearray(b"a")))
    assert len(DIGEST) == 40


def test_a_name_is_known_for_what_it_names_be_it_of_today_or_old() -> None:
    data = b"some bytes"
    names = (keys.content_hash(data), blake2b(data, digest_size=20).hexdigest())
    for key in (keys.manifest_key("flights", name, 3) for name in names):
        assert keys.names_content(key, data)
        assert not keys.names_content(key, data + b".")
    assert len(set(names)) == 2
