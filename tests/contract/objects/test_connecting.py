"""The MQCNO, MQCD, MQSCO and MQCSP that connection settings produce at MQCONNX.

Both clients build the structures themselves; here they are read where the queue manager gets them,
over the C extension from C memory. MQ takes no notice of what it is given for an embedded queue
manager, so any settings connect.
"""

from __future__ import annotations

import ctypes
import secrets
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from embedded_mq_tests.c_library import exports
from embedded_mq_tests.c_library.memory import read_connect_options
from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.client import Client
from mqdlq.mqi.connect import connect_arguments
from mqdlq.mqi.connection_settings import ConnectionSettings
from tests.support.contract_worlds import World

pytestmark = pytest.mark.embedded_only

PASSWORD = secrets.token_hex(8)
# Offsets in MQCNO on 64 bits (IBM MQ docs, "C declaration for MQCNO").
CLIENT_CONN_PTR, SSL_CONFIG_PTR, SECURITY_PARMS_PTR, CCDT_URL_PTR = 16, 152, 192, 200
MQCNO_6, MQCD_13, MQSCO_5, MQCSP_1 = 224, 2000, 628, 56


class Tls(NamedTuple):
    """MQSCO as far as it is looked at (IBM MQ docs, "C declaration for MQSCO").

    The clients' own classes pack it right but cannot unpack it, for the array it has within.
    """

    Version: int
    KeyRepository: bytes
    CertificateLabel: bytes

    @classmethod
    def unpack(cls, packed: bytes) -> Tls:
        return cls(*struct.unpack("<4xi256s300x64s", packed[:MQSCO_5]))


@dataclass(frozen=True)
class Received:
    """The structures that the queue manager received; a missing one is None."""

    options: set[str]
    channel: Any = None
    tls: Tls | None = None
    ccdt_url: bytes = b""
    user: bytes | None = None
    password: bytes | None = None


