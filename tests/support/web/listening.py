"""Have Airflow's app of a test listen on a port of this machine, for a browser."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from tests.support.web.airflow_app import AirflowApp
from tests.support.web.serve import SignIn

START_S = 30


@contextmanager
def listening(airflow: AirflowApp) -> Iterator[str]:
    """Serve the app from another thread; give its address, which knows ``/as/ROLE``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(SignIn(airflow), port=port, log_level="warning"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started:
        assert thread.is_alive(), "the server ended"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(START_S)
