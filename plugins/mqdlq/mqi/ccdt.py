"""Read where a client channel leads: from the value of MQSERVER, or from a CCDT.

IBM MQ docs, "Creating a client-connection channel on the IBM MQ MQI client using MQSERVER", and
"DEFINE CHANNEL" (CONNAME) for lists of addresses.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connection_settings import ADDRESS, PORTS

DEFAULT_PORT: Final = 1414
_PARTS: Final = 3
_QUOTES: Final = ("'", '"')

Address = tuple[str, int]
"""A listener's host and port."""


@dataclass(frozen=True, slots=True)
class ClientChannel:
    """The definition of a client channel, as far as a connection of ours can state it.

    The client tries the addresses in their order. `unsupported` names attributes of a CCDT's entry
    that a connection cannot state.
    """

    name: str
    addresses: tuple[Address, ...]
    queue_manager: str = ""
    tls_cipher_spec: str = ""
    certificate_label: str = ""
    unsupported: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        (host, port), *others = self.addresses
        found = {
            "queue_manager": self.queue_manager,
            "channel": self.name,
            "host": host,
            "port": port,
            "hosts": ", ".join(f"{name}({number})" for name, number in others),
            "tls_cipher_spec": self.tls_cipher_spec,
            "certificate_label": self.certificate_label,
        }
        return {key: value for key, value in found.items() if value}


def parse_mqserver(text: str) -> ClientChannel:
    """Parse the value of MQSERVER, ``ChannelName/TransportType/ConnectionName``.

    A connection name is a host with an optional port in parentheses, 1414 by default, or several,
    separated by commas. Raises ConnectionSettingsError for another form, and for a transport other
    than TCP. The text of the error has the value, which contains no password.
    """
    try:
        return _parse(text.strip())
    except ValueError as fault:
        raise ConnectionSettingsError(
            "MQDLQ-140",
            f"MQSERVER {text!r}: {fault}; expected ChannelName/TCP/host(port), such as"
            " DEV.APP.SVRCONN/TCP/mq1.example.com(1414)",
        ) from None


def _parse(text: str) -> ClientChannel:
    if any(quote in text for quote in _QUOTES):
        raise ValueError("quotation marks belong to the shell and not to the value")
    parts = text.split("/", _PARTS - 1)
    if len(parts) < _PARTS:
        raise ValueError(f"it has {len(parts)} of the three parts between slashes")
    channel, transport, connection_name = parts
    if not channel:
        raise ValueError("the name of the channel is missing")
    if transport != "TCP":
        raise ValueError(f"transport type {transport!r} is not supported")
    if not connection_name:
        raise ValueError("the connection name is missing")
    return ClientChannel(channel, tuple(map(_channel_address, connection_name.split(","))))


def _channel_address(text: str) -> Address:
    found = ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()!r} is not an address")
    port = int(found["port"] or DEFAULT_PORT)
    if port not in PORTS:
        raise ValueError(f"{text.strip()!r} has no port of 1 to 65535")
    return found["host"], port


# Read a client channel definition table (CCDT) in JSON.
#
# IBM MQ docs, "Configuring a JSON format CCDT" and "Channel attributes supported by the JSON
# CCDT". A binary CCDT can only be read by IBM's client.

_TYPE: Final = "clientConnection"
_COPIED: Final = {
    "name",
    "type",
    "clientConnection.queueManager",
    "clientConnection.connection",
    "transmissionSecurity.cipherSpecification",
    "transmissionSecurity.certificateLabel",
}
_WITHOUT_EFFECT: Final = {
    "general.description",
    "general.maximumMessageLength",  # a connection always asks for the channel's maximum
    *("compression.header", "compression.message"),
    *("connectionManagement.affinity", "connectionManagement.clientWeight"),
    "connectionManagement.defaultReconnect",  # the connection has `reconnect`
    *("connectionManagement.disconnectInterval", "connectionManagement.heartInterval"),
    *("connectionManagement.heartbeatInterval", "connectionManagement.keepAliveInterval"),
    "connectionManagement.sharingConversations",
}
"""Attributes that change how fast a channel is or which entry the client prefers, not where it
leads nor what it demands of the queue manager."""
_EMPTY: Final[tuple[Any, ...]] = ("", [], {}, None)
_WORDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "text",
    type(None): "missing",
}
_SHOWN: Final = 8


