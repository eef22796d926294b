"""The demo in, a local Airflow with its UI out, that is fed until it is stopped.

Run as ``python -m mqdlq.airflow.up``, which is ``make up``; with ``--down`` it is ``make down``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Final

import typer

from mqdlq import home
from mqdlq.airflow.environment import environment
from mqdlq.airflow.foreground import migrate
from mqdlq.airflow.services import USER, Services, ServicesError, password, running, stop_all

PORT: Final = 8080
FEED_EVERY_S: Final = 240


def up(port: int) -> None:
    """Start the services and the feeder; say where the UI is. Raises ServicesError."""
    if alive := running():
        names = ", ".join(process.name for process in alive)
        raise ServicesError(f"it runs already over {home.home()} ({names}); `make down` stops it")
    services = Services(port, {"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False"})
    migrate()
    tell_the_story()
    typer.echo("Starting Airflow's services: half a minute")
    try:
        services.start_all()
    except BaseException:
        stop_all()
        raise
    services.start("feeder", ("-m", "mqdlq.airflow.up", "--feed"))
    typer.echo(
        f"Airflow is at {services.address}, user {USER}, password {password()}\n"
        f"The DAG mq_dlq_demo runs every five minutes, and QM1 gets new dead letters meanwhile.\n"
        f"Logs are in {home.home() / 'logs'}; `make down` stops all of it."
    )


def tell_the_story() -> None:
    """Put the demo's dead letters on its queue once more; raises ServicesError."""
    told = subprocess.run([sys.executable, "-m", "mqdlq.demo"], env=environment(), check=False)
    if told.returncode:
        raise ServicesError("the demo's queue manager could not be filled")


def feed() -> None:
    """Tell the story again and again."""
    while True:
        time.sleep(FEED_EVERY_S)
        tell_the_story()


def down() -> None:
    """Stop what was started, and say so."""
    stopped = stop_all()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


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
            typer.echo(f"make up: {error}; MQDLQ_PORT chooses another port", err=True)
        else:
            typer.echo(f"make up: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
