"""Links from Airflow's UI to the operator's page."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.reading.page_paths import Paths

if TYPE_CHECKING:
    from mqdlq.airflow.operators.stages import Report


BASE_URL: Final = "AIRFLOW__API__BASE_URL"


def airflow_address() -> str:
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


def handler_page(handler: str) -> str:
    """Return the path of a handler's page on Airflow's host, for the documentation of its DAG."""
    return _paths_below(os.environ.get(BASE_URL)).handler(handler)


@cache
def _paths_below(_named: str | None) -> Paths:
    """Return the paths on Airflow's host; a thousand DAGs would ask its configuration each time.

    It does not change in a process, except by the environment, which is why that is given.
    """
    return Paths(urlsplit(airflow_address()).path)


class _RunLink(BaseOperatorLink):
    """A link that the worker puts into an XCom after the task, where Airflow's UI finds it."""

    path: ClassVar[str]
    """The name of a path of `Paths`."""

    def get_link(self, operator: Report, *, ti_key: Any) -> str:  # type: ignore[override]
        """Return the address; without `[api] base_url`, a path on the same host."""
        run_id = operator.reported_run_id or ledger_run_id(operator.handler, ti_key.run_id)
        return str(getattr(Paths(airflow_address()), self.path)(operator.handler, run_id))


class ReportLink(_RunLink):
    """The link to a run's HTML report, which Airflow serves with its own permissions."""

    name = "Report"
    path = "run_report"


class RunPageLink(_RunLink):
    """The link to a run on the operator's page."""

    name = "Run in Dead letters"
    path = "run"


LINKS: Final = (ReportLink(), RunPageLink())
