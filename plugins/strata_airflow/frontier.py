"""How far a shard is complete, as its state says: for the sensor and its trigger.

The engine is imported when somebody asks, never while a DAG file is parsed.
"""

import logging
from typing import Final

from airflow.sdk.exceptions import AirflowFailException

from strata_airflow.console import placed
from strata_airflow.hooks import StoreAccess

_LOG: Final = logging.getLogger(__name__)


def is_reached(access: StoreAccess, shard: str, time: str) -> bool:
    """Return whether everything before `time` (ISO 8601) is in the shard; False while unknown.

    Cost: a read of the shard's state. Raises: AirflowFailException for a shard that does not exist
    and for anything else that waiting does not cure.
    """
    from strata.config.settings import load_settings
    from strata.errors import StrataError, Unavailable
    from strata.machine.machine import Machine
    from strata.model.time import parse_time
    from strata.store.open import open_stores

    try:
        wanted = parse_time(time)
        settings = load_settings(access.settings or None, access.whole_environment)
        return Machine(open_stores(placed(settings.store))).load(shard).upper >= wanted
    except Unavailable as error:  # the next look may find it
        _LOG.warning("%s: %s", shard, error)
        return False
    except StrataError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
