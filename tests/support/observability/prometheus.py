"""A real Prometheus that scrapes one exporter every second and evaluates the kit's rules."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.support.observability import kit

LIMIT_S: Final = 60


class Prometheus:
    """The HTTP API of a server."""

    def __init__(self, address: str, client: httpx.Client) -> None:
        self.address = address
        self._http = client

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return the labels and the value of each series now."""
        found = self.get("/query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def wait_for(self, expression: str) -> None:
        """Wait until a query has a result."""
        deadline = time.monotonic() + LIMIT_S
        while not self.query(expression):
            assert time.monotonic() < deadline, f"no result: {expression}"
            time.sleep(0.5)


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[Prometheus]:
    """Run a server that scrapes `target`; skip the test if Prometheus is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(kit.RULES)],
        "scrape_configs": [{"job_name": "mqdlq", "static_configs": [{"targets": [target]}]}],
    }
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = [
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={listen}",
    ]
    with (
        (directory / "prometheus.log").open("wb") as log,
        subprocess.Popen([program, *arguments], stdout=log, stderr=log) as running,
    ):
        try:
            _wait_until_ready(f"http://{listen}", directory / "prometheus.log")
            with httpx.Client(base_url=f"http://{listen}/api/v1", timeout=LIMIT_S) as client:
                yield Prometheus(f"http://{listen}", client)
        finally:
            running.terminate()


def _wait_until_ready(address: str, log: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            if httpx.get(f"{address}/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.3)
