"""What `strata inspect` and `strata shards` say of a state."""

from strata.state.described import describe, summarise
from tests.support.garbage import World


def test_parts_bytes_and_updates_of_all_batches_are_added_up() -> None:
    world = World()
    for ids in ((1, 2), (3,), (4, 5, 6)):
        world.append(*ids)
    stored = {
        key: len(data) for key, (data, _) in world.blob.live.items() if key in world.state_parts()
    }

    document, line = describe(world.state), summarise(world.state)

    assert document["formats"] == {"both": 3}
    for found in (document, line):
        assert (found["parts"], found["updates"]) == (3, 6)
        assert found["bytes"] == sum(stored.values())
    assert sum(batch["bytes"] for batch in document["batches"]) == document["bytes"]