def read_ccdt(path: Path) -> list[ClientChannel]:
    """Return the client channels of a CCDT in JSON, in the order of the file.

    Raises ConnectionSettingsError for a file that cannot be read, is binary, or has another form;
    the text names the place in the file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _fault(path, f"it cannot be read: {error.strerror}") from None
    if not data.strip():
        raise _fault(path, "it is empty")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ConnectionSettingsError(
            "MQDLQ-142",
            f"CCDT {path} is binary, and only IBM's client reads a binary CCDT; leave the file to"
            f" the client: --ccdt-url {path.absolute().as_uri()} --client ibmmq",
        )
    try:
        return list(_channels(json.loads(text)))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _fault(path, f"it is not JSON: {error.msg} at {place}") from None
    except ValueError as error:
        raise _fault(path, str(error)) from None


def select_channel(
    path: Path, channels: list[ClientChannel], *, queue_manager: str = "", name: str = ""
) -> ClientChannel:
    """Return the one channel of a CCDT for this queue manager and of this name, if given.

    A channel whose entry names no queue manager leads to any. Raises ConnectionSettingsError if
    none or several fit, and if the channel has an attribute that a connection cannot state.
    """
    fitting = [
        channel
        for channel in channels
        if ("" in {queue_manager, channel.queue_manager} or queue_manager == channel.queue_manager)
        and name in {"", channel.name}
    ]
    if len(fitting) != 1:
        asked = " and ".join(
            f"{word} {value!r}"
            for word, value in (("queue manager", queue_manager), ("channel", name))
            if value
        )
        found = "no channel" if not fitting else f"{len(fitting)} channels"
        raise ConnectionSettingsError(
            "MQDLQ-143",
            f"CCDT {path} has {found}{f' for {asked}' if asked else ''}; choose one by"
            f" --queue-manager and --channel: {_list(fitting or channels)}",
        )
    (channel,) = fitting
    if channel.unsupported:
        raise ConnectionSettingsError(
            "MQDLQ-144",
            f"CCDT {path}: channel {channel.name!r} has {', '.join(channel.unsupported)}, which a"
            " connection cannot state; leave the file to IBM's client: --ccdt-url"
            f" {path.absolute().as_uri()} --client ibmmq",
        )
    return channel


def _list(channels: list[ClientChannel]) -> str:
    shown = [f"{c.name} (queue manager {c.queue_manager!r})" for c in channels[:_SHOWN]]
    if len(channels) > _SHOWN:
        shown.append(f"and {len(channels) - _SHOWN} more")
    return ", ".join(shown) or "the file has none"


def _fault(path: Path, text: str) -> ConnectionSettingsError:
    return ConnectionSettingsError("MQDLQ-141", f"CCDT {path}: {text}")


def _channels(document: Any) -> Iterator[ClientChannel]:
    table = _typed(document, dict, "the document")
    entries = _typed(table.get("channel"), list, "channel")
    for number, given in enumerate(entries):
        place = f"channel[{number}]"
        entry = _typed(given, dict, place)
        if entry.get("type") == _TYPE:
            yield _channel(entry, place)


def _channel(entry: Mapping[str, Any], place: str) -> ClientChannel:
    connection = _get(entry, "clientConnection", dict, place)
    security = _get(entry, "transmissionSecurity", dict, place)
    of_connection, of_security = f"{place}.clientConnection", f"{place}.transmissionSecurity"
    where = f"{of_connection}.connection"
    listed = _get(connection, "connection", list, of_connection)
    addresses = tuple(_address(each, f"{where}[{n}]") for n, each in enumerate(listed))
    if not addresses:
        raise ValueError(f"{where} is missing; expected a list with host and port")
    name = _get(entry, "name", str, place)
    if not name:
        raise ValueError(f"{place}.name is missing")
    return ClientChannel(
        name,
        addresses,
        _get(connection, "queueManager", str, of_connection),
        _get(security, "cipherSpecification", str, of_security),
        _get(security, "certificateLabel", str, of_security),
        tuple(sorted(set(_attributes(entry)) - _COPIED - _WITHOUT_EFFECT)),
    )


def _attributes(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attributes that have a value, such as `exits.security`."""
    for group, values in entry.items():
        if isinstance(values, dict):
            yield from (f"{group}.{key}" for key, value in values.items() if value not in _EMPTY)
        elif values not in _EMPTY:
            yield group


def _address(value: Any, place: str) -> Address:
    given = _typed(value, dict, place)
    host = _get(given, "host", str, place)
    port = given.get("port", DEFAULT_PORT)
    if not host:
        raise ValueError(f"{place}.host is missing")
    if type(port) is not int or port not in PORTS:
        raise ValueError(f"{place}.port is {port!r}, expected 1 to 65535")
    return host, port


def _get(given: Mapping[str, Any], key: str, kind: type, place: str) -> Any:
    return _typed(given.get(key, kind()), kind, f"{place}.{key}")


def _typed(value: Any, kind: type, place: str) -> Any:
    if not isinstance(value, kind):
        found = _WORDS.get(type(value)) or json.dumps(value)
        fault = f"{place} is {found}, expected {_WORDS[kind]}"
        raise ValueError(fault)  # noqa: TRY004 (of the file, like its syntax)
    return value
