"""Read where a client channel leads: from the value of MQSERVER, or from options.

IBM MQ docs, "Creating a client-connection channel on the IBM MQ MQI client using MQSERVER", and
"DEFINE CHANNEL" (CONNAME) for lists of addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connecting.settings import ADDRESS, PORTS

DEFAULT_PORT: Final = 1414
_PARTS: Final = 3
_QUOTES: Final = ("'", '"')


@dataclass(frozen=True, slots=True)
class Address:
    """A listener's host and port."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"{self.host}({self.port})"


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
        """Return the settings that the channel defines, under the names of ConnectionSettings."""
        first, *others = self.addresses
        found = {
            "queue_manager": self.queue_manager,
            "channel": self.name,
            "host": first.host,
            "port": first.port,
            "hosts": ", ".join(map(str, others)),
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
    return ClientChannel(channel, tuple(map(_address, connection_name.split(","))))


def _address(text: str) -> Address:
    found = ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()!r} is not an address")
    port = int(found["port"] or DEFAULT_PORT)
    if port not in PORTS:
        raise ValueError(f"{text.strip()!r} has no port of 1 to 65535")
    return Address(found["host"], port)
