"""The rehearsal (`make rehearse`): the compose file's services without containers, and their kills.

A scheduled run, a manual one and a backfill of the demo's handler, over PostgreSQL, a Spark cluster
and Airflow's four services; then each process is killed while a run is under way. Every run must
end, the next one must complete the work, each message must be in one place, and the ledger's
account of every run must add up.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import embedded_mq
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.headers import DeadLetterHeader
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.model import Outcome
from mqdlq.mqi.connect import ConnectionSettings, connect
from tests.e2e.running.containers import LOOPBACK, SERVICES, Containers
from tests.e2e.running.services import ENDED, Airflow, now

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
# Which service is killed, in order, while a run is in which task; a surviving run continues.
# The first may leave messages to a dead run for five minutes, which pass with the others.
WAITING = ("airflow-dag-processor", "airflow-triggerer")
DEATHS = {
    "retries": ("postgres",),
    "takes its snapshot": ("airflow-api-server",),
    "evaluates": ("spark-worker-1", "spark-worker-2", "spark-master"),
    "executes": ("airflow-scheduler",),
}
MOST_RUNS = 8
EMPTY_QUEUE = "DLQ.EMPTY"
LEASE_S = 400
LEFT = ("left_by_rule", "unmatched", "unprocessable")


class Rehearsed(Airflow):
    """The Airflow of the compose file: another password, another ledger."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        address = f"http://{LOOPBACK}:{containers.ports['api']}"
        super().__init__(SimpleNamespace(address=address), containers.directory)  # type: ignore[arg-type]

    def log_in(self) -> None:
        passwords = self.directory / "secrets" / "airflow_passwords"
        given = {"username": "admin", "password": json.loads(passwords.read_text())["admin"]}
        answer = self._http.post("/auth/token", json=given)
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        url = (self.directory / "secrets" / "ledger_url").read_text().strip()
        with open_ledger(url) as ledger:
            yield ledger

    def _last_words(self) -> str:
        return self.containers.last_words()

    def call(self, method: str, path: str, **body: Any) -> httpx.Response:
        """Ask again where the api-server or its database is just being started again."""
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = super().call(method, path, **body)
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            else:
                if answer.status_code < 500 or time.monotonic() > deadline:
                    return answer
            self.containers.revive()
            time.sleep(0.5)

    def wait(self, holds: Callable[[], bool], limit_s: float = 240) -> None:
        """Wait, and meanwhile start again what ends by itself, as a container's engine does."""

        def now_holds() -> bool:
            self.containers.revive()
            return holds()

        super().wait(now_holds, limit_s)

    def comes_to(self, run_id: str, moment: str) -> bool:
        """Wait until a run is where somebody is to die; False where it has ended before."""
        there: list[bool] = []

        def has_come() -> bool:
            there[:] = [not self.has_ended(run_id) and self.is_at(run_id, moment)]
            return there[0] or self.has_ended(run_id)

        self.wait(has_come, 400)
        return there[0]

    def has_ended(self, run_id: str) -> bool:
        return self.run("demo", run_id)["state"] in ENDED

    def is_at(self, run_id: str, moment: str) -> bool:
        if moment == "evaluates":  # on the cluster, that is
            commands = self.containers.commands("spark-worker-1")
            return any("CoarseGrainedExecutorBackend" in command for command in commands)
        if moment == "executes":
            of_the_run = "SELECT count(*) FROM attempts WHERE run_id = %s"
            with self.ledger() as ledger, ledger.engine.connect() as connection:
                run = (ledger_run_id("demo", run_id),)
                return bool(connection.exec_driver_sql(of_the_run, run).scalar())
        states = self.tasks("demo", run_id)
        return {
            "takes its snapshot": states.get("snapshot") == "running",
            "retries": states.get("retry") == "running",
        }[moment]


def places() -> Counter[bytes]:
    """Return the MsgIds on all queues of QM1 but the state queue, and how often each is there."""
    found: Counter[bytes] = Counter()
    with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        for name in set(embedded_mq.depths("QM1")) - {"MQDLQ.STATE"}:
            queue = queue_manager.open(name, constants.MQOO_BROWSE)
            while True:
                options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_ACCEPT_TRUNCATED_MSG
                descriptor = module.MD()
                try:
                    queue.get(0, descriptor, module.GMO(Options=options))
                except module.MQMIError as error:
                    if error.reason == constants.MQRC_NO_MSG_AVAILABLE:
                        break
                    if error.reason != constants.MQRC_TRUNCATED_MSG_ACCEPTED:
                        raise
                found[bytes(descriptor.MsgId)] += 1
            queue_manager.close(queue)
    return found


def test_the_compose_files_services_survive_the_death_of_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not below pytest's own directory, which the user PostgreSQL runs as could not enter.
    directory = Path(tempfile.mkdtemp(prefix="mqdlq-rehearsal-"))
    containers = Containers(directory)

    def tell(what: str) -> None:
        with capsys.disabled():
            print(f"{now():%H:%M:%S}  {what}", flush=True)  # noqa: T201

    try:
        containers.start_all()
        for service in SERVICES:
            containers.wait(partial(containers.is_healthy, service), f"{service} is healthy")
        tell("all services of docker-compose.yaml are up, by their own health checks")
        monkeypatch.setenv("MQDLQ_HOME", str(directory / "state"))
        airflow = Rehearsed(containers)
        airflow.log_in()
        airflow.wait_for_dag("demo")
        rehearse(containers, airflow, tell)
        airflow._http.close()
    finally:
        containers.close()

    assert containers.left_behind() == []
    shutil.rmtree(directory)  # where the rehearsal has failed, its logs are left to be read


