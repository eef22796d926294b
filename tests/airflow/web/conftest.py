"""One demo world and one Airflow for all tests of the page; tests change neither."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest

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
