"""Connection settings of a queue manager, checked before anything connects.

Contradictory settings are rejected here, because MQ itself truncates names that are too long,
ignores settings that the transport does not use, and connects without encryption if half of the TLS
settings are missing.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi import transports
from mqdlq.mqi.client import CLIENT_NAMES

TRANSPORTS = ("client", "bindings", "embedded")
RECONNECT = ("no", "yes", "queue_manager")
CCDT_SCHEMES = ("file", "http", "https", "ftp")
PORTS = range(1, 65536)
CONNECTION_NAME_LENGTH = 264  # MQ_CONN_NAME_LENGTH
LENGTHS = {
    "queue_manager": 48,  # MQ_Q_MGR_NAME_LENGTH
    "channel": 20,  # MQ_CHANNEL_NAME_LENGTH
    "tls_cipher_spec": 32,  # MQ_SSL_CIPHER_SPEC_LENGTH
    "key_repository": 256,  # MQ_SSL_KEY_REPOSITORY_LENGTH
    "certificate_label": 64,  # MQ_CERT_LABEL_LENGTH
    "client_user_id": 12,  # MQ_USER_ID_LENGTH
}
NAME = re.compile(r"[A-Za-z0-9._/%]+")
ADDRESS = re.compile(r"(?P<host>[^\s,()]+)(\((?P<port>\d{1,5})\))?")

# The settings that only a client connection has, and the settings that a CCDT replaces.
CLIENT_ONLY_SETTINGS = (
    *("host", "hosts", "channel", "ccdt_url"),
    *("tls_cipher_spec", "key_repository", "certificate_label", "client_user_id"),
)
CCDT_SETTINGS = ("host", "hosts", "channel", "tls_cipher_spec", "client_user_id")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a queue manager.

    `transport` is ``client`` (TCP), ``bindings`` (same machine) or ``embedded``, which is never
    chosen implicitly; `directory` is that of the embedded queue managers, "" for the one in
    MQDLQ_HOME. `client` names the library, or is None for the default one.

    A client connection needs host and channel, or the URL of a client channel definition table.
    `hosts` are further addresses of the same queue manager in IBM's form
    (``mq2.example.com(1415)``), tried in order after the first. `user` and `password` go into the
    MQCSP; `client_user_id` goes unchecked to the channel's exits. `reconnect` applies only to
    connections that may reconnect: see `connect`.
    """

    queue_manager: str
    transport: str = "client"
    client: str | None = None
    host: str = ""
    port: int = 1414
    channel: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    ccdt_url: str = ""
    tls_cipher_spec: str = ""
    key_repository: str = ""
    certificate_label: str = ""
    client_user_id: str = ""
    reconnect: str = "no"
    directory: str = ""

    def __post_init__(self) -> None:
        checks = (_unknown_choices, _unfitting_settings, _invalid_values, _invalid_addresses)
        for fault in (fault for check in (*checks, _incomplete_security) for fault in check(self)):
            raise ConnectionSettingsError("MQDLQ-105", fault)

    @property
    def connection_name(self) -> str:
        """Return host and hosts as MQCD.ConnectionName has them: ``a(1414),b(1415)``."""
        first = f"{self.host}({self.port})"
        others = (part if part.endswith(")") else f"{part}({self.port})" for part in self.hosts)
        return ",".join([first, *others])


def _unknown_choices(settings: ConnectionSettings) -> Iterator[str]:
    if settings.transport not in TRANSPORTS:
        yield f"unknown transport {settings.transport!r}; known are {', '.join(TRANSPORTS)}"
    if settings.transport == transports.EMBEDDED and transports.find_provider() is None:
        yield transports.missing_text("transport 'embedded'")
    if settings.client not in {None, *CLIENT_NAMES}:
        yield f"unknown client {settings.client!r}; known are {', '.join(CLIENT_NAMES)}"
    if settings.reconnect not in RECONNECT:
        yield f"unknown reconnect {settings.reconnect!r}; known are {', '.join(RECONNECT)}"


