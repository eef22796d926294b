"""The hook: an Airflow connection becomes settings for a queue manager."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk import Connection

import embedded_mq
from mqdlq.airflow.hooks.ibmmq import MqHook, settings_of
from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.airflow_connections import (
    CONNECTION_TYPE,
    EXTRAS,
    environment_connections,
)
from mqdlq.mqi.connect import ConnectionSettings


def connection(conn_type: str = "ibmmq", **keys: Any) -> Connection:
    extra = keys.pop("extra", {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"})
    return Connection(conn_id="mq", conn_type=conn_type, extra=json.dumps(extra), **keys)


def test_a_connection_of_airflows_own_provider_is_a_client_connection() -> None:
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


def test_the_other_settings_are_in_the_extra() -> None:
    """A field that the form leaves empty is not set, and a list may be text."""
    extra = {
        "queue_manager": "QM1",
        "channel": "DEV.APP.SVRCONN",
        "hosts": "mq2.example.com(1415), mq3.example.com",
        "tls_cipher_spec": "ANY_TLS12_OR_HIGHER",
        "key_repository": "/etc/mqdlq/keys.p12",
        "certificate_label": "mqdlq",
        "client_user_id": "night-shift",
        "reconnect": "yes",
        "ccdt_url": "",
        "client": None,
        "open_options": "MQOO_INPUT_SHARED",
    }

    assert settings_of(connection(host="mq.example.com", extra=extra)) == ConnectionSettings(
        queue_manager="QM1",
        host="mq.example.com",
        channel="DEV.APP.SVRCONN",
        hosts=("mq2.example.com(1415)", "mq3.example.com"),
        tls_cipher_spec="ANY_TLS12_OR_HIGHER",
        key_repository="/etc/mqdlq/keys.p12",
        certificate_label="mqdlq",
        client_user_id="night-shift",
        reconnect="yes",
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            connection(extra={"queue_manager": "QM1", "tls_cipherspec": "ANY_TLS12"}),
            (
                "connection 'mq' has an unknown extra 'tls_cipherspec'; did you mean"
                " tls_cipher_spec? [MQDLQ-103]"
            ),
        ),
        (
            connection(extra={"queue_manager": "QM1", "colour": "blue"}),
            (
                "connection 'mq' has an unknown extra 'colour'; known are queue_manager,"
                " channel, hosts, ccdt_url, tls_cipher_spec, key_repository,"
                " certificate_label, client_user_id, reconnect, client, transport,"
                " directory [MQDLQ-103]"
            ),
        ),
        (
            connection(extra={"queue_manager": 7}),
            "connection 'mq': extra queue_manager is 7, expected text [MQDLQ-104]",
        ),
        (
            connection("http"),
            (
                "connection 'mq' has type 'http'; expected 'mqdlq', or 'ibmmq' of Airflow's"
                " provider for IBM MQ [MQDLQ-101]"
            ),
        ),
        (
            connection(extra={"channel": "C"}),
            (
                "connection 'mq' names no queue manager; add an extra such as"
                ' {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}'
                " [MQDLQ-102]"
            ),
        ),
        (
            connection(extra={"queue_manager": "QM1", "transport": "pigeon"}),
            (
                "connection 'mq': unknown transport 'pigeon'; known are client, bindings,"
                " embedded [MQDLQ-105]"
            ),
        ),
    ],
)
def test_a_connection_with_contradictory_settings_is_refused(given: Connection, text: str) -> None:
    with pytest.raises(ConnectionSettingsError) as refused:
        settings_of(given)

    assert str(refused.value) == text


def test_the_settings_of_a_connection_are_found_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue_manager": "QM7", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ7", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    expected = ConnectionSettings(queue_manager="QM7", transport="embedded")

    assert MqHook("mq7").settings() == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"conn_type": "ibmmq", "host": "mq", "extra": {"queue_manager": "QM1", "channel": "C"}}',
        (
            '{"conn_type": "ibmmq", "port": "1415", "extra": "{\\"queue_manager\\": \\"QM1\\",'
            ' \\"transport\\": \\"bindings\\"}"}'
        ),
        "ibmmq://app:se%40cret@mq.example.com:1415/?queue_manager=QM1&channel=DEV.APP.SVRCONN",
        "mqdlq://mq/?__extra__=%7B%22queue_manager%22%3A+%22QM1%22%2C+%22channel%22%3A+%22C%22%7D",
    ],
)
def test_a_connection_in_the_environment_is_read_without_airflow_as_airflow_reads_it(
    text: str,
) -> None:
    of_airflow = Connection.from_json if text.startswith("{") else Connection.from_uri

    (found,) = environment_connections({"AIRFLOW_CONN_MQ7": text, "AIRFLOW_CONN_DB": "a://b"})

    assert found.settings() == settings_of(of_airflow(text, conn_id="mq7"))
    assert found.conn_id == "mq7"


def test_airflow_knows_the_connection_form_and_its_test_button() -> None:
    """Each field of the form is an extra the hook reads, and the other way round."""
    providers = ProvidersManager()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hook = providers.hooks[CONNECTION_TYPE]
        fields = [
            name.removeprefix("extra__mqdlq__")
            for name in providers.connection_form_widgets
            if name.startswith("extra__mqdlq__")
        ]

    assert hook is not None
    assert (hook.hook_class_name, hook.connection_testable) == (
        "mqdlq.airflow.hooks.ibmmq.MqHook",
        True,
    )
    assert sorted(fields) == sorted(EXTRAS)
    assert providers.field_behaviours[CONNECTION_TYPE]["hidden_fields"] == ["schema"]


AUTHORITIES = """
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)
SET AUTHREC PROFILE(DLQ) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(INQ,BROWSE)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
"""


@pytest.fixture(name="test")
def _test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[bool, str]]:
    """Return Airflow's own test of a connection to an embedded queue manager, by user."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc(
        "QM1", "ALTER QMGR DEADQ(DLQ); DEFINE QLOCAL(DLQ); DEFINE QLOCAL(MQDLQ.STATE)"
    )

    def test(user: str, name: str = "QM1", **extra: str) -> tuple[bool, str]:
        found = {"queue_manager": name, "transport": "embedded", "client": "ibmmq", **extra}
        held = {"conn_type": "ibmmq", "login": user, "extra": found}
        monkeypatch.setenv("AIRFLOW_CONN_TESTED", json.dumps(held))
        return MqHook("tested").test_connection()

    return test


