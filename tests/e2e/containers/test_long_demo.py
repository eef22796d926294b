"""docker-compose.yaml in containers (`make compose-here`): the demo, with podman as the engine.

The image is built from the Dockerfile and started as by `make compose-up`. The demo runs by its
schedule, by hand and as a backfill, its page opens in a browser, and all of it ends. The ledger's
account must add up with the queues. `test_long_faults` has what may go wrong meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.containers.account import (
    RUN_LIMIT_S,
    STORY,
    check_the_account,
    run_once,
    wait_for_the_scheduled_run,
)
from tests.e2e.containers.services import IMAGE, SERVICES, AirflowInContainers, Containers
from tests.e2e.running.browser import browser
from tests.e2e.running.services import now

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_every_service_comes_up_healthy_as_another_user_than_root(containers: Containers) -> None:
    found = {service: containers.state_of(service) for service in SERVICES}
    ours = [name for name in SERVICES if name != "postgres"]
    users = {name: containers.inside(name, "id", "-u").strip() for name in ours}

    assert found == dict.fromkeys(SERVICES, ("running", "healthy"))
    assert users == dict.fromkeys(ours, "50000")


def test_the_image_has_nothing_of_ibms_and_few_layers(
    containers: Containers, tell: Callable[[str], None]
) -> None:
    (image,) = json.loads(containers.engine.podman("image", "inspect", IMAGE))
    layers, size = len(image["RootFS"]["Layers"]), round(image["Size"] / 1e6)
    python = "import importlib.metadata as m; print(len(list(m.distributions())))"
    packages = containers.inside("airflow-scheduler", "python", "-c", python).strip()
    debian = containers.inside("airflow-scheduler", "dpkg-query", "--show").count("\n")
    tell(f"image: {size} MB, {layers} layers, {packages} Python packages, {debian} of Debian")

    labels = {name: image["Labels"][f"mqdlq.{name}"] for name in ("mq-client", "mq-client.version")}
    assert labels == {"mq-client": "embedded", "mq-client.version": ""}
    assert image["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert containers.inside("airflow-scheduler", "ls", "/opt/mqm") == ""
    assert containers.inside("airflow-scheduler", "ls", "/opt/mqdlq").split() == [
        *("LICENSE", "NOTICE", "README.md", "dags", "deploy", "include", "plugins"),
        *("pyproject.toml", "requirements.lock", "spark"),
    ]


def test_the_bill_of_materials_lists_what_the_image_contains(containers: Containers) -> None:
    """By `make sbom` of the image as it is, not of what its Dockerfile names."""
    document = json.loads(containers.bill_of_materials())
    refs = {one["bom-ref"] for one in document["components"]}
    python = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    packages = containers.inside("airflow-scheduler", "python", "-c", python).split()
    debian = containers.inside("airflow-scheduler", "dpkg-query", "--show").splitlines()
    names = {one.partition("==")[0] for one in refs}

    assert {one.replace("_", "-").replace(".", "-").lower() for one in packages} - names == {
        "mqdlq"
    }
    assert len([ref for ref in refs if ref.startswith("deb:")]) == len(debian)
    assert "deb:openjdk-17-jre-headless:amd64" in refs
    assert "ibm-mq-client" not in refs


def test_the_demo_runs_by_schedule_by_hand_and_as_a_backfill(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    wait_for_the_scheduled_run(airflow, containers)
    tell(f"scheduled run: {STORY}")

    found = run_once(airflow, containers)
    handled = {name: STORY[name] for name in ("delivered", "forwarded", "discarded")}
    assert {name: found[name] for name in handled} == handled
    tell(f"manual run: {found}")

    backfill(airflow)
    tell("backfill: its runs have succeeded")
    check_the_account(airflow, containers)


def test_the_page_shows_the_causes_in_a_browser(
    containers: Containers, airflow: AirflowInContainers, tmp_path: Path
) -> None:
    with browser(tmp_path / "browser") as page:
        page.log_in(containers.address, airflow.token)
        page.open(f"{containers.address}/mqdlq/", "no MQDLH", "batch-unload")


def backfill(airflow: AirflowInContainers) -> None:
    """Backfill the two days before yesterday, one run after another."""
    today = now().replace(hour=0, minute=0, second=0, microsecond=0)
    body = {
        "dag_id": "mq_dlq_demo",
        "from_date": (today - timedelta(days=4)).isoformat(),
        "to_date": (today - timedelta(days=2, minutes=1)).isoformat(),
        "max_active_runs": 1,
        "run_backwards": False,
        "dag_run_conf": {},
        "reprocess_behavior": "none",
    }
    answer = airflow.call("POST", "/backfills", **body)
    assert answer.status_code == 200, answer.text

    def runs() -> list[dict[str, Any]]:
        return [run for run in airflow.runs("demo") if run["run_type"] == "backfill"]

    airflow.wait(lambda: len(runs()) == 2 and all(run["end_date"] for run in runs()), RUN_LIMIT_S)
    assert {run["state"] for run in runs()} == {"success"}, airflow._last_words()
