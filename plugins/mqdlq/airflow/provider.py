"""Describe the connection type `ibmmq` and its form for Airflow's providers manager.

Found by the entry point `apache_airflow_provider` in pyproject.toml.
"""

from typing import Any, Final

from mqdlq.mqi.client import CLIENT_NAMES
from mqdlq.mqi.connection_settings import LENGTHS, RECONNECT, TRANSPORTS

_FIELDS: Final = {
    "queue_manager": "Queue manager: Its name, such as QM1. Always needed.",
    "channel": "Channel: The server-connection channel, such as DEV.APP.SVRCONN.",
    "hosts": "Further hosts: Other addresses of the same queue manager, tried in order:"
    " mq2.example.com(1415), mq3.example.com",
    "ccdt_url": "CCDT URL: A client channel definition table, in place of host and channel"
    " (ibmmq only).",
    "tls_cipher_spec": "TLS CipherSpec: That of the channel, such as ANY_TLS12_OR_HIGHER; needs a"
    " key repository.",
    "key_repository": "Key repository: Path of the certificates' file on the workers; its password"
    " is stashed beside it.",
    "certificate_label": "Certificate label: Which certificate of it is the client's.",
    "client_user_id": "Client user id: A user id for the channel's exits; it proves nothing, unlike"
    " login and password.",
    "reconnect": "Reconnect: Whether sensing may reconnect by itself; browsing and executing never"
    " do.",
    "client": "Client library: pymqi where it is installed, unless named.",
    "transport": "Transport: client: TCP; bindings: same machine; embedded: the project's own queue"
    " manager.",
    "directory": "Directory: For transport embedded: of its queue managers; in MQDLQ_HOME unless"
    " named.",
}
"""The label of each field, and its description, in the order of the form."""

_CHOICES: Final[dict[str, dict[str, Any]]] = {
    "reconnect": {"enum": [*RECONNECT], "default": "no"},
    "client": {"enum": [*CLIENT_NAMES]},
    "transport": {"enum": [*TRANSPORTS], "default": "client"},
}


def provider_info() -> dict[str, Any]:
    """Describe the connection's form; what is typed into it is checked by `hook.settings_of`."""
    fields = {}
    for name, text in _FIELDS.items():
        label, _, description = text.partition(": ")
        most = {"maxLength": LENGTHS[name]} if name in LENGTHS else {}
        schema = {"type": ["string", "null"], **most, **_CHOICES.get(name, {})}
        fields[name] = {"label": label, "description": description, "schema": schema}
    behaviour = {
        "hidden-fields": ["schema"],
        "relabeling": {},
        "placeholders": {"host": "mq.example.com", "port": "1414", "login": "app"},
    }
    return {
        "package-name": "mqdlq",
        "name": "mqdlq",
        "description": "A dead-letter queue handler for IBM MQ.",
        "connection-types": [
            {
                "connection-type": "ibmmq",
                "hook-class-name": "mqdlq.airflow.hooks.ibmmq.MqHook",
                "hook-name": "IBM MQ",
                "ui-field-behaviour": behaviour,
                "conn-fields": fields,
            }
        ],
    }
