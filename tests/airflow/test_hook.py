"""The hook: an Airflow connection becomes settings for a queue manager."""

from __future__ import annotations

import asyncio
import json
import secrets

import pytest
from airflow.sdk import Connection

from mqdlq.airflow.hook import MqHook, settings_of
from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connect import ConnectionSettings


def connection(conn_type: str = "ibmmq", **keys: object) -> Connection:
    extra = keys.pop("extra", {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"})
    return Connection(conn_id="mq", conn_type=conn_type, extra=json.dumps(extra), **keys)


def test_a_connection_as_the_official_provider_has_it_is_a_client_connection() -> None:
    password = secrets.token_hex(4)

    found = settings_of(
        connection(host="mq.example.com", port=1415, login="app", password=password)
    )

    assert found == ConnectionSettings(
        queue_manager="QM1",
        transport="client",
        host="mq.example.com",
        port=1415,
        channel="DEV.APP.SVRCONN",
        user="app",
        password=password,
    )


def test_transport_and_client_are_named_in_the_extra() -> None:
    extra = {"queue_manager": "QM1", "transport": "embedded", "client": "ibmmq"}

    assert settings_of(connection(extra=extra)) == ConnectionSettings(
        queue_manager="QM1", transport="embedded", client="ibmmq"
    )


def test_the_port_is_1414_unless_named() -> None:
    assert settings_of(connection(host="mq.example.com")).port == 1414


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (connection("http"), "connection 'mq' has type 'http', expected 'ibmmq'"),
        (
            connection(extra={"channel": "C"}),
            (
                "connection 'mq' names no queue manager; expected an extra such as"
                ' {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}'
            ),
        ),
        (
            connection(extra={"queue_manager": "QM1", "transport": "pigeon"}),
            "connection 'mq': unknown transport 'pigeon'; known are client, bindings, embedded",
        ),
    ],
)
def test_a_connection_that_cannot_work_is_refused(given: Connection, text: str) -> None:
    with pytest.raises(ConnectionSettingsError) as refused:
        settings_of(given)

    assert str(refused.value) == text


def test_a_connection_is_found_in_tasks_and_in_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue_manager": "QM7", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ7", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    expected = ConnectionSettings(queue_manager="QM7", transport="embedded")

    assert MqHook("mq7").settings() == expected
    assert asyncio.run(MqHook("mq7").async_settings()) == expected
