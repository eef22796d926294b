"""One Airflow that all long tests of this directory share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.running.place import CONNECTION, TABLES, Place
from tests.e2e.running.services import Airflow, airflow
from tests.support import postgresql


@pytest.fixture(scope="session", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("long"))


@pytest.fixture(scope="session", name="running")
def _running(place: Place) -> Iterator[Airflow]:
    """Start Airflow once, over PostgreSQL as in production."""
    metadata = postgresql.running_server().new_database_url()
    with airflow(
        place.world.directory,
        AIRFLOW_CONN_MQ_LONG=CONNECTION,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=metadata,
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC=metadata,
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        # Else the next scheduler takes up what a dead one was running after five minutes only.
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="15",
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD="20",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT="20",
        AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL="5",
    ) as found:
        for name in TABLES:
            found.wait_for_dag(name)
        yield found
