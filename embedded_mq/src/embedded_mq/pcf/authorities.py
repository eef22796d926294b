"""Run the PCF command that inquires the authority of a user on an object.

IBM MQ docs, "Inquire Entity Authority". Users only: groups are not emulated.
"""

from __future__ import annotations

from collections.abc import Mapping

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.objects import authority, channels
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import check
from embedded_mq.pcf.commands import Command, Request, Responses
from embedded_mq.pcf.messages import PcfError, integer, integers, string

_KINDS = {
    mq.MQOT_Q: authority.QUEUE,
    mq.MQOT_Q_MGR: authority.QUEUE_MANAGER,
    mq.MQOT_CHANNEL: authority.CHANNEL,
}
NUMBERS: Mapping[str, int] = {
    "ALTUSR": 1,
    "BROWSE": 2,
    "CHG": 3,
    "CLR": 4,
    "CONNECT": 5,
    "CRT": 6,
    "DLT": 7,
    "DSP": 8,
    "GET": 9,
    "INQ": 10,
    "PUT": 11,
    "PASSALL": 12,
    "PASSID": 13,
    "SET": 14,
    "SETALL": 15,
    "SETID": 16,
    "CTRL": 17,
    "CTRLX": 18,
}
"""The MQAUTH of each authority."""
_MQAUTH_NONE = 0
MQZAET_PRINCIPAL = 1


def inquire_entity_authority(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_ENTITY_AUTH: return what a user may do with an object, by all records."""
    arguments = check(
        request.parameters,
        {
            cf.MQIACF_AUTH_OPTIONS: cf.MQCFT_INTEGER,
            cf.MQIACF_OBJECT_TYPE: cf.MQCFT_INTEGER,
            cf.MQIACF_ENTITY_TYPE: cf.MQCFT_INTEGER,
            cf.MQCACF_ENTITY_NAME: cf.MQCFT_STRING,
        },
        {cf.MQCACF_OBJECT_NAME: cf.MQCFT_STRING},
    )
    request.check_authority(authority.QUEUE_MANAGER, request.catalogue.name, "DSP")
    kind = _KINDS.get(arguments.values[cf.MQIACF_OBJECT_TYPE])
    if kind is None:
        raise PcfError.about("MQRCCF_PARM_VALUE_ERROR", cf.MQIACF_OBJECT_TYPE)
    if arguments.values[cf.MQIACF_ENTITY_TYPE] != MQZAET_PRINCIPAL:
        raise PcfError.about("MQRCCF_PARM_VALUE_ERROR", cf.MQIACF_ENTITY_TYPE)
    user, name = arguments.text(cf.MQCACF_ENTITY_NAME), arguments.text(cf.MQCACF_OBJECT_NAME)
    catalogue = request.catalogue
    if kind == authority.CHANNEL and name not in channels.load(request.connection.store):
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", cf.MQCACF_OBJECT_NAME)
    if kind == authority.QUEUE and name not in catalogue.by_name:
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", cf.MQCACF_OBJECT_NAME)
    held = authority.AUTHORITIES[kind]
    if catalogue.authorities:
        held = authority.granted_authorities(catalogue, user, kind, name or catalogue.name)
    listed = sorted(NUMBERS[word] for word in held) or [_MQAUTH_NONE]
    return [
        [
            integer(cf.MQIACF_OBJECT_TYPE, arguments.values[cf.MQIACF_OBJECT_TYPE]),
            integer(cf.MQIACF_ENTITY_TYPE, MQZAET_PRINCIPAL),
            string(cf.MQCACF_ENTITY_NAME, user.encode("latin-1", "replace")),
            string(cf.MQCACF_OBJECT_NAME, object_name(name or catalogue.name)),
            integers(cf.MQIACF_AUTHORIZATION_LIST, listed),
        ]
    ]


AUTHORITY_COMMANDS: Mapping[int, Command] = {cf.MQCMD_INQUIRE_ENTITY_AUTH: inquire_entity_authority}
