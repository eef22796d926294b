"""Convert connection settings into the structures of MQCONNX.

Both client libraries get the same MQCNO, MQCD and MQSCO; they build the MQCSP themselves from user
and password. IBM MQ docs, "MQCNO", "MQCD", "MQSCO", "MQCSP".
"""

from __future__ import annotations

from typing import Any

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.client import Client
from mqdlq.mqi.connecting.settings import ConnectionSettings

MQCHT_CLNTCONN = 6
MQXPT_TCP = 2
LONGEST_MESSAGE = 104857600
"""MQCD.MaxMsgLength: with the maximum, the limit of the queue manager's channel applies.

Both libraries set 4 MB by default, and a longer dead letter could not be got:
MQRC_DATA_LENGTH_ERROR (2010).
"""


def connect_arguments(
    client: Client, settings: ConnectionSettings, *, may_reconnect: bool = False
) -> dict[str, Any]:
    """Return the keyword arguments of `QueueManager.connect_with_options`.

    A client that reconnects automatically hides that a unit of work was backed out or a browse
    cursor was lost. The settings' `reconnect` therefore applies only with `may_reconnect`, which
    says that the connection has neither. Raises ConnectionSettingsError for a setting that the
    library cannot pass on.
    """
    options = _options(client, settings, may_reconnect=may_reconnect)
    arguments: dict[str, Any] = {}
    if settings.ccdt_url:
        arguments["cno"] = _cno_with_ccdt(client, settings, options)
    else:
        arguments["opts"] = options
    if settings.transport == "client" and not settings.ccdt_url:
        arguments["cd"] = _cd(client, settings)
    if settings.key_repository:
        arguments["sco"] = _sco(client, settings)
    if settings.user:
        arguments |= {"user": settings.user, "password": settings.password}
    return arguments


def _options(client: Client, settings: ConnectionSettings, *, may_reconnect: bool) -> int:
    constants = client.CMQC
    # Shared, or a second MQCONNX of the same thread would fail: MQRC_ALREADY_CONNECTED (2002).
    options = int(constants.MQCNO_HANDLE_SHARE_BLOCK)
    if settings.transport == "bindings":
        # Without it, the client library may connect to the channel that MQSERVER names.
        return options | int(constants.MQCNO_LOCAL_BINDING)
    if settings.transport == "client":
        wish = settings.reconnect if may_reconnect else "no"
        reconnect = {
            "no": constants.MQCNO_RECONNECT_DISABLED,
            "yes": constants.MQCNO_RECONNECT,
            "queue_manager": constants.MQCNO_RECONNECT_Q_MGR,
        }[wish]
        options |= int(constants.MQCNO_CLIENT_BINDING) | int(reconnect)
    return options


def _cno_with_ccdt(client: Client, settings: ConnectionSettings, options: int) -> Any:
    if client.name == "pymqi":
        raise ConnectionSettingsError(
            "MQDLQ-106",
            "pymqi does not support ccdt_url (its MQCNO is of version 5); give host and channel,"
            ' or add "client": "ibmmq" to the connection\'s extra',
        )
    cno = client.module.CNO()
    cno.Version = client.CMQC.MQCNO_VERSION_6  # the first that has CCDTUrlPtr
    cno.Options = options
    cno.CCDTUrl = settings.ccdt_url.encode()
    return cno


def _cd(client: Client, settings: ConnectionSettings) -> Any:
    channel = client.module.CD()
    channel.ChannelName = settings.channel.encode()
    channel.ConnectionName = settings.connection_name.encode()
    channel.ChannelType = MQCHT_CLNTCONN
    channel.TransportType = MQXPT_TCP
    channel.MaxMsgLength = LONGEST_MESSAGE
    channel.SSLCipherSpec = settings.tls_cipher_spec.encode()
    channel.RemoteUserIdentifier = settings.client_user_id.encode()
    return channel


def _sco(client: Client, settings: ConnectionSettings) -> Any:
    tls = client.module.SCO()
    tls.KeyRepository = settings.key_repository.encode()
    tls.CertificateLabel = settings.certificate_label.encode()
    return tls
