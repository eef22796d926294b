"""An outage: a queue was full for an hour, and its messages are dead letters of one cause."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

from mqdlq.headers import DeadLetterHeader
from tests.e2e.running.place import CONNECTION
from tests.e2e.running.services import Airflow, airflow, now
from tests.support.world import DEFINITIONS, World

HANDLER: Final = "payments"
CAUSE: Final = "MQRC_Q_FULL (2053)"
_DEEP: Final = "".join(f"ALTER QLOCAL({queue}) MAXDEPTH(999999)\n" for queue in ("DLQ", "PAYMENTS"))
_RULES: Final = "WAIT(NO) RETRYINT(2)\nDESTQ(QUOTES) ACTION(DISCARD)\n"
_KEYS: Final = """\
connection: mq_outage
rules: payments.rules
approval: {messages: 500}
alerts:
  growth: 100
  notify:
    - notifier: mqdlq.airflow.notifications.WebhookNotifier
      arguments: {conn_id: chat}
"""
_AT_ONCE: Final = 1000


class Outage:
    """The queue manager of an outage, with a handler whose rules say nothing of its messages."""

    def __init__(self, directory: Path, *, messages: int, ramp: str) -> None:
        self.world = World(directory, definitions=DEFINITIONS + _DEEP)
        self.messages = messages
        self.alerts: list[dict[str, Any]] = []
        rules = directory / "rules"
        rules.mkdir(exist_ok=True)
        (rules / f"{HANDLER}.rules").write_text(_RULES)
        (rules / f"{HANDLER}.yaml").write_text(f"{_KEYS}ramp: {ramp}\n")

    def fill(self) -> None:
        """Put the messages, dead-lettered evenly through the last hour, each with its number."""
        until = now() - timedelta(minutes=2)
        with self.world.connect() as queue_manager:
            module, constants = queue_manager.client.module, queue_manager.client.CMQC
            queue = queue_manager.open(
                "DLQ", constants.MQOO_OUTPUT | constants.MQOO_SET_ALL_CONTEXT
            )
            options = constants.MQPMO_SYNCPOINT | constants.MQPMO_SET_ALL_CONTEXT
            for number in range(self.messages):
                at = until - timedelta(hours=1) * (1 - number / self.messages)
                fields = _fields(at) | {"Persistence": constants.MQPER_PERSISTENT}
                application = b"payd-eu" if number % 3 else b"payd-us"
                descriptor = module.MD(**fields, PutApplName=application)
                body = _header("PAYMENTS", at) + _body(number)
                queue.put(body, descriptor, module.PMO(Options=options))
                if number % _AT_ONCE == _AT_ONCE - 1:
                    queue_manager.handle.commit()
            queue_manager.handle.commit()
            queue.close()

    def put(self, dest_q: str) -> None:
        """Put a message that was dead-lettered now, of a cause that each destination has."""
        self.world.put("DLQ", _header(dest_q, now()) + dest_q.encode(), **_fields(now()))

    def depth(self, queue: str) -> int:
        with self.world.connect() as queue_manager:
            return queue_manager.depth(queue)

    def check_delivered(self) -> None:
        """Check that each message is on its destination once, and none on the dead-letter queue."""
        assert (self.depth("DLQ"), self.depth("PAYMENTS")) == (0, self.messages)
        bodies = self.world.bodies("PAYMENTS")
        assert sorted(bodies) == [_body(number) for number in range(self.messages)]


def _header(dest_q: str, at: datetime) -> bytes:
    date, time = f"{at:%Y%m%d}", f"{at:%H%M%S}00"
    header = DeadLetterHeader(2053, dest_q, "QM1", 546, 819, "MQSTR", 6, "amqrmppa", date, time)
    return header.encode(encoding=546, ccsid=819)


def _fields(at: datetime) -> dict[str, Any]:
    put = {"PutDate": f"{at:%Y%m%d}".encode(), "PutTime": f"{at:%H%M%S}00".encode()}
    return {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819, **put}


def _body(number: int) -> bytes:
    return b"PMT-%08d" % number


@contextmanager
def outage(
    directory: Path, *, messages: int, ramp: str = "{steps: [1, 100], watch: PT10S}", **more: str
) -> Iterator[tuple[Outage, Airflow]]:
    """Run Airflow over an outage, whose `alerts` are those that a chat gets by a webhook."""
    found = Outage(directory, messages=messages, ramp=ramp)
    with _chat(found.alerts) as port:
        chat = {"conn_type": "http", "schema": "http", "host": "127.0.0.1", "port": port}
        with airflow(
            directory,
            AIRFLOW_CONN_MQ_OUTAGE=CONNECTION,
            AIRFLOW_CONN_CHAT=json.dumps(chat),
            AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
            **more,
        ) as running:
            running.wait_for_dag(HANDLER)
            yield found, running
    found.world.ledger.close()


@contextmanager
def _chat(alerts: list[dict[str, Any]]) -> Iterator[int]:
    """Serve a webhook that adds what it gets to the alerts; yield its port."""

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            alerts.append(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
