"""The services `make up` starts: what is ours, what is in the way, and what is stopped."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mqdlq.local.services import Services, ServicesError, find, running, stop_all, up

SLEEP = ("-c", "import time; time.sleep(600)")
PARENT = ("-c", "import subprocess; subprocess.run(['sleep', '600'])")
"""Its child does not end by a signal to it, and is killed when the time of grace is over."""


@pytest.fixture(name="services", autouse=True)
def _services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    """Give each test its own state directory, and end what it starts over it."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    services = Services(18080)
    yield services
    stop_all()
    for started in services.started:
        started.wait()


def test_make_down_stops_services_and_their_children(services: Services) -> None:
    process = services.start("a sleeper", PARENT)
    while not process.children():
        assert process.is_running()
    child = process.children()[0]

    assert {name: one.pid for name, one in running().items()} == {"a sleeper": process.pid}
    assert stop_all(grace_s=0.1) == ["a sleeper"]

    assert running() == {}
    assert not child.is_running()
    assert stop_all() == []


def test_a_later_process_with_the_same_pid_is_not_stopped() -> None:
    here = psutil.Process()

    assert find(here.pid, here.create_time())
    assert not find(here.pid, here.create_time() - 60)


def test_make_up_names_a_port_that_is_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ServicesError) as refused:
            Services(port).start_all()

    assert str(refused.value) == f"port {port} of 127.0.0.1 is in use [MQDLQ-812]"


def test_a_second_make_up_is_refused(services: Services, tmp_path: Path) -> None:
    services.start("api-server", SLEEP)

    with pytest.raises(ServicesError) as refused:
        up(18080)

    assert str(refused.value) == (
        f"the services already run over {tmp_path} (api-server); `make down` stops them [MQDLQ-814]"
    )


def test_make_down_lists_what_it_stopped(services: Services) -> None:
    process = services.start("a sleeper", SLEEP)
    threading.Thread(target=process.wait, daemon=True).start()  # a shell takes note of its end, too
    command = [sys.executable, "-m", "mqdlq.local.services", "--down"]

    said = [subprocess.check_output(command, text=True) for _ in range(2)]

    assert said == ["stopped a sleeper\n", "nothing was running\n"]
