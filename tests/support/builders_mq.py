"""Builders for tests that talk to a queue manager through a client library."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

import embedded_mq
from mqdlq.constants import reason_text
from mqdlq.mqi.connect import ConnectionSettings, connect
from tests.support.paths import ROOT


@dataclass
class Application:
    """One connection, as an application written with the client library has it.

    Options are given by name without their prefix: ``app.open("A", "OUTPUT", "INQUIRE")``.
    """

    mqi: Any
    name: str
    handle: Any = None
    user: str = ""

    def __post_init__(self) -> None:
        if self.handle is None:
            self.handle = self.mqi.QueueManager(None)
            # Several in one thread: a handle that is not shared would be the thread's only one.
            shared = self.number("MQCNO_HANDLE_SHARE_BLOCK")
            credentials = {"user": self.user, "password": "secret"} if self.user else {}
            self.handle.connect_with_options(self.name, opts=shared, **credentials)

    def number(self, name: str) -> int:
        return int(getattr(self.mqi.CMQC, name))

    def options(self, family: str, names: tuple[str, ...]) -> int:
        return sum(self.number(f"{family}_{name}") for name in names)

    def open(self, queue: str, *options: str, q_mgr: str = "") -> Any:
        descriptor = self.mqi.OD(ObjectName=queue.encode(), ObjectQMgrName=q_mgr.encode())
        return self.mqi.Queue(self.handle, descriptor, self.options("MQOO", options))

    def md(self, **fields: Any) -> Any:
        return self.mqi.MD(**{"Version": 2, **fields})

    def pmo(self, *options: str, **fields: Any) -> Any:
        return self.mqi.PMO(
            **{"Version": 3, "Options": self.options("MQPMO", options), "PubLevel": 9, **fields}
        )

    def gmo(self, *options: str, **fields: Any) -> Any:
        return self.mqi.GMO(**{"Version": 4, "Options": self.options("MQGMO", options), **fields})

    def put(self, queue: Any, body: bytes = b"body", *options: str, **fields: Any) -> Any:
        """Put a message and return its descriptor; `queue` is open, or a name for MQPUT1."""
        md, pmo = self.md(**fields), self.pmo(*options)
        if isinstance(queue, str):
            self.handle.put1(queue.encode(), body, md, pmo)
        else:
            queue.put(body, md, pmo)
        return md

    def get(self, queue: Any, *options: str, **match: Any) -> tuple[bytes, Any]:
        """Get a message and its descriptor from an open queue; `match` are MQMD fields."""
        md = self.md(**match)
        return queue.get(None, md, self.gmo(*options)), md

    def bodies(self, queue: str) -> list[bytes]:
        """Browse a queue to its end."""
        opened = self.open(queue, "BROWSE")
        found = []
        with self.failing("MQRC_NO_MSG_AVAILABLE"):
            while True:
                found.append(self.get(opened, "BROWSE_NEXT")[0])
        opened.close()
        return found

    def depth(self, queue: str) -> int:
        opened = self.open(queue, "INQUIRE")
        depth = opened.inquire(self.number("MQIA_CURRENT_Q_DEPTH"))
        opened.close()
        return int(depth)

    def failing(self, reason: str) -> pytest.RaisesExc[Any]:
        """Expect the block to end with this reason code."""

        def has_reason(error: Any) -> bool:
            return reason_text(error.reason).split()[0] == reason

        return pytest.raises(self.mqi.MQMIError, check=has_reason)

    def disconnect(self) -> None:
        with suppress(self.mqi.MQMIError, self.mqi.PYIFError):
            self.handle.disconnect()


@dataclass
class World:
    """A queue manager QM1, embedded, and the applications a test connects to it."""

    client: str
    mqi: Any
    boundary: str = "embedded_mq.install()"
    applications: list[Application] = field(default_factory=list)

    def mqsc(self, text: str) -> list[str]:
        return embedded_mq.run_mqsc("QM1", text)

    def connect(self) -> Application:
        application = self._application()
        self.applications.append(application)
        return application

    def connect_as(self, user: str) -> Application:
        application = Application(self.mqi, "QM1", user=user)
        self.applications.append(application)
        return application

    def _application(self) -> Application:
        return Application(self.mqi, "QM1")

    def start(self, script: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program in another process; `mqi` is its client, `app` its connection."""
        preamble = (
            f"import embedded_mq; {self.boundary}\n"
            f"import {self.client} as mqi; from tests.support.builders_mq import Application\n"
            "app = Application(mqi, 'QM1')\n"
        )
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", preamble + script],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, **environment: str) -> tuple[int, str]:
        """Run a program in another process to its end: its exit code and its output."""
        process = self.start(script, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output.strip()

    def close(self) -> None:
        embedded_mq.faults.set("")
        for application in self.applications:
            application.disconnect()


@dataclass
class RealWorld(World):
    """A real queue manager, reached as the settings say; it has the queues of contract/queues.mqsc.

    It has none of what tests marked `embedded_only` need.
    """

    settings: ConnectionSettings = field(kw_only=True)

    def _application(self) -> Application:
        queue_manager = connect(self.settings)
        return Application(self.mqi, queue_manager.name, queue_manager.handle)

    def mqsc(self, text: str) -> list[str]:
        raise AssertionError(f"mark this test embedded_only: it runs {text!r}")

    def start(self, script: str, **environment: str) -> subprocess.Popen[str]:
        raise AssertionError(f"mark this test embedded_only: it runs {script!r} with {environment}")

    def clear(self) -> None:
        application = self.connect()
        for name in ("A", "B"):
            queue = application.open(name, "INPUT_SHARED")
            with application.failing("MQRC_NO_MSG_AVAILABLE"):
                while True:
                    application.get(queue)
        application.disconnect()