def test_the_connection_test_succeeds_if_no_authority_is_missing(
    test: Callable[..., tuple[bool, str]],
) -> None:
    assert test("alice") == (
        True,
        (
            "connected to queue manager QM1 through ibmmq as user alice\n"
            "sense: no authority is missing\n"
            "dry run: no authority is missing\n"
            "execution: no authority is missing"
        ),
    )


def test_the_connection_test_names_each_missing_authority_with_its_object(
    test: Callable[..., tuple[bool, str]],
) -> None:
    embedded_mq.run_mqsc("QM1", AUTHORITIES)

    assert test("alice") == (
        True,
        (
            "connected to queue manager QM1 through ibmmq as user alice\n"
            "sense: no authority is missing\n"
            "dry run: no authority is missing\n"
            "execution: MQRC_NOT_AUTHORIZED (2035): user alice lacks +get on queue DLQ"
            " (SET AUTHREC PROFILE('DLQ') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET));"
            " MQRC_NOT_AUTHORIZED (2035): user alice lacks +browse +get +put on queue MQDLQ.STATE"
            " (SET AUTHREC PROFILE('MQDLQ.STATE') OBJTYPE(QUEUE) PRINCIPAL('alice')"
            " AUTHADD(BROWSE,GET,PUT))"
        ),
    )
    assert test("bob") == (
        False,
        (
            "connected to queue manager QM1 through ibmmq as user bob\n"
            "sense: MQRC_NOT_AUTHORIZED (2035): user bob lacks +inq on queue manager QM1"
            " (SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(INQ))\n"
            "dry run: needs what is missing above\n"
            "execution: needs what is missing above"
        ),
    )


def test_the_connection_test_says_where_to_look_if_mqconn_is_refused(
    test: Callable[..., tuple[bool, str]],
) -> None:
    embedded_mq.run_mqsc("QM1", AUTHORITIES)

    assert test("carol") == (
        False,
        (
            "MQCONN of queue manager QM1 failed: MQRC_NOT_AUTHORIZED (2035): user carol lacks"
            " +connect or +inq on the queue manager, or the login was refused (CONNAUTH, CHLAUTH;"
            " the queue manager's AMQERR01.LOG says which) [MQDLQ-100]"
        ),
    )
    assert test("alice", "QM9") == (
        False,
        (
            "MQCONN of queue manager QM9 failed: MQRC_Q_MGR_NAME_ERROR (2058): no queue manager of"
            " that name is there; is queue_manager right? [MQDLQ-100]"
        ),
    )
    assert test("alice", channel="C") == (
        False,
        (
            "connection 'tested': transport 'embedded' has no use for channel; leave it out, or use"
            ' "transport": "client" [MQDLQ-105]'
        ),
    )
