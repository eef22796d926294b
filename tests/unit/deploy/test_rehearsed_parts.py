"""Test that the rehearsal runs the commands of the compose file, without paths of containers."""

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


def test_make_rehearse_runs_every_service_that_needs_no_container(
    module: ModuleType, tmp_path: Path
) -> None:
    """`make compose-test` runs the others: IBM MQ, the object store and the test container."""
    services = set(module.Containers(tmp_path).compose["services"])

    assert services - set(module.ORDER) == {"mq", "s3", "tests"}


def test_rehearsed_services_use_no_path_or_port_of_the_containers(
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
            # The default port of psql is the container's; PGPORT sets the port of this machine.
            *(containers._on_loopback(service, word) for word in check[1:]),
        ]
        found += [(service, word) for word in given if inside.search(_without(tmp_path, word))]

    assert found == []


def _without(directory: Path, text: str) -> str:
    """Return the text without this machine's own paths, which are allowed."""
    return (
        text.replace(str(directory), "")
        .replace(str(directories.PROJECT), "")
        .replace(sys.prefix, "")
    )
