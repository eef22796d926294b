"""Build an Airflow connection from options, MQSERVER, or a client channel definition table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connecting.airflow_connections import CONNECTION_TYPE, EXTRAS, AirflowConnection
from mqdlq.mqi.connecting.ccdt import parse_mqserver, read_ccdt, select_channel

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
        selected = {key: str(given.get(key, "")) for key in _SELECTORS}
        channel = select_channel(
            ccdt, read_ccdt(ccdt), queue_manager=selected["queue_manager"], name=selected["channel"]
        )
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
