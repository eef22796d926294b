"""Whether this run of the contract tests includes a real queue manager."""

from __future__ import annotations

import json
import os

import pytest

from mqdlq.mqi.connect import ConnectionSettings, connect

REAL = "MQDLQ_TEST_QUEUE_MANAGER"


def test_a_real_queue_manager_takes_part() -> None:
    if REAL not in os.environ:
        pytest.skip(f"no real queue manager takes part in the contract tests: {REAL} is not set")

    with connect(ConnectionSettings(**json.loads(os.environ[REAL]))) as queue_manager:
        assert queue_manager.depth("A") >= 0
