"""The paths of the operator's page, each declared once, for pages, reports, notes and alerts.

All state of a page is in its URL: filters are query parameters, and an empty one is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

MOUNT: Final = "/mqdlq"
"""Where Airflow's server has the page, below its own root."""

DAG_PREFIX: Final = "mq_dlq_"
NOT_HANDLERS: Final = frozenset({"history", "restore", "broken_handlers"})
"""DAGs of the project that handle no queue, without the prefix."""


def dag_of(handler: str) -> str:
    return DAG_PREFIX + handler


def handler_of(dag_id: str) -> str | None:
    name = dag_id.removeprefix(DAG_PREFIX)
    return None if name in {"", dag_id} or name in NOT_HANDLERS else name


KEY: Final = "message_key"
"""The query parameter of a message_key; it may occur several times."""
CAUSE: Final = "cause_id"
"""The query parameter of a cause_id."""

Filters = Mapping[str, object]
NO_FILTERS: Final[Filters] = {}


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of the page behind one address of Airflow.

    `airflow` has no slash at its end: "" or a path such as ``/airflow`` for links within the page,
    an address such as ``https://airflow.example.com`` for links from elsewhere. `handler` is the
    name of a handler, and each `filters` a page's query parameters.
    """

    airflow: str = ""

    def overview(self, filters: Filters = NO_FILTERS) -> str:
        return self._at("/", filters)

    def search(self, filters: Filters = NO_FILTERS) -> str:
        return self._at("/search", filters)

    def search_file(self, form: str, filters: Filters = NO_FILTERS) -> str:
        """Return the path of found messages as a file: `form` is csv or jsonl."""
        return self._at(f"/search.{_part(form)}", filters)

    def audit(self, filters: Filters = NO_FILTERS) -> str:
        return self._at("/audit", filters)

    def licences(self) -> str:
        return self._at("/licences")

    def static(self, name: str, version: str) -> str:
        """Return the path of a file of the page; `version` changes with its content."""
        return self._at(f"/static/{_part(name)}", {"v": version})

    def handler(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "", filters)

    def causes(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/causes", filters)

    def cause(self, handler: str, cause_id: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, f"/causes/{_part(cause_id)}", filters)

    def cause_rule(self, handler: str, cause_id: str, filters: Filters = NO_FILTERS) -> str:
        """Return the path of a rule for one cause."""
        return self._of(handler, f"/causes/{_part(cause_id)}/rule", filters)

    def cause_rule_file(
        self, handler: str, cause_id: str, form: str, filters: Filters = NO_FILTERS
    ) -> str:
        """Return the path of the table with this rule: `form` is rules, or diff."""
        return self._of(handler, f"/causes/{_part(cause_id)}/rule.{_part(form)}", filters)

    def message(self, handler: str, message_key: str, filters: Filters = NO_FILTERS) -> str:
        """Return the path of a message, by its key in hexadecimal digits."""
        return self._of(handler, f"/messages/{_part(message_key)}", filters)

    def message_part(
        self, handler: str, message_key: str, part: str, filters: Filters = NO_FILTERS
    ) -> str:
        """Return the path of a part of a message: ``body``, ``related`` or ``row.json``."""
        return self._of(handler, f"/messages/{_part(message_key)}/{part}", filters)

    def runs(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/runs", filters)

    def run(self, handler: str, run_id: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, f"/runs/{_part(run_id)}", filters)

    def run_report(self, handler: str, run_id: str) -> str:
        return self._of(handler, f"/runs/{_part(run_id)}/report")

    def run_outcomes(
        self, handler: str, run_id: str, form: str, filters: Filters = NO_FILTERS
    ) -> str:
        """Return the path of a run's outcomes as a file: `form` is csv, jsonl or parquet."""
        return self._of(handler, f"/runs/{_part(run_id)}/outcomes.{_part(form)}", filters)

    def rules(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/rules", filters)

    def history(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/history", filters)

    def act(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/act", filters)

    def act_on(self, handler: str, keys: Sequence[str] = (), cause_id: str = "") -> str:
        """Return the path of the form for these messages, or for all messages of a cause."""
        return self.act(handler, {KEY: list(keys) or None, CAUSE: cause_id})

    def started(self, handler: str, dag_run_id: str, filters: Filters = NO_FILTERS) -> str:
        """Return the path of a run that the form has started, by its id in Airflow."""
        return self._of(handler, f"/act/runs/{_part(dag_run_id)}", filters)

    def approval(self, handler: str, run_id: str) -> str:
        """Return the path that takes the answer to a run's question."""
        return self._of(handler, f"/runs/{_part(run_id)}/approval")

    def audit_file(self, handler: str, form: str, filters: Filters = NO_FILTERS) -> str:
        """Return the path of the audit log as a file, of all handlers if `handler` is "".

        `form` is csv or jsonl.
        """
        name = f"/audit.{_part(form)}"
        return self._of(handler, name, filters) if handler else self._at(name, filters)

    def handler_audit(self, handler: str, filters: Filters = NO_FILTERS) -> str:
        return self._of(handler, "/audit", filters)

    def airflow_dag(self, handler: str) -> str:
        return f"{self.airflow}/dags/{_part(dag_of(handler))}"

    def airflow_run(self, handler: str, dag_run_id: str) -> str:
        return f"{self.airflow_dag(handler)}/runs/{_part(dag_run_id)}"

    def _of(self, handler: str, rest: str, filters: Filters = NO_FILTERS) -> str:
        return self._at(f"/dags/{_part(dag_of(handler))}{rest}", filters)

    def _at(self, path: str, filters: Filters = NO_FILTERS) -> str:
        given = {
            name: value for name, value in filters.items() if value is not None and value != ""
        }
        query = f"?{urlencode(given, doseq=True)}" if given else ""
        return f"{self.airflow}{MOUNT}{path}{query}"


def _part(text: str) -> str:
    return quote(text, safe="")
