"""The cure for a shard that does not exist."""

from collections.abc import Iterable

from strata.model.journals import is_journal
from strata.model.near import one_of


def nearest_shards(name: str, known: Iterable[str]) -> str:
    """Return a cure that names shards; journals only for a name that begins as theirs do.

    >>> nearest_shards("fligths", ["flights", "strata_operations"])
    "did you mean 'flights'? one of: flights"
    >>> nearest_shards("flights", ["strata_operations"])
    'there is no shard here yet: strata create flights --infer PATH, or another --config'
    """
    names = [one for one in known if is_journal(name) or not is_journal(one)]
    if not names:
        return f"there is no shard here yet: strata create {name} --infer PATH, or another --config"
    return one_of(name, names)
