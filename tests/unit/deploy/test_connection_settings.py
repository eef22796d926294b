"""Test that contradictory connection settings are rejected before connecting, with the reason."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connection_settings import ConnectionSettings

PASSWORD = secrets.token_hex(8)
CLIENT: dict[str, Any] = {"host": "mq.example.com", "channel": "DEV.APP.SVRCONN"}
CCDT = {"ccdt_url": "file:///etc/mqdlq/ccdt.json"}
TLS = {"tls_cipher_spec": "ANY_TLS12_OR_HIGHER", "key_repository": "/etc/mqdlq/keys.p12"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"transport": "pigeon"},
            "unknown transport 'pigeon'; known are client, bindings, embedded",
        ),
        (
            {**CLIENT, "client": "pigeon"},
            "unknown client 'pigeon'; known are pymqi, ibmmq",
        ),
        (
            {**CLIENT, "reconnect": "maybe"},
            "unknown reconnect 'maybe'; known are no, yes, queue_manager",
        ),
        (
            {"host": "mq.example.com"},
            (
                "a client connection to queue manager 'QM1' needs host and channel (or"
                ' "transport": "bindings" or "embedded" in the connection\'s extra)'
            ),
        ),
        (
            {"transport": "bindings", **CLIENT, **TLS, "reconnect": "yes"},
            (
                "transport 'bindings' has no use for host, channel, tls_cipher_spec, key_repository"
                ' and reconnect; leave them out, or use "transport": "client"'
            ),
        ),
        (
            {"transport": "embedded", "channel": "C"},
            (
                "transport 'embedded' has no use for channel; leave it out, or use"
                ' "transport": "client"'
            ),
        ),
        (
            {**CCDT, **CLIENT},
            (
                "ccdt_url is given as well as host and channel, which the CCDT's own entry says;"
                " give one or the other"
            ),
        ),
        (
            {**CCDT, **TLS},
            (
                "ccdt_url is given as well as tls_cipher_spec, which the CCDT's own entry says;"
                " give one or the other"
            ),
        ),
        (
            {**CLIENT, "channel": "A.CHANNEL.WITH.A.LONG.NAME"},
            "channel 'A.CHANNEL.WITH.A.LONG.NAME' has 26 bytes, MQ takes 20",
        ),
        (
            {**CLIENT, "client_user_id": "somebody.else"},
            "client_user_id 'somebody.else' has 13 bytes, MQ takes 12",
        ),
        (
            {**CLIENT, "queue_manager": "*GROUP"},
            (
                "queue_manager '*GROUP' stands for any queue manager of a group; name the one whose"
                " queue the handler reads"
            ),
        ),
        (
            {**CLIENT, "channel": "DEV APP"},
            "channel 'DEV APP' is not an MQ name; use letters, digits and . _ / %",
        ),
        (
            {**CLIENT, "port": 70000},
            "port 70000 is not valid; use 1 to 65535 (MQ's default: 1414)",
        ),
        (
            {**CLIENT, "host": "mq.example.com(1414)"},
            "host: 'mq.example.com(1414)' is not an address; expected, for example, mq.example.com",
        ),
        (
            {**CLIENT, "hosts": ("mq2:(1414)x",)},
            "hosts: 'mq2:(1414)x' is not an address; expected, for example, mq2.example.com(1415)",
        ),
        (
            {**CLIENT, "hosts": ("mq2(99999)",)},
            "hosts: 'mq2(99999)' has no port of 1 to 65535",
        ),
        (
            {**CLIENT, "hosts": tuple(f"mq{number}.example.com" for number in range(12))},
            "host and hosts together have 286 characters, MQ takes 264; use a CCDT (ccdt_url)",
        ),
        (
            {"ccdt_url": "/etc/mqdlq/ccdt.json"},
            (
                "ccdt_url '/etc/mqdlq/ccdt.json' is not the URL of a file; expected something like"
                " file:///etc/mqdlq/ccdt.json or https://mq.example.com/ccdt.json"
            ),
        ),
        (
            {"ccdt_url": f"https://me:{PASSWORD}@mq.example.com/ccdt.json"},
            "ccdt_url holds a user id or a password; a CCDT must be readable without",
        ),
        (
            {**CLIENT, "key_repository": "/etc/mqdlq/keys.p12"},
            (
                "key_repository is given without tls_cipher_spec: the connection would not be"
                " encrypted; give the channel's CipherSpec, such as ANY_TLS12_OR_HIGHER"
            ),
        ),
        (
            {**CLIENT, "tls_cipher_spec": "ANY_TLS12"},
            (
                "tls_cipher_spec 'ANY_TLS12' needs key_repository: the file of the certificates by"
                " which the queue manager is known"
            ),
        ),
        (
            {**CCDT, "certificate_label": "mqdlq"},
            "certificate_label 'mqdlq' needs key_repository: the file that holds the certificate",
        ),
        (
            {**CLIENT, "password": PASSWORD},
            "a password is given without a login; give both, or neither",
        ),
        (
            {**CLIENT, "user": "app"},
            (
                "login 'app' has no password: a user id alone proves nothing; give both, or neither"
                " where the client's certificate says who it is"
            ),
        ),
    ],
)
def test_contradictory_connection_settings_are_rejected(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConnectionSettingsError) as refused:
        ConnectionSettings(**{"queue_manager": "QM1", **given})

    assert str(refused.value) == f"{text} [MQDLQ-105]"


def test_a_password_is_not_in_the_repr_of_connection_settings() -> None:
    settings = ConnectionSettings("QM1", **CLIENT, user="app", password=PASSWORD)

    assert PASSWORD not in repr(settings)


@pytest.mark.parametrize(
    "given",
    [
        CLIENT,
        {**CLIENT, **TLS, "certificate_label": "mqdlq", "reconnect": "queue_manager"},
        {**CLIENT, "hosts": ("::1(1414)", "mq2")},
        {**CCDT, "user": "app", "password": PASSWORD, "key_repository": "/etc/mqdlq/keys.p12"},
        {"transport": "bindings"},
        {"transport": "embedded", "user": "alice"},
    ],
)
def test_valid_connection_settings_are_accepted(given: dict[str, Any]) -> None:
    assert ConnectionSettings("QM1", **given).queue_manager == "QM1"
