"""docker-compose.yaml in containers (`make compose-here`): the demo, and the death of each service.

The image is built from the Dockerfile and started as by `make compose-up`, with podman as the
engine. The demo runs by its schedule, by hand and as a backfill. Then, while a run is under way,
each container is killed, each is paused, and some are cut off from the network. Every run must end,
the next one must complete the work, each message must be in one place, and the ledger's account
must add up. A backup is restored.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.model import Outcome
from tests.e2e.containers.engine import Engine, why_not
from tests.e2e.containers.services import (
    NAME,
    SERVICES,
    AirflowInContainers,
    Containers,
    wait_until_healthy,
)
from tests.e2e.running.browser import browser
from tests.e2e.running.services import now

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PUT_BY_THE_DEMO = 75
STORY = {
    "delivered": 25,
    "forwarded": 24,
    "discarded": 12,
    "left_by_rule": 3,
    "unmatched": 2,
    "unprocessable": 5,
}
LEFT = ("left_by_rule", "unmatched", "unprocessable")
# Which service is killed, in order, while a run is in which task; a surviving run continues.
DEATHS = {
    "takes its snapshot": ("airflow-api-server",),
    "evaluates": ("spark-worker-1", "spark-worker-2", "spark-master"),
    "executes": ("airflow-scheduler",),
    "retries": ("postgres", "airflow-dag-processor", "airflow-triggerer"),
}
MOST_RUNS = 8
LEASE_S = 400
RUN_LIMIT_S = 600


@pytest.fixture(name="directory", scope="module")
def _directory() -> Iterator[Path]:
    if reason := why_not():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="mqdlq-containers-", dir="/var/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(name="engine", scope="module")
def _engine(directory: Path) -> Iterator[Engine]:
    assert directory.exists()
    engine = Engine()
    engine.make_base_images()
    yield engine
    engine.close()


@pytest.fixture(name="containers", scope="module")
def _containers(engine: Engine, directory: Path) -> Iterator[Containers]:
    containers = Containers(engine, directory)
    containers.remove_what_was_left()
    containers.script("deploy/compose.sh", "up")
    yield containers
    containers.remove()
    assert engine.podman("ps", "--all", "--quiet") == ""
    assert NAME not in engine.podman("volume", "ls", "--quiet")


@pytest.fixture(name="airflow", scope="module")
def _airflow(containers: Containers) -> Iterator[AirflowInContainers]:
    airflow = AirflowInContainers(containers)
    airflow.log_in()
    airflow.wait_for_dag("demo")
    airflow.pause("demo", paused=False)  # Airflow starts the run of the last interval
    yield airflow
    airflow._http.close()


@pytest.fixture(name="tell")
def _tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def tell(what: str) -> None:
        with capsys.disabled():
            print(f"{now():%H:%M:%S}  {what}", flush=True)  # noqa: T201

    return tell


def test_every_service_comes_up_healthy_as_another_user_than_root(containers: Containers) -> None:
    found = {service: containers.state_of(service) for service in SERVICES}
    ours = [name for name in SERVICES if name != "postgres"]
    users = {name: containers.inside(name, "id", "-u").strip() for name in ours}

    assert found == dict.fromkeys(SERVICES, ("running", "healthy"))
    assert users == dict.fromkeys(ours, "50000")


def test_the_image_has_nothing_of_ibms_and_few_layers(
    containers: Containers, tell: Callable[[str], None]
) -> None:
    (image,) = json.loads(containers.engine.podman("image", "inspect", "localhost/mqdlq:0.1.0"))
    layers, size = len(image["RootFS"]["Layers"]), round(image["Size"] / 1e6)
    python = "import importlib.metadata as m; print(len(list(m.distributions())))"
    packages = containers.inside("airflow-scheduler", "python", "-c", python).strip()
    debian = containers.inside("airflow-scheduler", "dpkg-query", "--show").count("\n")
    tell(f"image: {size} MB, {layers} layers, {packages} Python packages, {debian} of Debian")

    assert image["Labels"]["mqdlq.mq-client"] == "embedded"
    assert containers.inside("airflow-scheduler", "ls", "/opt/mqm") == ""
    assert containers.inside("airflow-scheduler", "ls", "/opt/mqdlq").split() == [
        *("LICENSE", "NOTICE", "README.md", "dags", "deploy", "include", "plugins"),
        *("pyproject.toml", "requirements.lock", "spark"),
    ]


def test_the_demo_runs_by_schedule_by_hand_and_as_a_backfill(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    airflow.wait(lambda: bool(airflow.runs("demo")))
    (scheduled,) = airflow.runs("demo")
    ended = airflow.wait_for_run("demo", scheduled["dag_run_id"], RUN_LIMIT_S)
    assert (scheduled["run_type"], ended) == ("scheduled", "success"), containers.last_words()
    assert airflow.outcomes("demo", scheduled["dag_run_id"]) == STORY
    tell(f"scheduled run: {STORY}")

    containers.fill()
    manual = airflow.trigger("demo")
    assert airflow.wait_for_run("demo", manual, RUN_LIMIT_S) == "success", containers.last_words()
    handled = {name: STORY[name] for name in ("delivered", "forwarded", "discarded")}
    found = airflow.outcomes("demo", manual)
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


def test_a_run_survives_the_death_of_each_container(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    assert {victim for victims in DEATHS.values() for victim in victims} == {*SERVICES}
    run_id, fills = "", 0
    for moment, victims in DEATHS.items():
        while not (run_id and airflow.comes_to(run_id, moment)):
            fills += 1
            assert fills <= MOST_RUNS, containers.last_words()
            containers.fill()
            run_id = airflow.trigger("demo")
        for victim in victims:
            containers.kill(victim)
        tell(f"killed while a run {moment}: {', '.join(victims)}")
    tell(f"{fills} runs, the last ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


def test_a_run_survives_a_pause_of_each_container(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None]
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    for service in SERVICES:
        if airflow.has_ended(run_id):
            containers.fill()
            run_id = airflow.trigger("demo")
        with containers.paused(service):
            time.sleep(60)
        tell(f"paused for a minute: {service}")
    tell(f"the last run ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


@pytest.mark.parametrize("service", ["postgres", "spark-worker-1", "airflow-api-server"])
def test_a_run_survives_a_network_that_is_cut_and_healed(
    containers: Containers, airflow: AirflowInContainers, tell: Callable[[str], None], service: str
) -> None:
    containers.fill()
    run_id = airflow.trigger("demo")
    assert airflow.comes_to(run_id, "evaluates")
    with containers.cut_off(service):
        time.sleep(60)
    tell(f"{service} without its network for a minute")
    tell(f"the run ended as {airflow.wait_for_run('demo', run_id, RUN_LIMIT_S)}")
    wait_until_healthy(containers)
    complete(airflow, containers, tell)


def test_a_backup_is_restored_into_new_volumes(
    containers: Containers, airflow: AirflowInContainers, directory: Path
) -> None:
    airflow.pause("demo", paused=True)
    before, files = rows(airflow), lake_of(containers)
    copy = directory / "backup"
    containers.script("deploy/compose-backup.sh", "backup", str(copy))
    containers.compose("down", "--volumes")

    containers.script("deploy/compose-backup.sh", "restore", str(copy))
    containers.script("deploy/compose.sh", "up")

    assert (rows(airflow), lake_of(containers)) == (before, files)
    assert files


def rows(airflow: AirflowInContainers) -> dict[str, int]:
    """Return the numbers of rows of the ledger's accounts."""
    with airflow.ledger() as ledger, ledger.engine.connect() as connection:
        return {
            table: int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() or 0)  # noqa: S608
            for table in ("snapshots", "outcomes", "attempts", "sightings")
        }