class Listener:
    """Reads the structures of the next MQCONNX, which then continues."""

    def __init__(self, mq: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mq = mq
        self.received: Received | None = None
        if "c_library" in mq.boundary:
            read = read_connect_options

            def listen_in_memory(cno: int) -> Any:
                self.received = self._from_memory(cno)
                return read(cno)

            monkeypatch.setattr(exports, "read_connect_options", listen_in_memory)
            return
        extension = mq.mqi.pymqe if mq.client == "pymqi" else mq.mqi.ibmmqc
        call = extension.MQCONNX

        def listen(name: bytes, *structures: Any) -> Any:
            read = self._from_pymqi if mq.client == "pymqi" else self._from_ibmmq
            self.received = read(*structures)
            return call(name, *structures)

        monkeypatch.setattr(extension, "MQCONNX", listen)

    def connect(self, *, may_reconnect: bool = False, **settings: Any) -> Received:
        wanted = ConnectionSettings("QM1", **settings)
        client = Client(self.mq.client, self.mq.mqi)
        arguments = connect_arguments(client, wanted, may_reconnect=may_reconnect)
        handle = self.mq.mqi.QueueManager(None, disconnect_on_exit=False)
        handle.connect_with_options(b"QM1", **arguments)
        handle.disconnect()
        assert self.received is not None
        return self.received

    def _from_pymqi(self, options: int, cd: bytes, credentials: Any, sco: bytes) -> Received:
        return Received(
            options=self._names(options),
            channel=self._structure("CD", cd),
            tls=self._tls(sco),
            user=credentials.get("user"),
            password=credentials.get("password"),
        )

    def _from_ibmmq(self, cno: bytes, cd: bytes, csp: bytes, sco: bytes, _bno: Any) -> Received:
        options = self._structure("CNO", cno)
        url, length = (options.CCDTUrl, options._CCDTUrlLength) if options.Version > 5 else (0, 0)
        security = self._structure("CSP", csp)
        return Received(
            options=self._names(options.Options),
            channel=self._structure("CD", cd),
            tls=self._tls(sco),
            ccdt_url=ctypes.string_at(url, length) if url else b"",
            user=_text(security.CSPUserId, security._CSPUserIdLength),
            password=_text(security.CSPPassword, security._CSPPasswordLength),
        )

    def _from_memory(self, address: int) -> Received:
        def pointed(offset: int, length: int) -> bytes:
            pointer = ctypes.c_void_p.from_address(address + offset).value
            return ctypes.string_at(pointer, length) if pointer else b""

        return self._from_ibmmq(
            ctypes.string_at(address, MQCNO_6),
            pointed(CLIENT_CONN_PTR, MQCD_13),
            pointed(SECURITY_PARMS_PTR, MQCSP_1),
            pointed(SSL_CONFIG_PTR, MQSCO_5),
            None,
        )

    def _structure(self, kind: str, packed: bytes) -> Any:
        if not packed:
            return None
        structure = getattr(self.mq.mqi, kind)()
        structure.unpack(packed)
        return structure

    def _tls(self, packed: bytes) -> Tls | None:
        # pymqi always hands an MQSCO on, if only an empty one.
        tls = Tls.unpack(packed) if packed else None
        return tls if tls and tls.KeyRepository.strip(b"\0") else None

    def _names(self, options: int) -> set[str]:
        constants = self.mq.mqi.CMQC
        names = ["HANDLE_SHARE_BLOCK", "CLIENT_BINDING", "LOCAL_BINDING", "RECONNECT_DISABLED"]
        names += ["RECONNECT", "RECONNECT_Q_MGR"]
        found = {name for name in names if options & getattr(constants, f"MQCNO_{name}")}
        assert sum(getattr(constants, f"MQCNO_{name}") for name in found) == options
        return found


def _text(pointer: int, length: int) -> bytes | None:
    return ctypes.string_at(pointer, length) if pointer else None


@pytest.fixture
def listener(mq: World, monkeypatch: pytest.MonkeyPatch) -> Listener:
    return Listener(mq, monkeypatch)


CLIENT: dict[str, Any] = {"host": "mq.example.com", "channel": "DEV.APP.SVRCONN"}
FIRM = {"HANDLE_SHARE_BLOCK", "CLIENT_BINDING", "RECONNECT_DISABLED"}


def test_a_client_connection_is_a_tcp_channel(listener: Listener) -> None:
    """IBM MQ docs, "MQCD": ChannelType MQCHT_CLNTCONN (6), TransportType MQXPT_TCP (2)."""
    received = listener.connect(**CLIENT)

    assert received.options == FIRM
    channel = received.channel
    assert (channel.ChannelType, channel.TransportType) == (6, 2)
    assert channel.ChannelName == b"DEV.APP.SVRCONN".ljust(20, b"\0")
    assert channel.ConnectionName == b"mq.example.com(1414)".ljust(264, b"\0")
    assert channel.SSLCipherSpec.strip(b"\0") == channel.RemoteUserIdentifier.strip(b"\0") == b""
    assert (received.tls, received.ccdt_url) == (None, b"")
    assert (received.user, received.password) == (None, None)


def test_a_client_connection_accepts_messages_of_100_mb(listener: Listener) -> None:
    """IBM MQ docs, "MaxMsgLength (MQCD)": 100 MB; the lower of both ends of the channel counts."""
    assert listener.connect(**CLIENT).channel.MaxMsgLength == 100 * 1024 * 1024


def test_several_hosts_become_one_connection_name(listener: Listener) -> None:
    """IBM MQ docs, "ConnectionName (MQCD)": a list of addresses with commas, tried in order."""
    received = listener.connect(**CLIENT, port=1415, hosts=("mq2.example.com", "10.0.0.3(1500)"))

    assert received.channel.ConnectionName.rstrip(b"\0") == (
        b"mq.example.com(1415),mq2.example.com(1415),10.0.0.3(1500)"
    )


def test_login_and_password_go_only_into_the_mqcsp(listener: Listener) -> None:
    """IBM MQ docs, "MQCSP": CSPUserIdPtr and CSPPasswordPtr; the MQCD has places for them too."""
    received = listener.connect(**CLIENT, user="app", password=PASSWORD)

    assert (received.user, received.password) == (b"app", PASSWORD.encode())
    channel = received.channel
    for name in ("UserIdentifier", "Password", "RemoteUserIdentifier", "RemotePassword"):
        assert getattr(channel, name).strip(b"\0") == b"", name


def test_tls_needs_a_cipher_in_the_mqcd_and_a_key_repository_in_the_mqsco(
    listener: Listener,
) -> None:
    """IBM MQ docs, "SSLCipherSpec (MQCD)" (version 7), "KeyRepository", "CertificateLabel"."""
    received = listener.connect(
        **CLIENT,
        tls_cipher_spec="ANY_TLS12_OR_HIGHER",
        key_repository="/etc/mqdlq/keys.p12",
        certificate_label="mqdlq",
        client_user_id="night-shift",
    )

    assert received.channel.Version >= 7
    assert received.channel.SSLCipherSpec.rstrip(b"\0") == b"ANY_TLS12_OR_HIGHER"
    assert received.channel.RemoteUserIdentifier == b"night-shift\0"
    assert received.tls is not None
    assert received.tls.Version >= 5  # the first that has CertificateLabel
    assert received.tls.KeyRepository.rstrip(b"\0") == b"/etc/mqdlq/keys.p12"
    assert received.tls.CertificateLabel.rstrip(b"\0") == b"mqdlq"


def test_a_ccdt_replaces_the_channel_settings(mq: World, listener: Listener) -> None:
    """IBM MQ docs, "CCDTUrlPtr (MQCNO)": version 6, which pymqi has not.

    MQCNO_CLIENT_BINDING makes it be read.
    """
    ccdt: dict[str, Any] = {
        "ccdt_url": "file:///etc/mqdlq/ccdt.json",
        "key_repository": "/etc/mqdlq/keys.p12",
    }
    if mq.client == "pymqi":
        with pytest.raises(ConnectionSettingsError) as refused:
            listener.connect(**ccdt)
        assert listener.received is None
        assert str(refused.value) == (
            "pymqi does not support ccdt_url (its MQCNO is of version 5); give host and"
            ' channel, or add "client": "ibmmq" to the connection\'s extra [MQDLQ-106]'
        )
        return
    received = listener.connect(**ccdt, user="app", password=PASSWORD)

    assert received.ccdt_url == b"file:///etc/mqdlq/ccdt.json"
    assert received.options == FIRM
    assert received.channel is None
    assert received.tls is not None
    assert received.tls.KeyRepository.rstrip(b"\0") == b"/etc/mqdlq/keys.p12"
    assert (received.user, received.password) == (b"app", PASSWORD.encode())


@pytest.mark.parametrize(
    ("wish", "option"),
    [
        ("no", "RECONNECT_DISABLED"),
        ("yes", "RECONNECT"),
        ("queue_manager", "RECONNECT_Q_MGR"),
    ],
)
def test_a_client_reconnects_only_without_a_unit_of_work(
    listener: Listener, wish: str, option: str
) -> None:
    """IBM MQ docs, "Automatic client reconnection": a unit of work is backed out on the way."""
    may = listener.connect(**CLIENT, reconnect=wish, may_reconnect=True)
    may_not = listener.connect(**CLIENT, reconnect=wish)

    assert may.options == {"HANDLE_SHARE_BLOCK", "CLIENT_BINDING", option}
    assert may_not.options == FIRM


def test_a_bindings_connection_stays_on_this_machine(listener: Listener) -> None:
    """IBM MQ docs, "MQCNO_LOCAL_BINDING": no client connection, whatever MQSERVER says."""
    received = listener.connect(transport="bindings", user="app", password=PASSWORD)

    assert received.options == {"HANDLE_SHARE_BLOCK", "LOCAL_BINDING"}
    assert (received.channel, received.tls) == (None, None)
    assert (received.user, received.password) == (b"app", PASSWORD.encode())


def test_an_embedded_queue_manager_receives_the_user(listener: Listener) -> None:
    received = listener.connect(transport="embedded", user="alice")

    assert received.options == {"HANDLE_SHARE_BLOCK"}
    assert (received.user, received.password) == (b"alice", b"")
