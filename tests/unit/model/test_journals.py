"""The names of shards that Strata alone writes."""

import pytest

from strata.errors import InvalidRequest
from strata.model.journals import JOURNALS, check_not_journal, is_journal


@pytest.mark.parametrize("name", ["flights", "strata", "my.strata_operations", ""])
def test_other_names_are_free(name: str) -> None:
    assert not is_journal(name)
    check_not_journal(name)


@pytest.mark.parametrize("name", ["strata_operations", "strata_", "strata_x.rejected"])
def test_nobody_else_writes_a_journal(name: str) -> None:
    assert is_journal(name)
    with pytest.raises(InvalidRequest, match="Strata alone writes") as caught:
        check_not_journal(name)

    assert caught.value.details["shard"] == name
    assert JOURNALS in (caught.value.cure or "")
