"""The kill switch reaches everybody who opens the stores, and no address shows its password."""

import pytest

from strata.model.settings import RolloutSettings, Settings, StoreSettings, without_password


@pytest.mark.parametrize("kill", [True, False])
def test_the_kill_switch_is_handed_to_the_stores(kill: bool) -> None:
    for before in (True, False):
        store = StoreSettings(blob="memory://a", kill=before)

        made = Settings(store=store, rollout=RolloutSettings(kill=kill))

        assert made.store == StoreSettings(blob="memory://a", kill=kill)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:secret@host/db", "postgresql://u:***@host/db"),
        ("postgresql://u:se@cret@host/db", "postgresql://u:***@host/db"),
        ("s3://bucket/p?secret_key=secret&n=1", "s3://bucket/p?secret_key=***&n=1"),
        ("host=db password=secret", "host=db password=***"),
        ("file:///data/blob", "file:///data/blob"),
    ],
)
def test_no_password_is_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown
    assert f"blob={shown!r}" in repr(StoreSettings(blob=address))
