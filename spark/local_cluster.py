"""A Spark standalone cluster on this machine: `python spark/local_cluster.py start|stop`.

It has a master and two workers, for trying the applications as a cluster runs them, and listens on
the loopback interface only. The processes are those of the installed pyspark; their ids stand in
the directory.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqdlq.evaluation.spark_conf import submit_environment

WORKERS: Final = 2
READY_S: Final = 60
_started: dict[str, subprocess.Popen[bytes]] = {}


def start(directory: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Start a master and two workers of one core and 1 GiB each; return the master's URL.

    Raises TimeoutError when a worker has not joined after a minute.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port, web = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    host = ["--host", "127.0.0.1"]
    place = ["--port", str(port), "--webui-port", str(web)]
    _launch(directory, "master", ["master.Master", *host, *place], environment)
    _wait_for(directory / "master.log", "I have been elected leader")
    for number in range(WORKERS):
        size = ["--cores", "1", "--memory", "1g", "--webui-port", str(_free_port())]
        work = ["--work-dir", str(directory / f"work-{number}")]
        command = ["worker.Worker", *host, *size, *work, url]
        _launch(directory, f"worker-{number}", command, environment)
    for number in range(WORKERS):
        _wait_for(directory / f"worker-{number}.log", "Successfully registered with master")
    (directory / "url").write_text(url, encoding="ascii")
    return url


def stop(directory: Path) -> None:
    """End the processes that `start` left in this directory, and nothing else."""
    for place in sorted(directory.glob("*.pid"), reverse=True):
        with suppress(ProcessLookupError):
            os.killpg(int(place.read_text(encoding="ascii")), signal.SIGTERM)
        if process := _started.pop(place.stem, None):
            process.wait()
        place.unlink()


def _launch(
    directory: Path, name: str, command: Sequence[str], environment: Mapping[str, str]
) -> None:
    kind, *arguments = command
    spark = submit_environment()
    with (directory / f"{name}.log").open("wb") as log:
        _started[name] = process = subprocess.Popen(  # noqa: S603 (our own command)
            [
                f"{spark['SPARK_HOME']}/bin/spark-class",
                f"org.apache.spark.deploy.{kind}",
                *arguments,
            ],
            env={**environment, **spark},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (directory / f"{name}.pid").write_text(str(process.pid), encoding="ascii")


def _wait_for(log: Path, words: str) -> None:
    deadline = time.monotonic() + READY_S
    while words not in log.read_text(encoding="utf-8", errors="replace"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{log} does not say {words!r} after {READY_S} s")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    """Start or stop the cluster; print the master's URL."""
    parser = argparse.ArgumentParser(
        prog="local_cluster.py",
        description="A Spark master and two workers on this machine.",
        epilog="Example: python spark/local_cluster.py start",
    )
    parser.add_argument("verb", choices=("start", "stop"))
    parser.add_argument("--directory", default="var/cluster", help="for logs and process ids")
    options = parser.parse_args()
    directory = Path(options.directory).resolve()
    if options.verb == "start":
        sys.stdout.write(f"{start(directory)}\n")
    else:
        stop(directory)


if __name__ == "__main__":
    main()
