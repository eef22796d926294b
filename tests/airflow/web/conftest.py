"""One demo world and one Airflow for all tests of the page; tests change neither."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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


@pytest.fixture(scope="package", name="world", autouse=True)
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Make the world before anything else, as each file restores the environment at its end."""
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
def _own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield another demo world, which the page shows in place of the common one.

    It takes seconds to make, and names its own directory, so that a copy is put there each time.
    """
    place, as_made = (tmp_path_factory.getbasetemp() / name for name in ("own", "own-as-made"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MQDLQ_HOME", "MQDLQ_RULES_DIR", "AIRFLOW_CONN_MQ"):
            patch.setenv(name, "")
        if not as_made.exists():
            with make_demo_world(place).ledger:
                pass
            place.rename(as_made)
        shutil.copytree(as_made, place)
        world = make_demo_world(place)
        overrides = application().dependency_overrides
        overrides[requests.ledger] = lambda: world.ledger
        overrides[requests.lake_root] = lambda: world.lake_root
        with world.ledger:
            yield world
        del overrides[requests.ledger], overrides[requests.lake_root]
        shutil.rmtree(place)
