"""The notifiers of Airflow in docs/how-to/monitor.md send as the page has it, to servers here."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pagerduty
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mqdlq.airflow.notifications import notify
from mqdlq.handlers.operation import Event
from mqdlq.reading.alerts import Alert
from tests.airflow.reporting.test_notifications import Receiver, handler, serving
from tests.support.paths import ROOT
from tests.support.world import NOON

FAILED = Alert(Event.FAILED, "demo: the run failed (DLQ @ QM1)", "3 messages: 3 not attempted.")
OVER = Alert(Event.RECOVERY, "demo: over: failed (DLQ @ QM1)", "3 messages: 3 handled.")


def documented(service: str) -> dict[str, Any]:
    """Return the notification of a service on the page."""
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"(?s)```yaml\n(.*?)```", page)]
    examples = blocks[1]["alerts"]["notify"]
    (found,) = (one for one in examples if f".{service}." in one["notifier"])
    return dict(found)


def send(service: str, *alerts: Alert) -> list[Event]:
    return notify(handler(documented(service)), alerts, {}, "demo-1")


@pytest.fixture(name="server")
def _server() -> Iterator[Receiver]:
    server = Receiver()
    server.status = 202
    server.answer = b'{"status": "success", "dedup_key": "mqdlq demo", "requestId": "1", "took": 0}'
    with serving(server):
        yield server


def connect(patch: pytest.MonkeyPatch, conn_id: str, text: str) -> None:
    patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)


def test_slack_gets_title_and_text(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    server.status, server.answer = 200, b"ok"
    address = f"http://127.0.0.1:{server.server_port}/services"
    connect(
        monkeypatch,
        "slack",
        f'{{"conn_type": "slackwebhook", "host": "{address}", "password": "T0/B0/key"}}',
    )

    send("slack", FAILED)

    ((path, _, body),) = server.got
    assert path == "/services/T0/B0/key"
    assert body["text"] == f"*{FAILED.title}*\n{FAILED.text}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # modules that Apprise imports
@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_teams_gets_a_card(
    server: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Apprise posts to workflows of Power Automate over TLS only."""
    secure(server, tmp_path)
    path = f"workflows://127.0.0.1:{server.server_port}/{'ab' * 16}/{'s' * 43}/?verify=no"
    config = f'{{"config": {{"path": "{path}", "tag": "teams"}}}}'
    connect(monkeypatch, "teams", f'{{"conn_type": "apprise", "extra": {config}}}')

    assert send("apprise", FAILED) == [Event.FAILED]

    ((path, _, body),) = server.got
    assert f"/workflows/{'ab' * 16}/" in path
    assert body["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert FAILED.title in str(body)
    assert FAILED.text.rstrip(".") in str(body)  # Apprise escapes the full stop


def secure(server: Receiver, directory: Path) -> Path:
    """Let a server speak TLS; return its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(NOON - timedelta(days=3650)).add_extension(here, critical=False)
    signed = built.not_valid_after(NOON + timedelta(days=3650)).sign(key, hashes.SHA256())
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(pem, form, serialization.NoEncryption())
    (directory / "server.pem").write_bytes(secret + signed.public_bytes(pem))
    (directory / "certificate.pem").write_bytes(signed.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return directory / "certificate.pem"


def test_pagerduty_resolves_at_the_recovery_what_an_event_has_triggered(
    server: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure(server, tmp_path)))
    address = f"https://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(pagerduty.EventsApiV2Client, "default_base_url", address)
    connect(monkeypatch, "pagerduty", '{"conn_type": "pagerduty_events", "password": "key"}')

    send("pagerduty", FAILED, OVER)

    bodies = [body for _, _, body in server.got]
    assert [(one["event_action"], one["dedup_key"]) for one in bodies] == [
        ("trigger", "mqdlq demo"),
        ("resolve", "mqdlq demo"),
    ]
    assert bodies[0]["payload"]["summary"] == FAILED.title


def test_opsgenie_gets_an_alert(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{server.server_port}"
    connection = f'{{"conn_type": "opsgenie", "host": "{address}", "password": "key"}}'
    connect(monkeypatch, "opsgenie", connection)

    assert send("opsgenie", FAILED) == [Event.FAILED]

    ((path, key, body),) = server.got
    assert (path, key) == ("/v2/alerts", "GenieKey key")
    assert (body["message"], body["description"]) == (FAILED.title, FAILED.text)
    assert body["alias"] == "mqdlq demo failed"
