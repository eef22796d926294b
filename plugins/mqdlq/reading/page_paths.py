"""The paths of the operator's page, each declared once, for its routes and for links to it.

All state of a page is in its URL: filters are query parameters, and an empty one is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload
from urllib.parse import quote, urlencode

MOUNT: Final = "/mqdlq"
"""Where Airflow's server has the page, below its own root."""

DAG_PREFIX: Final = "mq_dlq_"
NOT_HANDLERS: Final = frozenset({"history", "restore", "broken_handlers"})
"""DAGs of the project that handle no queue, without the prefix."""

Filters = Mapping[str, object]
_PART: Final = re.compile(r"{(\w+)}")


def dag_of(handler: str) -> str:
    return DAG_PREFIX + handler


def handler_of(dag_id: str) -> str | None:
    name = dag_id.removeprefix(DAG_PREFIX)
    return None if name in {"", dag_id} or name in NOT_HANDLERS else name


class _Path:
    """A path with its parts in braces.

    Of the class `Paths` it is the template of a route; of an object, a function that returns a
    link. The function takes the parts in order, with a handler's name for `dag_id`, and then a
    page's query parameters, if any.
    """

    def __init__(self, template: str) -> None:
        self._template = template

    @overload
    def __get__(self, paths: None, of: type) -> str: ...
    @overload
    def __get__(self, paths: Paths, of: type) -> Callable[..., str]: ...
    def __get__(self, paths: Paths | None, of: type) -> str | Callable[..., str]:
        if paths is None:
            return self._template
        root = f"{paths.airflow}{MOUNT}"

        def link(*given: Any) -> str:
            parts = iter(given)
            path = _PART.sub(lambda part: _filled(part[1], next(parts)), self._template)
            filters: Filters = next(parts, {})
            chosen = {name: one for name, one in filters.items() if one is not None and one != ""}
            return f"{root}{path}" + (f"?{urlencode(chosen, doseq=True)}" if chosen else "")

        return link


def _filled(name: str, value: str) -> str:
    return quote(dag_of(value) if name == "dag_id" else value, safe="")


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of the page behind one address of Airflow.

    `airflow` has no slash at its end: "" or a path such as ``/airflow`` for links within the page,
    an address such as ``https://airflow.example.com`` for links from elsewhere.
    """

    airflow: str = ""

    inbox = _Path("/")
    changed_causes = _Path("/causes")
    known_cause = _Path("/causes/{cause_id}")
    overview = _Path("/fleet")
    search = _Path("/search")
    audit = _Path("/audit")
    licences = _Path("/licences")
    static = _Path("/static/{name}")
    handler = _Path("/dags/{dag_id}")
    causes = _Path("/dags/{dag_id}/causes")
    cause = _Path("/dags/{dag_id}/causes/{cause_id}")
    diagnosis = _Path("/dags/{dag_id}/causes/{cause_id}/diagnosis")
    cause_rule = _Path("/dags/{dag_id}/causes/{cause_id}/rule")
    cause_rule_file = _Path("/dags/{dag_id}/causes/{cause_id}/rule.{form}")
    message = _Path("/dags/{dag_id}/messages/{message_key}")
    message_body = _Path("/dags/{dag_id}/messages/{message_key}/body")
    replacement = _Path("/dags/{dag_id}/messages/{message_key}/replacement")
    find = _Path("/dags/{dag_id}/find")
    related_messages = _Path("/dags/{dag_id}/messages/{message_key}/related")
    message_row = _Path("/dags/{dag_id}/messages/{message_key}/row.json")
    runs = _Path("/dags/{dag_id}/runs")
    run = _Path("/dags/{dag_id}/runs/{run_id}")
    run_progress = _Path("/dags/{dag_id}/runs/{run_id}/progress")
    stop = _Path("/dags/{dag_id}/runs/{run_id}/stop")
    run_report = _Path("/dags/{dag_id}/runs/{run_id}/report")
    approval = _Path("/dags/{dag_id}/runs/{run_id}/approval")
    rules = _Path("/dags/{dag_id}/rules")
    history = _Path("/dags/{dag_id}/history")
    act = _Path("/dags/{dag_id}/act")
    started = _Path("/dags/{dag_id}/act/runs/{dag_run_id}")
    handler_audit = _Path("/dags/{dag_id}/audit")

    def act_on(self, handler: str, keys: Sequence[str] = (), cause_id: str = "") -> str:
        """Return the path of the form for these messages, or for all messages of a cause."""
        return self.act(handler, {"message_key": list(keys) or None, "cause_id": cause_id})

    def airflow_dag(self, handler: str) -> str:
        return f"{self.airflow}/dags/{quote(dag_of(handler), safe='')}"

    def airflow_run(self, handler: str, dag_run_id: str) -> str:
        return f"{self.airflow_dag(handler)}/runs/{quote(dag_run_id, safe='')}"
