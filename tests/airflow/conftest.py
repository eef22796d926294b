"""Airflow reads its settings when it is imported: they are made here, before that."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import pytest

_STATE = tempfile.mkdtemp(prefix="mqdlq-tests-")
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = _STATE
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory."""
    for item in items:
        if "tests/airflow/" in item.path.as_posix():
            item.add_marker(pytest.mark.airflow)
