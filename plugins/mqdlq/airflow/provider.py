"""Describe to Airflow's providers manager what the package has, and the form of its connections.

Found by the entry point `apache_airflow_provider` in pyproject.toml.
"""

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, Final

from mqdlq.directories import OPTIONS
from mqdlq.mqi.airflow_connections import CONNECTION_TYPE, SHARED_TYPE
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


_NAME: Final = "mqdlq"
_MODULES: Final = {
    "hooks": ("hooks.ibmmq",),
    "operators": ("operators.stages", "operators.restore", "operators.submit"),
    "triggers": ("triggers.arrival", "triggers.waiting"),
    "bundles": ("dags.bundle",),
}
"""The modules of `mqdlq.airflow` that people may look for, by what they have."""


def provider_info() -> dict[str, Any]:
    """Describe the package; what is typed into the form is checked by `hooks.settings_of`."""
    modules = {
        kind: [
            {
                "integration-name": _NAME,
                "python-modules": [f"mqdlq.airflow.{name}" for name in names],
            }
        ]
        for kind, names in _MODULES.items()
    }
    integration = {
        "integration-name": _NAME,
        "external-doc-url": "https://www.ibm.com/docs/en/ibm-mq",
        "tags": ["software"],
    }
    types = [_connection_type(CONNECTION_TYPE, "MqHook", "IBM MQ (mqdlq)")]
    if not _has_official_provider():  # Airflow warns of a type that two packages have
        types.append(_connection_type(SHARED_TYPE, "SharedTypeHook", "IBM MQ"))
    return {
        "package-name": "mqdlq",
        "name": _NAME,
        "description": "A dead-letter queue handler for IBM MQ.",
        "integrations": [integration],
        **modules,
        "notifications": ["mqdlq.airflow.notifications.WebhookNotifier"],
        "queues": ["mqdlq.airflow.triggers.messaging.DeadLetters"],
        "connection-types": types,
        "config": {_NAME: {"description": _SECTION, "options": _options()}},
    }


def _has_official_provider() -> bool:
    try:
        distribution("apache-airflow-providers-ibm-mq")
    except PackageNotFoundError:
        return False
    return True


def _connection_type(name: str, hook: str, shown: str) -> dict[str, Any]:
    fields = {}
    for field, text in _FIELDS.items():
        label, _, description = text.partition(": ")
        most = {"maxLength": LENGTHS[field]} if field in LENGTHS else {}
        schema = {"type": ["string", "null"], **most, **_CHOICES.get(field, {})}
        fields[field] = {"label": label, "description": description, "schema": schema}
    behaviour = {
        "hidden-fields": ["schema"],
        "relabeling": {},
        "placeholders": {"host": "mq.example.com", "port": "1414", "login": "app"},
    }
    return {
        "connection-type": name,
        "hook-class-name": f"mqdlq.airflow.hooks.ibmmq.{hook}",
        "hook-name": shown,
        "ui-field-behaviour": behaviour,
        "conn-fields": fields,
    }


_SECTION: Final = "Where mqdlq has its state and its handlers, if no variable MQDLQ_… says so."


def _options() -> dict[str, Any]:
    same = {"version_added": None, "type": "string", "default": None, "example": None}
    return {name: {"description": text, **same} for name, text in OPTIONS.items()}
