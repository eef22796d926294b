"""Airflow as people run it: its four services on a private port over a private directory, by REST.

The services are the ones that `make up` starts, over SQLite unless the environment says otherwise:
that is enough for one run after the other. Backfills and a scheduler that is killed want
PostgreSQL, since a process that writes to SQLite locks out all others.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import httpx
import psutil
import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.local.environment import migrate
from mqdlq.local.services import (
    AIRFLOW,
    COMMANDS,
    USER,
    Services,
    end,
    password,
    running,
    stop_all,
)

ENDED = {"success", "failed"}


class TiedServices(Services):
    """Services that live no longer than this process, however it ends."""

    def __init__(self, port: int, more: Mapping[str, str]) -> None:
        """Serve the UI on this port; `more` goes into the environment."""
        super().__init__(port)
        self.environment |= more

    def begin(self, words: tuple[str, ...], log: IO[bytes]) -> subprocess.Popen[bytes]:
        if words[:2] == AIRFLOW:
            words = ("-m", "tests.e2e.running.parent_watch", *words[2:])
        return subprocess.Popen(
            [sys.executable, *words],
            env=self.environment,
            # Nothing is written to the pipe; that it closes is what the process waits for.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def stop_all(self, grace_s: float) -> None:
        stop_all(grace_s)
        # The file may be missing, or MQDLQ_HOME may name another directory now.
        alive = (started for started in self.started if started.poll() is None)
        end([psutil.Process(started.pid) for started in alive], grace_s)
        for started in self.started:
            started.wait()
            if started.stdin:
                started.stdin.close()


class Airflow:
    """A running Airflow with what a test does to it."""

    def __init__(self, services: TiedServices, directory: Path) -> None:
        self.services = services
        self.directory = directory
        self.token = ""
        self._http = httpx.Client(base_url=services.address, timeout=60)

    def log_in(self) -> None:
        """Get a token by the user's password, as the UI does."""
        given = {"username": USER, "password": password()}
        answer = self._http.post("/auth/token", json=given)
        self.token = str(answer.json()["access_token"])
        self._http.headers["Authorization"] = f"Bearer {self.token}"

    def call(self, method: str, path: str, **body: Any) -> httpx.Response:
        return self._http.request(method, f"/api/v2{path}", json=body or None)

    def get(self, path: str) -> dict[str, Any]:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    # -- DAGs and runs

    def wait_for_dag(self, handler: str) -> None:
        self.wait(lambda: self.call("GET", f"/dags/mq_dlq_{handler}").status_code == 200)

    def pause(self, handler: str, *, paused: bool) -> None:
        answer = self.call("PATCH", f"/dags/mq_dlq_{handler}", is_paused=paused)
        assert answer.status_code == 200, answer.text

    def trigger(self, handler: str, **conf: Any) -> str:
        """Start a run by hand; return its id."""
        answer = self.try_to_trigger(handler, **conf)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["dag_run_id"])

    def try_to_trigger(self, handler: str, **conf: Any) -> httpx.Response:
        return self.call("POST", f"/dags/mq_dlq_{handler}/dagRuns", logical_date=None, conf=conf)

    def runs(self, handler: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/dags/mq_dlq_{handler}/dagRuns")["dag_runs"]
        return found

    def run(self, handler: str, run_id: str) -> dict[str, Any]:
        return self.get(f"/dags/mq_dlq_{handler}/dagRuns/{run_id}")

    def tasks(self, handler: str, run_id: str) -> dict[str, str | None]:
        path = f"/dags/mq_dlq_{handler}/dagRuns/{run_id}/taskInstances"
        return {task["task_id"]: task["state"] for task in self.get(path)["task_instances"]}

    def wait_for_run(self, handler: str, run_id: str, limit_s: float = 400) -> str:
        """Wait for a run's end; return its state."""
        self.wait(lambda: self.run(handler, run_id)["state"] in ENDED, limit_s)
        return str(self.run(handler, run_id)["state"])

    def wait_for_task(self, handler: str, run_id: str, task: str, *states: str) -> None:
        self.wait(lambda: self.tasks(handler, run_id).get(task) in states)

    def wait_for_question(self, handler: str, run_id: str, times: int = 1) -> None:
        """Wait until a run asks for approval, and the scheduler knows that its task waits.

        Airflow takes a task that is answered before that for failed; people are slower. `times` is
        2 for a question that is asked again.
        """
        self.wait_for_task(handler, run_id, "approve", "awaiting_input")
        event = (
            "Received executor event with state success for task instance TaskInstanceKey("
            f"dag_id='mq_dlq_{handler}', task_id='approve', run_id='{run_id}'"
        )
        log = self.directory / "logs" / "scheduler.log"
        self.wait(lambda: log.read_text(encoding="utf-8").count(event) >= times)

    def clear(self, handler: str, run_id: str, *tasks: str) -> None:
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(tasks)}
        more = {"only_failed": False, "include_downstream": False, "reset_dag_runs": True}
        answer = self.call("POST", f"/dags/mq_dlq_{handler}/clearTaskInstances", **body, **more)
        assert answer.status_code == 200, answer.text

    def log(self, handler: str, run_id: str, task: str, attempt: int = 1) -> str:
        path = f"/dags/mq_dlq_{handler}/dagRuns/{run_id}/taskInstances/{task}/logs/{attempt}"
        return str(self.get(path)["content"])

    # -- what came of it

    def outcomes(self, handler: str, run_id: str) -> dict[str, int]:
        with self.ledger() as ledger:
            found = ledger.outcomes.of_run(ledger_run_id(handler, run_id)).values()
        return dict(Counter(str(fact.outcome) for fact in found))

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with open_ledger(f"sqlite:///{self.directory}/ledger.db") as ledger:
            yield ledger

    # -- services

    def kill(self, name: str) -> None:
        """End a service as a crash would, with all it started."""
        end([running()[name]] if name in running() else [], grace_s=0)

    def restart(self, name: str) -> None:
        self.kill(name)
        self.services.start(name)

    def close(self) -> None:
        self._http.close()
        self.services.stop_all(grace_s=3)

    def wait(self, holds: Callable[[], bool], limit_s: float = 240) -> None:
        """Wait until something holds; fail with what the services wrote last."""
        deadline = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {limit_s} s\n{self._last_words()}")
            time.sleep(0.5)

    def _last_words(self) -> str:
        tails = []
        for name in COMMANDS:
            log = self.directory / "logs" / f"{name}.log"
            lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
            tails.append(f"-- {name}\n" + "\n".join(lines))
        return "\n".join(tails)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def airflow(directory: Path, **environment: str) -> Iterator[Airflow]:
    """Run Airflow over `directory`, with its handlers from `directory`/rules."""
    own = {"MQDLQ_HOME": str(directory), "MQDLQ_RULES_DIR": str(directory / "rules")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**own, **environment}.items():
            patch.setenv(name, value)
        # Settings of another test's Airflow in this process are not passed on.
        for name in [name for name in os.environ if name.startswith("AIRFLOW__")]:
            if name not in environment:
                patch.delenv(name)
        migrate(environment)
        found = Airflow(TiedServices(free_port(), environment), directory)
        try:
            found.services.start_all()
            found.log_in()
            yield found
        finally:
            found.close()


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (Airflow's services live by the wall clock)
