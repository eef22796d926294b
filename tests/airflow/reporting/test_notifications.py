"""Notifiers of Airflow's own and of ours, against servers that take what they send."""

from __future__ import annotations

import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mqdlq.airflow.notifications import notifier_class, notify
from mqdlq.airflow.operators.stages import Report
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import Event
from mqdlq.ledger.tables import Run
from mqdlq.reading.alerts import Alert
from mqdlq.reading.report.files import write_report
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

ALERT = Alert(
    Event.NEW_CAUSE, "demo: first MQRC_Q_FULL (2053) (DLQ @ QM1)", "3 messages: 3 handled."
)
WEBHOOK = "mqdlq.airflow.notifications.WebhookNotifier"
SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"


def handler(*notifications: dict[str, Any]) -> Handler:
    return Handler.model_validate(
        {
            "name": "demo",
            "directory": Path(),
            "connection": "mq",
            "rules": "demo.rules",
            "alerts": {"notify": notifications},
        }
    )


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Receiver(HTTPServer):
    """A web server that keeps what is posted to it."""

    status = 204
    answer = b""

    def __init__(self) -> None:
        self.got: list[tuple[str, str | None, Any]] = []
        super().__init__(("127.0.0.1", 0), _Post)


class _Post(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(self.server.answer)

    def do_GET(self) -> None:
        self.server.got.append((self.path, self.headers["Authorization"], None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        del words


class MailServer(socketserver.TCPServer):
    """A mail server that keeps the messages it is given: as much of SMTP as one message needs."""

    allow_reuse_address = True

    def __init__(self) -> None:
        self.got: list[str] = []
        super().__init__(("127.0.0.1", 0), _Mail)


class _Mail(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            if verb == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.got.append(mail.decode())
            self.wfile.write(b"250 fine\r\n")


def webhook(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {
        "conn_type": "http",
        "schema": "http",
        "host": "127.0.0.1",
        "port": server.server_port,
        "password": "a-long-token",
        "extra": {"endpoint": "hooks/mq"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_HOOK", json.dumps(connection))


@pytest.mark.parametrize(
    ("event", "path"),
    [(Event.NEW_CAUSE, "?handler=demo"), (Event.APPROVAL, "dags/mq_dlq_demo/runs/demo-1")],
)
def test_the_text_of_an_alert_ends_with_the_address_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch, event: Event, path: str
) -> None:
    address = "https://airflow.example.com"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{address}/")
    server = Receiver()
    webhook(server, monkeypatch)
    called = handler({"notifier": WEBHOOK, "arguments": {"conn_id": "hook"}})
    with serving(server):
        notify(called, [replace(ALERT, event=event)], {}, "demo-1")

    assert server.got[0][2]["text"].splitlines()[-1] == f"{address}/mqdlq/{path}"


def test_a_webhook_gets_the_title_and_text_of_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Receiver()
    webhook(server, monkeypatch)
    with serving(server):
        told = notify(
            handler({"notifier": WEBHOOK, "arguments": {"conn_id": "hook"}}), [ALERT], {}, "demo-1"
        )

    assert told == ["new_cause"]
    assert server.got == [
        (
            "/hooks/mq",
            "Bearer a-long-token",
            {"event": "new_cause", "text": f"{ALERT.title}\n{ALERT.text}"},
        )
    ]


@pytest.mark.parametrize("status", [301, 302, 307, 403, 500])
def test_a_webhook_that_answers_with_an_error_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    server = Receiver()
    server.status = status
    webhook(server, monkeypatch)
    with serving(server):
        told = notify(
            handler({"notifier": WEBHOOK, "arguments": {"conn_id": "hook"}}), [ALERT], {}, "demo-1"
        )

    assert told == []
    assert [path for path, *_ in server.got] == ["/hooks/mq"]


def test_airflows_mail_notifier_sends_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MailServer()
    connection = {
        "conn_type": "smtp",
        "host": "127.0.0.1",
        "port": server.server_address[1],
        "extra": {"disable_ssl": True, "disable_tls": True, "from_email": "mq@example.com"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
    arguments = {
        "to": "ops@example.com",
        "from_email": "mq@example.com",
        "subject": "{{ alert.title }}",
        "html_content": "<pre>{{ alert.text }}</pre>",
    }
    with serving(server):
        told = notify(handler({"notifier": SMTP, "arguments": arguments}), [ALERT], {}, "demo-1")

    assert told == ["new_cause"]
    (mail,) = server.got
    assert f"Subject: {ALERT.title}" in mail
    assert "To: ops@example.com" in mail


def test_a_notifier_gets_only_the_events_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Receiver()
    webhook(server, monkeypatch)
    only = {"notifier": WEBHOOK, "events": ["failed"], "arguments": {"conn_id": "hook"}}
    with serving(server):
        notify(handler(only), [ALERT], {}, "demo-1")

    assert server.got == []


def test_a_failing_notifier_is_logged_and_the_others_are_called(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Receiver()
    webhook(server, monkeypatch)
    broken = {"notifier": WEBHOOK, "arguments": {"conn_id": "nowhere"}}
    works = {"notifier": WEBHOOK, "arguments": {"conn_id": "hook"}}
    with serving(server), caplog.at_level(logging.ERROR):
        told = notify(handler(broken, works), [ALERT], {}, "demo-1")

    assert told == []  # so that it is sent again when the task runs again
    assert len(server.got) == 1
    assert f"{WEBHOOK} could not send the alert new_cause [MQDLQ-805]" in caplog.text


def test_the_next_run_sends_an_alert_that_no_notifier_received(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    (tmp_path / "demo.yaml").write_text(
        "connection: mq\nrules: demo.rules\nalerts: {notify: [{notifier: "
        f"{WEBHOOK}, events: [unprocessable, recovery], arguments: {{conn_id: hook}}}}]}}\n"
    )
    world.put("DLQ", b"no dead letter")
    server = Receiver()
    told = []
    with serving(server):
        for _ in range(3):
            world.clock.now += timedelta(hours=1)
            execution = world.plan("WAIT(NO)\nACTION(IGNORE)\n")
            make_pass(execution)
            settle(execution)
            tell(world, execution.run)
            told.append(len(server.got))
            webhook(server, monkeypatch)  # which the first run has had no connection for

    assert told == [0, 1, 1]


def tell(world: World, run: Run) -> None:
    """Send the alerts of a run as its report does."""
    report = Report(task_id="report", handler="demo")
    files = write_report(
        run.run_id, ledger=world.ledger, lake_root=world.lake_root, stages={}, clock=world.clock
    )
    report._conclude(run, files, {}, world.ledger)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no.such.Notifier", "alerts.notify: no.such.Notifier cannot be imported: "),
        ("json.JSONDecoder", "alerts.notify: json.JSONDecoder is not an Airflow notifier"),
    ],
)
def test_a_class_that_is_not_a_notifier_is_refused(path: str, text: str) -> None:
    with pytest.raises(HandlerError) as refused:
        notifier_class(path)

    assert str(refused.value).startswith(text)
