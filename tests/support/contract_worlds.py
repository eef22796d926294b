"""Embedded and real queue managers for the contract tests."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import embedded_mq
from embedded_mq_tests.builders import Application
from mqdlq.mqi.client import Client
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from tests.support.paths import ROOT


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

    def queue_manager(self) -> QueueManager:
        """Connect as the product does."""
        application = self.connect()
        client = Client(self.client, self.mqi)
        return QueueManager(client, application.handle, application.name)

    def start(self, script: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program in another process; `mqi` is its client, `app` its connection."""
        preamble = (
            f"import embedded_mq; {self.boundary}\n"
            f"import {self.client} as mqi; from embedded_mq_tests.builders import Application\n"
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
        """Run a program in another process to its end; return its exit code and its output."""
        process = self.start(script, **environment)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output.strip()

    def close(self) -> None:
        embedded_mq.faults.set("")
        for application in self.applications:
            application.disconnect()


@dataclass
class RealWorld(World):
    """A real queue manager with the queues of contract/queues.mqsc.

    It does not support tests marked `embedded_only`.
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
