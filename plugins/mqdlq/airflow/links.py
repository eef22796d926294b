"""Links from Airflow's UI to the operator's page."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.reading.page_paths import Paths

if TYPE_CHECKING:
    from mqdlq.airflow.operators.stages import Report


def airflow_address() -> str:
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


@cache
def paths_on_host() -> Paths:
    """Return the paths on Airflow's host, for the documentation of DAGs; a process asks once."""
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
