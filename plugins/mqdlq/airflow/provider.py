"""Describe the connection type `ibmmq` and its form for Airflow's providers manager.

Found by the entry point `apache_airflow_provider` in pyproject.toml.
"""

from __future__ import annotations

from typing import Any

from mqdlq.mqi.client import CLIENT_NAMES
from mqdlq.mqi.connection_settings import LENGTHS, RECONNECT, TRANSPORTS


def provider_info() -> dict[str, Any]:
    """Describe the connection's form; what is typed into it is checked by `hook.settings_of`."""
    return {
        "package-name": "mqdlq",
        "name": "mqdlq",
        "description": "A dead-letter queue handler for IBM MQ.",
        "connection-types": [
            {
                "connection-type": "ibmmq",
                "hook-class-name": "mqdlq.airflow.hooks.ibmmq.MqHook",
                "hook-name": "IBM MQ",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {},
                    "placeholders": {
                        "host": "mq.example.com",
                        "port": "1414",
                        "login": "app",
                    },
                },
                "conn-fields": _fields(),
            }
        ],
    }


def _fields() -> dict[str, Any]:
    return {
        "queue_manager": _text(
            "Queue manager", "Its name, such as QM1. Always needed.", "queue_manager"
        ),
        "channel": _text(
            "Channel", "The server-connection channel, such as DEV.APP.SVRCONN.", "channel"
        ),
        "hosts": _text(
            "Further hosts",
            "Other addresses of the same queue manager, tried in order:"
            " mq2.example.com(1415), mq3.example.com",
        ),
        "ccdt_url": _text(
            "CCDT URL",
            "A client channel definition table, in place of host and channel (ibmmq only).",
        ),
        "tls_cipher_spec": _text(
            "TLS CipherSpec",
            "That of the channel, such as ANY_TLS12_OR_HIGHER; needs a key repository.",
            "tls_cipher_spec",
        ),
        "key_repository": _text(
            "Key repository",
            "Path of the certificates' file on the workers; its password is stashed beside it.",
            "key_repository",
        ),
        "certificate_label": _text(
            "Certificate label", "Which certificate of it is the client's.", "certificate_label"
        ),
        "client_user_id": _text(
            "Client user id",
            "A user id for the channel's exits; it proves nothing, unlike login and password.",
            "client_user_id",
        ),
        "reconnect": _choice(
            "Reconnect",
            "Whether sensing may reconnect by itself; browsing and executing never do.",
            RECONNECT,
            "no",
        ),
        "client": _choice(
            "Client library", "pymqi where it is installed, unless named.", CLIENT_NAMES, None
        ),
        "transport": _choice(
            "Transport",
            "client: TCP; bindings: same machine; embedded: the project's own queue manager.",
            TRANSPORTS,
            "client",
        ),
        "directory": _text(
            "Directory",
            "For transport embedded: of its queue managers; in MQDLQ_HOME unless named.",
        ),
    }


def _text(label: str, description: str, name: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if name:
        schema["maxLength"] = LENGTHS[name]
    return {"label": label, "description": description, "schema": schema}


def _choice(
    label: str, description: str, values: tuple[str, ...], default: str | None
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"], "enum": [*values]}
    if default is not None:
        schema["default"] = default
    return {"label": label, "description": description, "schema": schema}
