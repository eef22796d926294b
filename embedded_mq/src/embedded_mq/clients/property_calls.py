"""MQSETMP, MQINQMP and MQDLTMP as the Python clients call them, with Python values."""

# ruff: noqa: PLR0917 (the arguments are those of the extension)

from dataclasses import dataclass

from embedded_mq import mqi_constants as mq
from embedded_mq.clients.calls import OK, Codes, check_length, execute_simple_call
from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import MQCC_FAILED, CallFailedError
from embedded_mq.engine.messages.property_values import Value
from embedded_mq.option_structures import MQDMPO, MQPD, MQSMPO


@dataclass(frozen=True, slots=True)
class InquiredProperty:
    """The result of MQINQMP; the value is None if it was not requested or exceeds the buffer."""

    name: str
    type: int
    value: Value
    length: int
    codes: Codes = OK


def inquire_property(
    connection: Connection, hmsg: int, options: int, name: bytes, kind: int, max_length: int
) -> InquiredProperty:
    """Return a property in its own type, or in the requested type if it may be converted."""
    held = connection.message_handles.at(hmsg).inquire(_text(name), options, kind)
    if options & mq.MQIMPO_QUERY_LENGTH:
        return InquiredProperty(held.name, held.type, None, held.length)
    if held.length > max_length:
        codes = MQCC_FAILED, MQRC["MQRC_PROPERTY_VALUE_TOO_BIG"]
        return InquiredProperty(held.name, held.type, None, held.length, codes)
    return InquiredProperty(held.name, held.type, held.value, held.length)


def set_property(
    hconn: int,
    hmsg: int,
    smpo: bytes,
    name: bytes,
    pd: bytes,
    kind: int,
    value: Value,
    length: int,
) -> Codes:
    """Set a property (MQSETMP)."""
    check_length(smpo, MQSMPO.length, "MQSMPO")
    check_length(pd, MQPD.length, "MQPD")

    def operation(connection: Connection) -> None:
        descriptor = MQPD.unpack(pd)
        if descriptor.struc_id != b"PD  ":
            raise CallFailedError("MQRC_PD_ERROR")
        cut = value
        if isinstance(value, str | bytes) and length != mq.MQVL_NULL_TERMINATED:
            cut = value[:length]
        handle = connection.message_handles.at(hmsg)
        handle.set(_text(name), kind, cut, descriptor, MQSMPO.unpack(smpo).options)

    return execute_simple_call("MQSETMP", hconn, operation)


def delete_property(hconn: int, hmsg: int, dmpo: bytes, name: bytes) -> Codes:
    """Delete a property (MQDLTMP)."""
    check_length(dmpo, MQDMPO.length, "MQDMPO")

    def operation(connection: Connection) -> None:
        handle = connection.message_handles.at(hmsg)
        handle.delete(_text(name), MQDMPO.unpack(dmpo).options)

    return execute_simple_call("MQDLTMP", hconn, operation)


def _text(name: bytes) -> str:
    """Return a property's name (MQRC_PROPERTY_NAME_ERROR if the bytes are not UTF-8)."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CallFailedError("MQRC_PROPERTY_NAME_ERROR") from None