def _unfitting_settings(settings: ConnectionSettings) -> Iterator[str]:
    if settings.directory and settings.transport != transports.EMBEDDED:
        yield (
            f"transport {settings.transport!r} has no use for directory; leave it out, or use"
            ' "transport": "embedded"'
        )
    if settings.transport != "client":
        given = _given(settings, CLIENT_ONLY_SETTINGS)
        if settings.reconnect != "no":
            given = [*given, "reconnect"]
        if given:
            yield (
                f"transport {settings.transport!r} has no use for {_join_words(given)}; leave"
                f' {"it" if len(given) == 1 else "them"} out, or use "transport": "client"'
            )
    elif settings.ccdt_url and (given := _given(settings, CCDT_SETTINGS)):
        yield (
            f"ccdt_url is given as well as {_join_words(given)}, which the CCDT's own entry says;"
            " give one or the other"
        )
    elif not settings.ccdt_url and not (settings.host and settings.channel):
        yield (
            f"a client connection to queue manager {settings.queue_manager!r} needs host and"
            ' channel (or "transport": "bindings" or "embedded" in the connection\'s extra)'
        )


def _invalid_values(settings: ConnectionSettings) -> Iterator[str]:
    for name, most in LENGTHS.items():
        value = str(getattr(settings, name))
        if len(value.encode()) > most:
            yield f"{name} {value!r} has {len(value.encode())} bytes, MQ takes {most}"
    for name in ("queue_manager", "channel"):
        value = str(getattr(settings, name))
        if value.startswith("*"):
            yield (
                f"{name} {value!r} stands for any queue manager of a group; name the one whose"
                " queue the handler reads"
            )
        elif value and not NAME.fullmatch(value):
            yield f"{name} {value!r} is not an MQ name; use letters, digits and . _ / %"


def _invalid_addresses(settings: ConnectionSettings) -> Iterator[str]:
    if settings.port not in PORTS:
        yield f"port {settings.port} is not valid; use 1 to 65535 (MQ's default: 1414)"
    for address in [settings.host, *settings.hosts]:
        found = ADDRESS.fullmatch(address)
        is_first = address == settings.host
        if address and (not found or (is_first and found["port"])):
            expected = "mq.example.com" if is_first else "mq2.example.com(1415)"
            key = "host" if is_first else "hosts"
            yield f"{key}: {address!r} is not an address; expected, for example, {expected}"
        elif found and found["port"] and int(found["port"]) not in PORTS:
            yield f"hosts: {address!r} has no port of 1 to 65535"
    if len(settings.connection_name) > CONNECTION_NAME_LENGTH:
        yield (
            f"host and hosts together have {len(settings.connection_name)} characters, MQ takes"
            f" {CONNECTION_NAME_LENGTH}; use a CCDT (ccdt_url)"
        )
    url = urlsplit(settings.ccdt_url)
    if settings.ccdt_url and not (url.scheme in CCDT_SCHEMES and (url.netloc or url.path)):
        yield (
            f"ccdt_url {settings.ccdt_url!r} is not the URL of a file; expected something like"
            " file:///etc/mqdlq/ccdt.json or https://mq.example.com/ccdt.json"
        )
    elif url.password or url.username:
        yield "ccdt_url holds a user id or a password; a CCDT must be readable without"


def _incomplete_security(settings: ConnectionSettings) -> Iterator[str]:
    if settings.key_repository and not (settings.tls_cipher_spec or settings.ccdt_url):
        yield (
            "key_repository is given without tls_cipher_spec: the connection would not be"
            " encrypted; give the channel's CipherSpec, such as ANY_TLS12_OR_HIGHER"
        )
    if settings.tls_cipher_spec and not settings.key_repository:
        yield (
            f"tls_cipher_spec {settings.tls_cipher_spec!r} needs key_repository: the file of the"
            " certificates by which the queue manager is known"
        )
    if settings.certificate_label and not settings.key_repository:
        yield (
            f"certificate_label {settings.certificate_label!r} needs key_repository: the file"
            " that holds the certificate"
        )
    if settings.password and not settings.user:
        yield "a password is given without a login; give both, or neither"
    if settings.user and not settings.password and settings.transport == "client":
        yield (
            f"login {settings.user!r} has no password: a user id alone proves nothing; give both,"
            " or neither where the client's certificate says who it is"
        )


def _given(settings: ConnectionSettings, names: Iterable[str]) -> list[str]:
    return [name for name in names if getattr(settings, name)]


def _join_words(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if words[1:] else words[0]
