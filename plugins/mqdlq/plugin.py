"""The plugin of Airflow: the operator's page, and listeners for the pools and notes of DAG runs.

The entry point `airflow.plugins` of the installed package names it. Where the package is only in
Airflow's folder of plugins, `mqdlq_plugin.py` beside it does. Every process of Airflow loads the
plugin; only the process that answers a request for the page imports the page.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from mqdlq.airflow import listeners as run_listeners
from mqdlq.reading.page_paths import MOUNT, Paths

AGENTS: Final = f"{MOUNT}/mcp"
"""Where agents find their tools, if the api-server has them switched on."""

Message = MutableMapping[str, Any]


async def page(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer a request for the page or of an agent; who asks is checked there.

    Both are imported with their first request.

    `request.state.airflow` of a page is the app of Airflow that has the page, whose REST API starts
    runs.
    """
    scope.setdefault("state", {})["airflow"] = scope.get("app")
    if scope.get("path", "").endswith(AGENTS):
        from mqdlq.web.agents import application as agents  # noqa: PLC0415 (the same)

        await agents()(scope, receive, send)
        return
    from mqdlq.web.app import application  # noqa: PLC0415 (only the api-server imports it)

    await application()(scope, receive, send)


AIRFLOW_ROOT: Final = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
"""The path at which a reverse proxy shows Airflow, "" for the root of its host."""


class MqdlqPlugin(AirflowPlugin):
    """Add the page to Airflow's UI, and have pools and notes of DAG runs created."""

    name = "mqdlq"
    listeners = [run_listeners]  # noqa: RUF012 (as Airflow declares it)
    fastapi_apps = [{"app": page, "url_prefix": MOUNT, "name": "mqdlq"}]  # noqa: RUF012 (the same)
    external_views = [  # noqa: RUF012 (the same)
        {
            "name": "Dead letters",
            "href": Paths(AIRFLOW_ROOT).inbox(),
            "destination": "nav",
            "category": "browse",
            "url_route": "mqdlq",
        }
    ]


def has_entry_point() -> bool:
    """Return whether Airflow finds this plugin by its entry point.

    Airflow warns of a second plugin with the same name in each process, and lists it as an error.
    """
    return bool(entry_points(group="airflow.plugins", name=MqdlqPlugin.name))
