"""What is kept of the keys of row groups tells each from its neighbours, however alike they are."""

from collections.abc import Sequence

import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts.part_facts import KEY_BYTES, Observed
from strata.updates.order import encode_keys
from tests.support.updates import beginnings, table

RELATION = Relation(0, (Column(1, "s", parse_type("string")),), (1,), ())


@pytest.mark.parametrize("alike", [0, 50, 54, 55, 56, 57, 62, 63, 64, 65, 100, 500])
def test_keys_that_begin_alike_differ_in_what_is_kept(alike: int) -> None:
    texts = ["x" * alike + end for end in ("a" * 80, "ab", "b", "b" * 90, "c")]
    groups = [table(RELATION, [(text, 0, 1)]) for text in texts]
    seen = Observed(RELATION, 1024, stats=False)
    for group in groups:
        seen.add(group, group.nbytes)
        seen.look()

    known = seen.finish()

    keys = [encode_keys(group, RELATION).to_pylist()[0] for group in groups]
    found = [split.key for split in known.splits]
    assert found == beginnings(keys)
    assert len(set(found)) == len(found)
    assert found == sorted(found)
    assert known.key_low == keys[0][:KEY_BYTES]
    assert_bounded(known.key_low, known.key_high, keys)


def assert_bounded(low: bytes, high: bytes | None, keys: Sequence[bytes]) -> None:
    assert all(low <= key for key in keys)
    assert high is not None
    assert all(key <= high or key.startswith(high) for key in keys)
