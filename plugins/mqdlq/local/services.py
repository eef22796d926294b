"""Run a local Airflow with its UI over the demo: its four services, and a feeder of dead letters.

Run as ``python -m mqdlq.local.services``, which is ``make up``; with ``--down`` it is ``make
down``. Each service has its own process group and its own log. Nothing here imports Airflow.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import click
import httpx
import psutil

from mqdlq import directories
from mqdlq.errors import MqDlqError
from mqdlq.local.environment import airflow_home, environment, migrate, names_metadata
from mqdlq.reading.page_paths import Paths

PORT: Final = 8080
FEED_EVERY_S: Final = 240
DEMO: Final = "mq_dlq_demo"
HISTORY: Final = "mq_dlq_history"
LOOPBACK: Final = "127.0.0.1"
USER: Final = "admin"
GRACE_S: Final = 8
"""How long a service may take to end by itself; a scheduler with idle workers takes minutes."""
START_S: Final = 300

AIRFLOW: Final = ("-m", "airflow")
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "api-server": (*AIRFLOW, "api-server"),
    "dag-processor": (*AIRFLOW, "dag-processor"),
    "triggerer": (*AIRFLOW, "triggerer", "--skip-serve-logs"),
    "scheduler": (*AIRFLOW, "scheduler", "--skip-serve-logs"),
}
"""The services, in the order in which they are started."""


class ServicesError(MqDlqError):
    """The services cannot be started, or did not come up."""


def find(pid: int, began: float) -> psutil.Process | None:
    """Return the process with this number that began then, unless it has ended."""
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(pid)
        if abs(found.create_time() - began) < 1.0 and found.status() != psutil.STATUS_ZOMBIE:
            return found
    return None


def end(leaders: Iterable[psutil.Process], grace_s: float = GRACE_S) -> None:
    """End processes and their children: by SIGTERM, after `grace_s` by SIGKILL."""
    alive = [found for one in leaders if (found := find(one.pid, one.create_time()))]
    # A leader's children can only be found while the leader runs.
    families = [*alive, *(child for one in alive for child in one.children(recursive=True))]
    for group, number, seconds in (
        (alive, signal.SIGTERM, grace_s),
        (families, signal.SIGKILL, GRACE_S),
    ):
        for process in group if seconds else ():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        psutil.wait_procs(families, timeout=seconds)


class Services:
    """Airflow's services over one state directory, MQDLQ_HOME.

    A file there lists the started processes, so that another process can stop them.
    """

    def __init__(self, port: int) -> None:
        """Serve the UI on this port of the loopback."""
        self.port = port
        self.address = f"http://{LOOPBACK}:{port}"
        self.environment = {**environment(own_metadata=False), **_settings(port)}
        self.started: list[subprocess.Popen[bytes]] = []

    def start_all(self) -> None:
        """Start the services and wait until all are healthy; raises ServicesError.

        The scheduler comes last: a task that begins before the api-server answers is failed, and
        the first request for a task takes it seconds to answer.
        """
        if in_use(self.port):
            raise ServicesError("MQDLQ-812", f"port {self.port} of {LOOPBACK} is in use")
        *first, last = COMMANDS
        for name in first:
            self.start(name)
        self._wait_until(lambda: self._get("/execution/health") is not None, first)
        self.start(last)
        self._wait_until(self.is_healthy, [*COMMANDS])

    def start(self, name: str, command: tuple[str, ...] = ()) -> psutil.Process:
        """Start a service, or another command of this Python that is to live as long as they."""
        logs = directories.home() / "logs"
        directories.make_private_directory(logs)
        with (logs / f"{name}.log").open("ab") as log:
            self.started.append(self.begin(command or COMMANDS[name], log))
        process = psutil.Process(self.started[-1].pid)
        _write({**running(), name: process})
        return process

    def begin(self, words: tuple[str, ...], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 (this very Python, arguments of our own)
            [sys.executable, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _wait_until(self, holds: Callable[[], bool], names: list[str]) -> None:
        deadline = time.monotonic() + START_S
        while not holds():
            dead = {*names} - running().keys()
            if dead or time.monotonic() > deadline:
                which = ", ".join(sorted(dead)) or "some service"
                raise ServicesError(
                    "MQDLQ-813",
                    f"{which} did not start; the logs are in {directories.home() / 'logs'}",
                )
            time.sleep(0.5)

    def _get(self, path: str) -> Any:
        try:
            answer = httpx.get(f"{self.address}{path}", timeout=30)
            return answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError):
            return None

    def is_healthy(self) -> bool:
        health = self._get("/api/v2/monitor/health") or {}
        return all(
            (health.get(name) or {}).get("status") == "healthy"
            for name in ("metadatabase", "scheduler", "triggerer", "dag_processor")
        )


def running() -> dict[str, psutil.Process]:
    """Return what was started over this state directory and still runs, by name."""
    try:
        listed = json.loads(_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    named = {one["name"]: find(one["pid"], one["began"]) for one in listed}
    return {name: process for name, process in named.items() if process}


def _write(processes: Mapping[str, psutil.Process]) -> None:
    """Write the processes, with the times that tell each from a later one of its number."""
    directories.make_private_directory(_file().parent)
    listed = [
        {"name": name, "pid": process.pid, "began": process.create_time()}
        for name, process in processes.items()
    ]
    with directories.new_file(_file()) as file:
        file.write(json.dumps(listed).encode())


def _file() -> Path:
    return airflow_home() / "services.json"


def stop_all(grace_s: float = GRACE_S) -> list[str]:
    """End all that was started over this state directory; return the names."""
    processes = running()
    end(processes.values(), grace_s)
    _file().unlink(missing_ok=True)
    return list(processes)


def password() -> str:
    """Return the password of the UI's user, which Airflow has made up."""
    file = airflow_home() / "simple_auth_manager_passwords.json.generated"
    return str(json.loads(file.read_text(encoding="utf-8"))[USER])


