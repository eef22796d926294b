"""Read Airflow connections of our types as connection settings, without importing Airflow.

A connection in an environment variable has Airflow's form, JSON or a URI (Airflow docs, "Storing
connections in environment variables").
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.ccdt import parse_mqserver, read_ccdt, select_channel
from mqdlq.mqi.connection_settings import ConnectionSettings

CONNECTION_TYPE: Final = "mqdlq"
SHARED_TYPE: Final = "ibmmq"
"""The type that Airflow's own provider for IBM MQ has, too: its connections work as they are."""
_TYPES: Final = (CONNECTION_TYPE, SHARED_TYPE)
EXTRAS: Final = (
    *("queue_manager", "channel", "hosts", "ccdt_url"),
    *("tls_cipher_spec", "key_repository", "certificate_label", "client_user_id"),
    *("reconnect", "client", "transport", "directory"),
)
PROVIDER_EXTRAS: Final = frozenset({"open_options"})
"""Extras of connections for Airflow's IBM MQ provider that this project ignores."""
_VARIABLE: Final = "AIRFLOW_CONN_"


@dataclass(frozen=True, slots=True)
class AirflowConnection:
    """The fields of an Airflow connection, under Airflow's names."""

    conn_id: str
    conn_type: str
    extra: Mapping[str, Any]
    host: str = ""
    port: int = 0
    login: str = ""
    password: str = field(default="", repr=False)

    def document(self) -> dict[str, Any]:
        """Return the fields that have a value as Airflow's JSON names them, but no password."""
        fields = {name: getattr(self, name) for name in ("conn_type", "host", "port", "login")}
        fields["extra"] = dict(self.extra)
        return {key: value for key, value in fields.items() if value}

    @property
    def variable(self) -> str:
        return f"{_VARIABLE}{self.conn_id.upper()}"

    @property
    def remark(self) -> str:
        """What a person may want to know of the type; "" for our own."""
        if self.conn_type == CONNECTION_TYPE:
            return ""
        return (
            f"connection {self.conn_id} has type {SHARED_TYPE}, as of Airflow's provider for IBM"
            f" MQ, and works as it is; type {CONNECTION_TYPE} always has the form and the Test"
            " button"
        )

    def settings(self) -> ConnectionSettings:
        """Return the connection settings; ConnectionSettingsError names the connection."""
        if self.conn_type not in _TYPES:
            raise ConnectionSettingsError(
                "MQDLQ-101",
                f"connection {self.conn_id!r} has type {self.conn_type!r}; expected"
                f" {CONNECTION_TYPE!r}, or {SHARED_TYPE!r} of Airflow's provider for IBM MQ",
            )
        extra = _extras(self.conn_id, self.extra)
        if not extra.get("queue_manager"):
            raise ConnectionSettingsError(
                "MQDLQ-102",
                f"connection {self.conn_id!r} names no queue manager; add an extra such as"
                ' {"queue_manager": "QM1", "channel": "DEV.APP.SVRCONN"}',
            )
        try:
            return ConnectionSettings(
                **extra,
                host=self.host,
                port=self.port or 1414,
                user=self.login,
                password=self.password,
            )
        except ConnectionSettingsError as error:
            raise ConnectionSettingsError(
                error.error_id, f"connection {self.conn_id!r}: {error.text}"
            ) from error


def environment_connections(environment: Mapping[str, str]) -> Iterator[AirflowConnection]:
    """Yield AIRFLOW_CONN_* of our types; Airflow reports what is neither JSON nor a URI."""
    for name in sorted(environment):
        if name.startswith(_VARIABLE):
            conn_id, text = name.removeprefix(_VARIABLE).lower(), environment[name].strip()
            try:
                found = _parse(conn_id, text)
            except (ValueError, TypeError, AttributeError):
                continue
            if found.conn_type in _TYPES:
                yield found


def _parse(conn_id: str, text: str) -> AirflowConnection:
    if text.startswith("{"):
        keys = json.loads(text)
    else:
        uri = urlsplit(text)
        query = dict(parse_qsl(uri.query))
        texts = {"host": uri.hostname, "login": uri.username, "password": uri.password}
        keys = {name: unquote(value or "") for name, value in texts.items()}
        keys |= {"conn_type": uri.scheme, "port": uri.port, "extra": query.get("__extra__", query)}
    extra = keys.get("extra") or {}
    return AirflowConnection(
        conn_id,
        str(keys.get("conn_type")),
        json.loads(extra) if isinstance(extra, str) else dict(extra),
        host=keys.get("host") or "",
        port=int(keys.get("port") or 0),
        login=keys.get("login") or "",
        password=keys.get("password") or "",
    )


