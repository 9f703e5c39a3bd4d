"""The console under Airflow's own address, for people who are logged in.

`/strata/` serves the pages of `strata.ui` about the shards of this worker's settings file. A task
that works on shards has a link to them. Filters that validations and readers have used can be
asked; any other would start a Java machine inside Airflow's server: `strata ui` is the place for
it.
The application is built on the first request: every process of Airflow loads the plugin, but only
one serves.
"""

import os
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from strata_airflow.places import PROJECT, config_file

PREFIX: Final = "/strata"


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


def _application() -> Any:
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import requires_access_view
    from fastapi import Depends

    from strata.config.settings import load_settings
    from strata.store.open import open_stores
    from strata.ui.pages import Pages
    from strata.ui.web import console
    from strata.ui.what_if import Analyst

    def pages() -> Pages:
        settings = load_settings(config_file(), os.environ)
        stores = open_stores(placed(settings.store))
        return Pages(stores, settings, Analyst(stores, settings))

    return console(pages, [Depends(requires_access_view(AccessView.PLUGINS))])
