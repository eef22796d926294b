"""Airflow's real api-server in this process, with the page in it and a client for each role.

`with airflow_app(directory) as airflow:` migrates a metadata database (SQLite) in `directory`, adds
the DAGs of the handlers in MQDLQ_RULES_DIR to it, and creates Airflow's app with its plugins.
`airflow.client("op")` is a client of httpx that is signed in with that role: viewer, user, op,
admin, or "" for nobody. A client has no `Sec-Fetch-Site` header; pass ``headers=FROM_PAGE`` with a
POST. The DAG `mq_dlq_secret` is hidden from everyone but the admin. The clock of the page is that
of the machine unless `airflow.set_clock` gives another one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final
from unittest.mock import patch

from mqdlq.directories import PROJECT

ROLES: Final = {"viewer": "vera", "user": "ulla", "op": "otto", "admin": "ada"}
"""The user of each role of Airflow's simple auth manager."""

BASE_URL: Final = "http://airflow.test"
FROM_PAGE: Final = {"Sec-Fetch-Site": "same-origin"}
FORM: Final = {**FROM_PAGE, "Content-Type": "application/x-www-form-urlencoded"}
"""The headers of a form that a page of ours sends."""


def settings(directory: Path) -> dict[str, str]:
    """Return the settings of an Airflow whose state is in a directory."""
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{directory / 'airflow.db'}",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(directory / "plugins"),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.support.web.auth_manager.HidingAuthManager",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{name}:{role}" for role, name in ROLES.items()
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(directory / "passwords.json"),
        "AIRFLOW__API__SECRET_KEY": "a secret of the tests, and long enough",
        "AIRFLOW__API_AUTH__JWT_SECRET": "0123456789abcdef" * 4,
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "_AIRFLOW_PROCESS_CONTEXT": "server",
    }


@dataclass(frozen=True)
class AirflowApp:
    """Airflow's app, and clients of it."""

    app: Any

    def token(self, role: str) -> str:
        """Return a token of the user with this role."""
        from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415 (reads settings)
        from airflow.api_fastapi.auth.managers.simple.user import (  # noqa: PLC0415 (the same)
            SimpleAuthManagerUser,
        )

        user = SimpleAuthManagerUser(username=ROLES[role], role=role)
        return str(get_auth_manager().generate_jwt(user))

    def client(self, role: str = "") -> Any:
        """Return a client that is signed in with a role, "" for nobody; it follows no redirect."""
        from starlette.testclient import TestClient  # noqa: PLC0415 (imports much)

        client = TestClient(self.app, base_url=BASE_URL, follow_redirects=False)
        client.headers["Accept"] = "text/html"
        if role:
            client.cookies.set("_token", self.token(role))
        return client

    def set_clock(self, clock: Callable[[], datetime]) -> None:
        """Give the page a clock."""
        from mqdlq.web.app import application  # noqa: PLC0415 (the same)
        from mqdlq.web.requests import wall_clock  # noqa: PLC0415 (the same)

        application().dependency_overrides[wall_clock] = lambda: clock


@contextmanager
def airflow_app(directory: Path) -> Iterator[AirflowApp]:
    """Run Airflow's app over its own metadata database in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with patch.dict(os.environ, settings(directory)):
        import airflow.settings  # noqa: PLC0415 (reads settings)
        from airflow.api_fastapi.app import cached_app, purge_cached_app  # noqa: PLC0415 (the same)

        shutil.copy(_empty_metadata(), directory / "airflow.db")
        _use_database(airflow.settings)
        try:
            _add_dags()
            purge_cached_app()
            yield AirflowApp(cached_app(apps="core"))
        finally:
            _forget()
            purge_cached_app()
            airflow.settings.dispose_orm(do_log=False)
    _use_database(airflow.settings)


def _use_database(airflow_settings: Any) -> None:
    """Have Airflow use the database that the environment names now."""
    airflow_settings.dispose_orm(do_log=False)
    airflow_settings.configure_vars()
    airflow_settings.configure_orm()


@cache
def _empty_metadata() -> Path:
    """Migrate a database once, to be copied: it takes several seconds."""
    import atexit  # noqa: PLC0415 (only here)

    import airflow.settings  # noqa: PLC0415 (reads settings)
    from airflow.utils import db  # noqa: PLC0415 (the same)

    directory = Path(mkdtemp(prefix="mqdlq-tests-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    file = directory / "airflow.db"
    with patch.dict(os.environ, {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{file}"}):
        _use_database(airflow.settings)
        db.initdb()
        airflow.settings.dispose_orm(do_log=False)
    return file


def _add_dags() -> None:
    """Parse the project's DAG files and store their DAGs, as Airflow's DAG processor does."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager  # noqa: PLC0415
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db  # noqa: PLC0415

    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]
    for file in ("mq_dlq.py", "mq_dlq_restore.py"):
        bag = DagBag(dag_folder=PROJECT / "dags" / file, bundle_path=PROJECT / "dags")
        assert not bag.import_errors, bag.import_errors
        sync_bag_to_db(bag, "dags-folder", None)


def _forget() -> None:
    """Close what the page keeps open over requests."""
    from mqdlq.web import app, requests  # noqa: PLC0415 (imports Airflow)

    app.application().dependency_overrides.clear()
    requests._opened.cache_clear()
