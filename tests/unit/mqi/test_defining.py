"""Define Airflow connections from options, MQSERVER and CCDTs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.airflow_connections import define_connection

MQSERVER = "DLQ.SVRCONN/TCP/mq1.example.com(1415),mq2.example.com"


def ccdt(directory: Path) -> Path:
    """Write a CCDT with a channel for each of two queue managers."""
    path = directory / "ccdt.json"
    entries = [
        {
            "name": f"DLQ.{name}",
            "type": "clientConnection",
            "clientConnection": {"connection": [{"host": name.lower()}], "queueManager": name},
            "transmissionSecurity": {"cipherSpecification": cipher},
        }
        for name, cipher in (("QM1", ""), ("QM2", "ANY_TLS12_OR_HIGHER"))
    ]
    path.write_text(json.dumps({"channel": entries}), encoding="utf-8")
    return path


def failure(conn_id: str = "mq_qm1", **given: Any) -> str:
    sources = {key: given.pop(key) for key in ("mqserver", "ccdt") if key in given}
    with pytest.raises(ConnectionSettingsError) as caught:
        define_connection(conn_id, given, **sources)
    return str(caught.value)


def test_options_are_fields_and_extras_of_the_connection() -> None:
    defined = define_connection(
        "mq_qm1",
        {
            "queue_manager": "QM1",
            "host": "mq1.example.com",
            "port": 0,
            "hosts": "mq2.example.com(1415)",
            "channel": "DLQ.SVRCONN",
            "user": "dlq",
            "client": "ibmmq",
            "ccdt_url": "",
            "reconnect": None,
        },
    )

    assert defined.document() == {
        "conn_type": "mqdlq",
        "host": "mq1.example.com",
        "login": "dlq",
        "extra": {
            "queue_manager": "QM1",
            "channel": "DLQ.SVRCONN",
            "hosts": "mq2.example.com(1415)",
            "client": "ibmmq",
        },
    }
    assert defined.variable == "AIRFLOW_CONN_MQ_QM1"


def test_mqserver_gives_channel_and_addresses() -> None:
    defined = define_connection("mq_qm1", {"queue_manager": "QM1"}, mqserver=MQSERVER)

    assert defined.document() == {
        "conn_type": "mqdlq",
        "host": "mq1.example.com",
        "port": 1415,
        "extra": {
            "queue_manager": "QM1",
            "channel": "DLQ.SVRCONN",
            "hosts": "mq2.example.com(1414)",
        },
    }
    assert defined.settings().connection_name == "mq1.example.com(1415),mq2.example.com(1414)"


def test_a_ccdt_gives_the_queue_manager_of_the_channel(tmp_path: Path) -> None:
    options = {"channel": "DLQ.QM2", "key_repository": "/etc/mqdlq/keys.kdb"}

    defined = define_connection("mq_qm2", options, ccdt=ccdt(tmp_path))

    assert defined.document() == {
        "conn_type": "mqdlq",
        "host": "qm2",
        "port": 1414,
        "extra": {
            "queue_manager": "QM2",
            "channel": "DLQ.QM2",
            "tls_cipher_spec": "ANY_TLS12_OR_HIGHER",
            "key_repository": "/etc/mqdlq/keys.kdb",
        },
    }


def test_the_password_is_not_in_the_document() -> None:
    defined = define_connection("mq", {"queue_manager": "QM1", "transport": "bindings"})

    assert "password" not in defined.document()
    assert defined.password == ""


@pytest.mark.parametrize("conn_id", ["", "mq qm1", "mq/qm1", "m" * 201, "mq\n"])
def test_an_invalid_id_is_rejected(conn_id: str) -> None:
    assert failure(conn_id, queue_manager="QM1") == (
        f"{conn_id!r} is not a connection id; use up to 200 letters, digits and . _ - [MQDLQ-145]"
    )


def test_a_connection_needs_a_queue_manager() -> None:
    assert failure(mqserver=MQSERVER) == (
        "connection 'mq_qm1' names no queue manager; give --queue-manager [MQDLQ-146]"
    )


def test_two_sources_of_one_setting_are_rejected(tmp_path: Path) -> None:
    end = " name different channels or settings; give one of them [MQDLQ-147]"

    assert failure(mqserver=MQSERVER, ccdt=ccdt(tmp_path)) == f"--mqserver and --ccdt{end}"
    assert failure(mqserver=MQSERVER, host="mq3") == f"--mqserver and --host{end}"
    assert failure(mqserver=MQSERVER, port=1416) == f"--mqserver and --port{end}"
    assert failure(ccdt=ccdt(tmp_path), channel="DLQ.QM1", port=1) == f"--ccdt and --port{end}"


def test_settings_that_cannot_work_are_rejected_as_for_every_connection(tmp_path: Path) -> None:
    assert failure(queue_manager="QM1") == (
        "connection 'mq_qm1': a client connection to queue manager 'QM1' needs host and channel (or"
        ' "transport": "bindings" or "embedded" in the connection\'s extra) [MQDLQ-105]'
    )
    assert failure(ccdt=ccdt(tmp_path), queue_manager="QM2") == (
        "connection 'mq_qm1': tls_cipher_spec 'ANY_TLS12_OR_HIGHER' needs key_repository: the file"
        " of the certificates by which the queue manager is known [MQDLQ-105]"
    )
    assert failure(mqserver="MY CHANNEL/TCP/mq1", queue_manager="QM1") == (
        "connection 'mq_qm1': channel 'MY CHANNEL' is not an MQ name; use letters, digits and"
        " . _ / % [MQDLQ-105]"
    )
