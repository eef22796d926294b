"""What the rehearsal runs is what the compose file says, with nothing of a container left in it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mqdlq import directories

pytestmark = pytest.mark.airflow


@pytest.fixture(name="module", scope="module")
def _module() -> ModuleType:
    return importlib.import_module("tests.e2e.running.containers")


def test_every_service_is_rehearsed_but_those_that_need_a_container(
    module: ModuleType, tmp_path: Path
) -> None:
    """IBM MQ, the object store and the container of the tests are what `make compose-test` runs."""
    services = set(module.Containers(tmp_path).compose["services"])

    assert services - set(module.ORDER) == {"mq", "s3", "tests"}


def test_nothing_is_left_of_a_containers_places_and_ports(
    module: ModuleType, tmp_path: Path
) -> None:
    containers = module.Containers(tmp_path)
    inside = re.compile(
        r"/opt/|/run/secrets|/var/lib/|spark-master|airflow-api-server|postgres:5432|(?<!\$)\$\{|"
        r"\b(8080|8081|7077|8974|5432)\b"
    )
    found = []
    for service in module.ORDER:
        own = set(containers.compose["services"][service].get("environment") or {})
        environment = containers.environment(service)
        check = containers.compose["services"][service].get("healthcheck", {}).get("test", [])
        given = [
            *(f"{name}={environment[name]}" for name in own),
            *(containers.command(service) if service != "postgres" else ()),
            # psql's own default is the container's port; PGPORT says which it is here.
            *(containers._on_loopback(service, word) for word in check[1:]),
        ]
        found += [(service, word) for word in given if inside.search(_without(tmp_path, word))]

    assert found == []


def _without(directory: Path, text: str) -> str:
    """Return the text without what is rightly there: this machine's own places."""
    return (
        text.replace(str(directory), "")
        .replace(str(directories.PROJECT), "")
        .replace(sys.prefix, "")
    )