def in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _settings(port: int) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple"
        ".simple_auth_manager.SimpleAuthManager",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
        # With Airflow's own 5 s a task fails where the api-server is busy.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
        "PYTHONWARNINGS": "ignore",
    }


def up(port: int) -> None:
    """Start the services and the feeder; say where the UI is. Raises ServicesError."""
    if alive := running():
        names = ", ".join(alive)
        raise ServicesError(
            "MQDLQ-814",
            f"the services already run over {directories.home()} ({names}); `make down` stops them",
        )
    services = Services(port)
    migrate(os.environ if names_metadata() else None)
    tell_the_story()
    click.echo("Starting Airflow's services: half a minute")
    try:
        services.start_all()
    except BaseException:
        stop_all()
        raise
    services.start("feeder", ("-m", "mqdlq.local.services", "--feed"))
    click.echo(
        f"Airflow is at {services.address}, user {USER}, password {password()}\n"
        f"The page Dead letters is at {Paths(services.address).inbox()}\n"
        f"{state_of_the_demo(services.address)}\n"
        f"Logs are in {directories.home() / 'logs'}; `make down` stops all of it."
    )


def state_of_the_demo(address: str) -> str:
    """Unpause the demo's DAGs at the first start, and say whether it runs; raises ServicesError.

    Airflow creates every DAG paused, whether `make up` or `mqdlq run` meets it first. A DAG that
    was paused after the first start stays paused.
    """
    started_before = airflow_home() / ".demo-unpaused"
    try:
        if not started_before.exists():
            for dag_id in (DEMO, HISTORY):
                _call(address, "PATCH", f"/dags/{dag_id}", is_paused=False)
            started_before.touch()
        is_paused = _call(address, "GET", f"/dags/{DEMO}")["is_paused"]
    except httpx.HTTPError as error:
        raise ServicesError(
            "MQDLQ-816", f"the state of the DAG {DEMO} is not known: {error}"
        ) from error
    if is_paused:
        return (
            f"The DAG {DEMO} is paused, as you left it: `mqdlq airflow dags unpause {DEMO}` starts"
            " it again. QM1 gets new dead letters meanwhile."
        )
    return (
        f"The DAG {DEMO} runs every five minutes, and QM1 gets new dead letters meanwhile.\n"
        "The DAGs of other handlers begin paused: `mqdlq airflow dags unpause mq_dlq_HANDLER`"
        " starts one."
    )


def _call(address: str, method: str, path: str, **body: Any) -> Any:
    """Call Airflow's REST API as the UI's user; wait while the DAG is not known yet."""
    credentials = {"username": USER, "password": password()}
    with httpx.Client(base_url=address, timeout=60) as client:
        token = client.post("/auth/token", json=credentials).raise_for_status()
        client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        deadline = time.monotonic() + START_S
        while True:
            answer = client.request(method, f"/api/v2{path}", json=body or None)
            if answer.status_code != httpx.codes.NOT_FOUND or time.monotonic() > deadline:
                return answer.raise_for_status().json()
            time.sleep(1)


def tell_the_story() -> None:
    """Put the demo's dead letters on its queue once more; raises ServicesError."""
    told = subprocess.run(
        [sys.executable, "-m", "mqdlq.local.demo"], env=environment(), check=False
    )
    if told.returncode:
        raise ServicesError(
            "MQDLQ-815", "the demo's queue manager could not be filled; the lines above say why"
        )


def main() -> None:
    """Start, feed or stop, by this process's argument."""
    os.umask(0o077)  # metadata, logs and all that a run writes are their owner's alone
    try:
        if "--down" in sys.argv:
            stopped = stop_all()
            click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
        elif "--feed" in sys.argv:
            while True:
                time.sleep(FEED_EVERY_S)
                tell_the_story()
        else:
            up(int(os.environ.get("MQDLQ_PORT") or PORT))
    except ServicesError as error:
        hint = "" if running() else "; MQDLQ_PORT chooses another port"
        click.echo(f"make up: {error}{hint}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
