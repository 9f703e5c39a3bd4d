"""The console under Airflow's own address, for people who are logged in.

`/strata/` serves the pages of `strata.ui` about the shards of this worker's settings file. A task
that works on shards has a link to them. Filters that validations and readers have used can be
asked; any other would start a Java machine inside Airflow's server: `strata ui` is the place for
it.
A person who may answer required actions of the DAG `rollout_gate` may answer a shard's request on
its rollout page as well; the store's policy decides, as it does there.
The application is built on the first request: every process of Airflow loads the plugin, but only
one serves.
"""

import hmac
import logging
import os
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

from strata_airflow import people
from strata_airflow.places import PROJECT, config_file

PREFIX: Final = "/strata"
_LOG = logging.getLogger(__name__)
GATE: Final = "rollout_gate"  # the DAG whose questions are the same requests


class ShardLink(BaseOperatorLink):
    """A button on a task that opens the page of its shard, or of all shards."""

    name = "Shard"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the only shard that the task names, else of all."""
        named = f"{operator.shards} {operator.arguments.get('--shard') or ''}".split()
        return address(named[0] if len(set(named)) == 1 and "{" not in named[0] else "")


def address(shard: str = "") -> str:
    """Return the address of a shard's page; of all shards without a name."""
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    return f"{base}{PREFIX}/shards/{quote(shard, safe='')}" if shard else f"{base}{PREFIX}/"


class Console:
    """The console as an ASGI application for the web server."""

    def __init__(self) -> None:
        """Prepare; nothing is imported yet."""
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if self._app is None:
            self._app = _application()
        await self._app(scope, receive, send)


def placed(store: Any) -> Any:
    """Return the settings of stores with whole addresses: relative ones begin where jobs start."""
    blob, consensus = store.blob, store.consensus
    for scheme in ("file://", "sqlite:///"):
        blob, consensus = (
            f"{scheme}{PROJECT / one.removeprefix(scheme)}" if one.startswith(scheme) else one
            for one in (blob, consensus)
        )
    return replace(store, blob=blob, consensus=consensus)


def answerer(user: Any) -> str | None:
    """Return the name of a user who may answer requests as required actions, else None.

    Where everybody is an administrator nobody is known, so nobody may.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import (
        DagAccessEntity,
        DagDetails,
    )
    from airflow.models.dag import DagModel
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import AirflowFailException

    if conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False):
        return None
    team = DagModel.get_team_name(GATE)
    if not get_auth_manager().is_authorized_dag(
        method="PUT",
        access_entity=DagAccessEntity.HITL_DETAIL,
        user=user,
        details=DagDetails(id=GATE, team_name=team),
    ):
        return None
    number = str(user.get_id() or "")
    try:
        known = people.known()
    except AirflowFailException as malformed:
        _LOG.warning("nobody may answer on the console: %s", malformed)
        return None
    if known and number not in known.values():
        return None  # no question would be assigned to them
    return people.named({"id": number, "name": user.get_name()}) or None


def _secret() -> bytes:
    """Return what signs forms: every process of this Airflow derives the same."""
    from airflow.sdk.configuration import conf

    key = str(conf.get("api", "secret_key"))
    return hmac.new(key.encode(), b"strata: answers on the console", sha256).digest()


def _application() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    from airflow.sdk.configuration import conf
    from fastapi import Depends

    from strata.config.settings import load_settings
    from strata.history.operation_log import OperationLog
    from strata.store.open import open_stores
    from strata.ui.answers import Desk
    from strata.ui.pages import ConsolePages
    from strata.ui.web import console
    from strata.ui.what_if import Analyst

    log = OperationLog()  # what one request has read of the journal, the next need not

    def pages() -> ConsolePages:
        settings = load_settings(config_file(), os.environ)
        stores = open_stores(placed(settings.store))
        return ConsolePages(stores, settings, Analyst(stores, settings), log)

    def person(user: Any = Depends(get_user)) -> str | None:  # noqa: B008 - as FastAPI wants it
        return answerer(user)

    served = urlsplit(str(conf.get("api", "base_url", fallback=""))).netloc
    desk = Desk(person, _secret(), (served,) if served else ())
    return console(pages, [Depends(requires_access_view(AccessView.PLUGINS))], desk)
