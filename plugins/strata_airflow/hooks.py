"""A connection of type `strata`: where one pair of stores lies, and which Spark works on it.

Its extra has either `settings`, the settings file as jobs see it, or addresses: `blob`,
`consensus`, `landing`, `shards_dir`, `filters_dir`. Login and password are those of the consensus
database. An Airflow has as many stores as connections.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from strata_airflow.commands import run_strata

DEFAULT: Final = "strata_default"
SPARK: Final = "strata_spark"  # the connection of jobs, if the store names no other
ADDRESSES: Final = {  # what an address in the extra sets
    "blob": "STRATA__STORE__BLOB",
    "consensus": "STRATA__STORE__CONSENSUS",
    "landing": "STRATA__STORE__LANDING",
    "shards_dir": "STRATA__SHARDS_DIR",
    "filters_dir": "STRATA__FILTERS_DIR",
}
KEYS: Final = frozenset({"settings", "spark_conn_id", *ADDRESSES})


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How a job reaches the stores of a connection."""

    settings: str = ""  # the settings file; empty: the environment has the addresses
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # holds a password
    spark: str = SPARK

    @property
    def whole_environment(self) -> dict[str, str]:
        """Return the environment of a process that works on these stores."""
        return {**os.environ, **self.environment}


def access_of(connection: Any) -> StoreAccess:
    """Return how to reach the stores that a connection names.

    Raises: AirflowFailException naming the field of the connection, and what fits.
    """
    extra = {key: str(value) for key, value in dict(connection.extra_dejson).items() if value}
    name = f"connection {connection.conn_id!r}"
    if unknown := sorted(extra.keys() - KEYS):
        known = ", ".join(sorted(KEYS))
        shown = unknown[0].partition("=")[0]  # what follows may be a secret
        raise AirflowFailException(f"{name}: extra has {shown!r} (cure: one of {known})")
    spark, settings = extra.pop("spark_conn_id", SPARK), extra.pop("settings", "")
    if settings and extra:
        raise AirflowFailException(
            f"{name}: extra has both 'settings' and {min(extra)!r} (cure: the file says it all)"
        )
    if settings:
        return StoreAccess(settings, {}, spark)
    if lacking := {"blob", "consensus"} - extra.keys():
        raise AirflowFailException(
            f"{name}: extra lacks {min(lacking)!r} (cure: 'settings', or 'blob' and 'consensus')"
        )
    extra["consensus"] = _with_password(extra["consensus"], connection.login, connection.password)
    addresses = {ADDRESSES[key]: value for key, value in extra.items()}
    # Else a file that the worker names would be under these.
    return StoreAccess("", {"STRATA_CONFIG": "", **addresses}, spark)


class StrataHook(BaseHook):
    """The stores of a connection, through the command line of the engine."""

    conn_name_attr = "strata_conn_id"
    default_conn_name = DEFAULT
    conn_type = "strata"
    hook_name = "Strata"

    def __init__(self, strata_conn_id: str = DEFAULT, **kwargs: Any) -> None:
        """Take the id of the connection; nothing is opened yet."""
        super().__init__(**kwargs)
        self.strata_conn_id = strata_conn_id

    def get_conn(self) -> StoreAccess:
        """Return how to reach the stores. Raises: AirflowFailException without the connection."""
        try:
            return access_of(self.get_connection(self.strata_conn_id))
        except AirflowNotFoundException as error:
            raise AirflowFailException(
                f"no connection {self.strata_conn_id!r} in Airflow (cure: add one of type 'strata')"
            ) from error

    def run(self, *words: str) -> dict[str, Any]:
        """Return what `strata WORDS --json` prints. Raises: as `run_strata`."""
        access = self.get_conn()
        return run_strata(*words, config=access.settings, environment=access.environment)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether both stores answer, and how many shards they have."""
        try:
            shards = self.run("shards")["shards"]
        except Exception as error:  # Airflow shows the text
            return False, str(error)
        return True, f"{len(shards)} shards"


def _with_password(address: str, login: str | None, password: str | None) -> str:
    scheme, _, rest = address.partition("://")
    if not login:
        return address
    who = quote(login, safe="") + (f":{quote(password, safe='')}" if password else "")
    return f"{scheme}://{who}@{rest.rpartition('@')[2]}"