def rehearse(containers: Containers, airflow: Rehearsed, tell: Any) -> None:
    assert {*WAITING, *(victim for victims in DEATHS.values() for victim in victims)} == {*SERVICES}
    airflow.pause("demo", paused=False)  # Airflow starts the run of the last interval
    airflow.wait(lambda: bool(airflow.runs("demo")))
    (scheduled,) = airflow.runs("demo")
    ended = airflow.wait_for_run("demo", scheduled["dag_run_id"], 400)
    assert (scheduled["run_type"], ended) == ("scheduled", "success"), containers.last_words()
    assert airflow.outcomes("demo", scheduled["dag_run_id"]) == STORY
    tell(f"scheduled run: {STORY}")

    containers.start("mq-embedded")
    manual = airflow.trigger("demo")
    assert airflow.wait_for_run("demo", manual, 400) == "success", containers.last_words()
    handled = {name: STORY[name] for name in ("delivered", "forwarded", "discarded")}
    found = airflow.outcomes("demo", manual)
    assert {name: found[name] for name in handled} == handled
    tell(f"manual run: {found}")

    backfill(airflow)
    tell("backfill: its runs have succeeded")

    kill_while_a_run_waits(containers, airflow)
    tell(f"killed while a run waited for messages: {', '.join(WAITING)}; it took the first")

    run_id, fills = "", 0
    for moment, victims in DEATHS.items():
        while not (run_id and airflow.comes_to(run_id, moment)):
            fills += 1
            assert fills <= MOST_RUNS, containers.last_words()
            containers.start("mq-embedded")
            run_id = airflow.trigger("demo")
        kill(containers, victims)
        tell(f"killed while a run {moment}: {', '.join(victims)}")
    ended = airflow.wait_for_run("demo", run_id, 400)
    tell(f"{fills} runs for these deaths, the last has ended as {ended}")

    containers.start("mq-embedded")
    fills += 3
    # Messages of a dead run's retries stay leased until its lease ends; then a run takes them.
    deadline = time.monotonic() + LEASE_S
    while True:
        last = airflow.trigger("demo")
        assert airflow.wait_for_run("demo", last, 400) == "success", containers.last_words()
        outcomes = airflow.outcomes("demo", last)
        tell(f"the run after: {outcomes}")
        if "leased_by_run" not in outcomes:
            break
        assert time.monotonic() < deadline, outcomes
        time.sleep(20)
    tell(f"started again by themselves: {', '.join(containers.restarted) or 'none'}")
    check_the_account(airflow, fills)


def kill(containers: Containers, victims: tuple[str, ...]) -> None:
    for victim in victims:
        assert containers.kill(victim), f"nothing of {victim} was running"
        containers.start(victim)


def kill_while_a_run_waits(containers: Containers, airflow: Rehearsed) -> None:
    """Let a run wait in the triggerer, kill that, and see the run take the first message."""
    embedded_mq.run_mqsc("QM1", f"DEFINE QLOCAL({EMPTY_QUEUE})")
    run_id = airflow.trigger("demo", wait="1200", input_q=EMPTY_QUEUE)
    airflow.wait_for_task("demo", run_id, "sense", "deferred")
    kill(containers, WAITING)
    assert airflow.tasks("demo", run_id)["sense"] == "deferred"
    header = DeadLetterHeader(
        2053, "PAYMENTS.IN", "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
        module = queue_manager.client.module
        descriptor = module.MD(Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)
        body = header.encode(encoding=546, ccsid=819) + b"the first"
        queue_manager.handle.put1(EMPTY_QUEUE.encode(), body, descriptor)
    assert airflow.wait_for_run("demo", run_id, 400) == "success", containers.last_words()
    assert airflow.outcomes("demo", run_id) == {"delivered": 1}


def backfill(airflow: Rehearsed) -> None:
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

    airflow.wait(lambda: len(runs()) == 2 and all(run["end_date"] for run in runs()), 400)
    assert {run["state"] for run in runs()} == {"success"}, airflow._last_words()


def check_the_account(airflow: Rehearsed, fills: int) -> None:
    """Each message is in one place, or was discarded once; no run booked more than it saw."""
    ids = places()
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

    assert [one for one, count in ids.items() if count > 1] == []
    assert ids.total() + discarded == fills * PUT_BY_THE_DEMO + 1
    left = fills * sum(STORY[outcome] for outcome in LEFT)
    assert embedded_mq.depths("QM1")["SYSTEM.DEAD.LETTER.QUEUE"] == left
    assert {run: booked[run] for run in settled} == {run: runs[run] for run in settled}
    assert not {"intended", "unknown"} & states.keys(), states