def _extras(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras that have a value (ConnectionSettingsError for an unknown extra).

    Airflow's form stores an empty value for an extra that was not filled in.
    """
    extra = {key: value for key, value in given.items() if value not in ("", None, [])}
    for key in extra.keys() - set(EXTRAS) - PROVIDER_EXTRAS:
        near = difflib.get_close_matches(key, EXTRAS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(EXTRAS)}"
        raise ConnectionSettingsError(
            "MQDLQ-103", f"connection {name!r} has an unknown extra {key!r}{hint}"
        )
    found: dict[str, Any] = {key: extra[key] for key in EXTRAS if key in extra}
    hosts = found.get("hosts", "")
    if isinstance(hosts, str):
        hosts = hosts.replace(",", " ").split()
    for key, value in found.items():
        if key != "hosts" and not isinstance(value, str):
            raise ConnectionSettingsError(
                "MQDLQ-104", f"connection {name!r}: extra {key} is {value!r}, expected text"
            )
    return found | {"hosts": tuple(str(host) for host in hosts)}


# Build an Airflow connection from options, MQSERVER, or a client channel definition table.

_SELECTORS: Final = ("queue_manager", "channel")
"""The options that choose a channel of a CCDT."""
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")  # as `airflow connections add` has it


def define_connection(
    conn_id: str, options: Mapping[str, Any], *, mqserver: str = "", ccdt: Path | None = None
) -> AirflowConnection:
    """Return the connection that options describe, without a password.

    `options` are settings under the names of ConnectionSettings; an empty value counts as not
    given. The value of MQSERVER, or a CCDT in JSON, adds the settings of its channel. Raises
    ConnectionSettingsError for an invalid id, for a setting with two values, and for settings that
    cannot work.
    """
    check_id(conn_id)
    given = {key: value for key, value in options.items() if value}
    settings = {**given, **_channel_settings(given, mqserver, ccdt)}
    if "queue_manager" not in settings:
        raise ConnectionSettingsError(
            "MQDLQ-146", f"connection {conn_id!r} names no queue manager; give --queue-manager"
        )
    connection = AirflowConnection(
        conn_id,
        CONNECTION_TYPE,
        {key: settings[key] for key in EXTRAS if key in settings},
        host=settings.get("host", ""),
        port=settings.get("port", 0),
        login=settings.get("user", ""),
    )
    # The password is read later: any text stands for it in this check.
    replace(connection, password="-" if connection.login else "").settings()
    return connection


def check_id(conn_id: str) -> None:
    """Raise ConnectionSettingsError if the text cannot be the id of a connection."""
    if not _ID.fullmatch(conn_id):
        raise ConnectionSettingsError(
            "MQDLQ-145",
            f"{conn_id!r} is not a connection id; use up to 200 letters, digits and . _ -",
        )


def _channel_settings(
    given: Mapping[str, Any], mqserver: str, ccdt: Path | None
) -> Mapping[str, Any]:
    """Return the settings of the channel that MQSERVER or the CCDT defines; {} without both."""
    if mqserver and ccdt:
        raise _two_sources("--mqserver", "--ccdt")
    if mqserver:
        found, source = parse_mqserver(mqserver).settings(), "--mqserver"
    elif ccdt:
        queue_manager, name = (str(given.get(key, "")) for key in _SELECTORS)
        channel = select_channel(ccdt, read_ccdt(ccdt), queue_manager=queue_manager, name=name)
        found, source = channel.settings(), "--ccdt"
    else:
        return {}
    for key, value in found.items():
        if given.get(key, value) != value:
            raise _two_sources(source, f"--{key.replace('_', '-')}")
    return found


def _two_sources(first: str, second: str) -> ConnectionSettingsError:
    return ConnectionSettingsError(
        "MQDLQ-147", f"{first} and {second} name different channels or settings; give one of them"
    )
