"""One demo world and one Airflow for all tests of the page; tests change neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from mqdlq.web import requests
from mqdlq.web.app import application
from tests.support.web.airflow_app import AirflowApp, airflow_app
from tests.support.web.cause_pages import pages_fixture
from tests.support.web.crawling import Visit, crawl
from tests.support.web.demo_world import make_demo_world
from tests.support.world import World

__all__ = ["pages_fixture"]


@pytest.fixture(scope="package", name="world")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with patch.dict(os.environ):
        yield make_demo_world(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="package", name="airflow")
def _airflow(world: World) -> Iterator[AirflowApp]:
    with airflow_app(world.directory / "airflow") as made:
        made.set_clock(world.clock)
        yield made


@pytest.fixture(scope="package", name="visits")
def _visits(airflow: AirflowApp) -> list[Visit]:
    return crawl(airflow.client("admin"), application())


@pytest.fixture(name="own_world")
def _own_world(tmp_path: Path) -> Iterator[World]:
    """Yield another demo world, which the page shows in place of the common one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MQDLQ_HOME", "MQDLQ_RULES_DIR", "AIRFLOW_CONN_MQ"):
            patch.setenv(name, "")
        world = make_demo_world(tmp_path)
        overrides = application().dependency_overrides
        overrides[requests.ledger] = lambda: world.ledger
        overrides[requests.lake_root] = lambda: world.lake_root
        yield world
        del overrides[requests.ledger], overrides[requests.lake_root]
