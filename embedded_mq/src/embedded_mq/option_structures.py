"""Structures of the MQI for message handles and properties, which only their calls pass."""

from embedded_mq.structures import Packed
from embedded_mq.structures.headers import Char8, Long, VariableString


class MQPD(Packed, struc_id="PD  ", version=1):
    """The property descriptor (IBM MQ docs, "MQPD - Property descriptor")."""

    options: Long
    support: Long
    context: Long
    copy_options: Long


class MQSMPO(Packed, struc_id="SMPO", version=1):
    """The set-property options (IBM MQ docs, "MQSMPO - Set message property options")."""

    options: Long
    value_encoding: Long
    value_ccsid: Long


class MQDMPO(Packed, struc_id="DMPO", version=1):
    """The delete-property options (IBM MQ docs, "MQDMPO - Delete message property options")."""

    options: Long


class MQCMHO(Packed, struc_id="CMHO", version=1):
    """The create-handle options (IBM MQ docs, "MQCMHO - Create message handle options")."""

    options: Long


class MQIMPO(Packed, struc_id="IMPO", version=1):
    """The inquire-property options (IBM MQ docs, "MQIMPO - Inquire message property options")."""

    options: Long
    requested_encoding: Long
    requested_ccsid: Long
    returned_encoding: Long
    returned_ccsid: Long
    reserved1: Long
    returned_name: VariableString
    type_string: Char8[bytes]
