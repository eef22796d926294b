"""Run a local Airflow with its UI over the demo, and feed it until it is stopped.

Run as ``python -m mqdlq.local.up``, which is ``make up``; with ``--down`` it is ``make down``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Final

import click
import httpx

from mqdlq import directories
from mqdlq.local.environment import airflow_home, environment, names_metadata
from mqdlq.local.foreground import migrate
from mqdlq.local.services import (
    START_S,
    USER,
    Services,
    ServicesError,
    password,
    running,
    stop_all,
)
from mqdlq.reading.page_paths import Paths

PORT: Final = 8080
FEED_EVERY_S: Final = 240
DEMO: Final = "mq_dlq_demo"
HISTORY: Final = "mq_dlq_history"


def up(port: int) -> None:
    """Start the services and the feeder; say where the UI is. Raises ServicesError."""
    if alive := running():
        names = ", ".join(process.name for process in alive)
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
    services.start("feeder", ("-m", "mqdlq.local.up", "--feed"))
    click.echo(
        f"Airflow is at {services.address}, user {USER}, password {password()}\n"
        f"The page Dead letters is at {Paths(services.address).overview()}\n"
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


def feed() -> None:
    """Tell the story again and again."""
    while True:
        time.sleep(FEED_EVERY_S)
        tell_the_story()


def down() -> None:
    """Stop what was started, and say so."""
    stopped = stop_all()
    click.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def main() -> None:
    """Start, feed or stop, by this process's argument."""
    os.umask(0o077)  # metadata, logs and all that a run writes are their owner's alone
    try:
        if "--down" in sys.argv:
            down()
        elif "--feed" in sys.argv:
            feed()
        else:
            up(int(os.environ.get("MQDLQ_PORT") or PORT))
    except ServicesError as error:
        if not running():
            click.echo(f"make up: {error}; MQDLQ_PORT chooses another port", err=True)
        else:
            click.echo(f"make up: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
