"""A separate Airflow for the tests of this directory.

Airflow reads its settings when it is imported, so it is imported here; the variables are set again
for each test, since the processes that a test starts read them, too.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile

import pytest

_STATE = tempfile.mkdtemp(prefix="mqdlq-tests-")
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)
_SETTINGS = {
    "AIRFLOW_HOME": _STATE,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
}


def _set(patch: pytest.MonkeyPatch) -> None:
    for name, value in _SETTINGS.items():
        patch.setenv(name, value)


with pytest.MonkeyPatch.context() as _patch:
    _set(_patch)
    import airflow  # noqa: F401 (it reads them now)


@pytest.fixture(autouse=True)
def _airflow_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory."""
    for item in items:
        if "tests/airflow/" in item.path.as_posix():
            item.add_marker(pytest.mark.airflow)
