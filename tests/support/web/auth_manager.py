"""An auth manager of Airflow that hides DAGs from everyone but administrators."""

from __future__ import annotations

from typing import Any, Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

HIDDEN: Final = "mq_dlq_secret"


class HidingAuthManager(SimpleAuthManager):
    """Airflow's simple auth manager, by which only an administrator may see the DAG `HIDDEN`."""

    def is_authorized_dag(
        self, *, user: SimpleAuthManagerUser, details: DagDetails | None = None, **asked: Any
    ) -> bool:
        """Return what the simple auth manager says, but False for the hidden DAG."""
        if details is not None and details.id == HIDDEN and not self._is_admin(user):
            return False
        return bool(super().is_authorized_dag(user=user, details=details, **asked))