def lake_of(containers: Containers) -> list[str]:
    """Return the lake's files, each with its checksum."""
    command = "cd /var/lib/mqdlq/lake && find . -type f -exec sha256sum {} +"
    return sorted(containers.inside("airflow-scheduler", "bash", "-c", command).splitlines())


def complete(
    airflow: AirflowInContainers, containers: Containers, tell: Callable[[str], None]
) -> None:
    """Run until nothing is leased to a dead run; then the account must add up."""
    containers.fill()
    deadline = time.monotonic() + LEASE_S
    while True:
        last = airflow.trigger("demo")
        ended = airflow.wait_for_run("demo", last, RUN_LIMIT_S)
        assert ended == "success", containers.last_words()
        outcomes = airflow.outcomes("demo", last)
        tell(f"the run after: {outcomes}")
        if "leased_by_run" not in outcomes:
            break
        assert time.monotonic() < deadline, outcomes
        time.sleep(20)
    check_the_account(airflow, containers)


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


def check_the_account(airflow: AirflowInContainers, containers: Containers) -> None:
    """Each message is in one place, or was discarded once; no run booked more than it saw."""
    found = containers.places()
    fills = containers.fills
    with airflow.ledger() as ledger, ledger.engine.connect() as connection:
        counted = connection.exec_driver_sql("SELECT run_id, messages FROM snapshots")
        runs = {str(run_id): int(messages) for run_id, messages in counted}
        booked = Counter(connection.exec_driver_sql("SELECT run_id FROM outcomes").scalars())
        for run_id in runs:
            booked[run_id] += sum(ledger.settled.outcomes(run_id).values())
        (discarded,) = connection.exec_driver_sql(
            "SELECT count(DISTINCT message_id) FROM outcomes WHERE outcome = %s",
            (str(Outcome.DISCARDED),),
        ).one()
        settled = set(connection.exec_driver_sql("SELECT run_id FROM sightings").scalars())
        states = Counter(connection.exec_driver_sql("SELECT state FROM attempt_states").scalars())

    assert [one for one, count in found["ids"].items() if count > 1] == []
    assert sum(found["ids"].values()) + discarded == fills * PUT_BY_THE_DEMO
    left = fills * sum(STORY[outcome] for outcome in LEFT)
    assert found["depths"]["SYSTEM.DEAD.LETTER.QUEUE"] == left
    assert {run: booked[run] for run in settled} == {run: runs[run] for run in settled}
    assert not {"intended", "unknown"} & states.keys(), states
