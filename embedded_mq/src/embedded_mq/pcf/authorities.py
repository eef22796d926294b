"""Run the PCF commands that inquire authority records, and the authority of a user on an object.

IBM MQ docs, "Inquire Authority Records", "Inquire Entity Authority". Users only: groups are not
emulated.
"""

from collections.abc import Callable, Iterable, Mapping

from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.engine.objects import authority, channels
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf.arguments import Arguments, check
from embedded_mq.pcf.commands import Command, Request, Responses
from embedded_mq.pcf.messages import Parameter, PcfError, integer, integers, string

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
    kind = _object_kind(arguments)
    _check_principal(arguments)
    user, name = arguments.text(cf.MQCACF_ENTITY_NAME), arguments.text(cf.MQCACF_OBJECT_NAME)
    catalogue = request.catalogue
    if kind == authority.CHANNEL and name not in channels.load(request.connection.store):
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", cf.MQCACF_OBJECT_NAME)
    if kind == authority.QUEUE and name not in catalogue.by_name:
        raise PcfError.about("MQRC_UNKNOWN_OBJECT_NAME", cf.MQCACF_OBJECT_NAME)
    held = authority.AUTHORITIES[kind]
    if catalogue.authorities:
        held = authority.granted_authorities(catalogue, user, kind, name or catalogue.name)
    return [
        [
            integer(cf.MQIACF_OBJECT_TYPE, arguments.values[cf.MQIACF_OBJECT_TYPE]),
            integer(cf.MQIACF_ENTITY_TYPE, MQZAET_PRINCIPAL),
            string(cf.MQCACF_ENTITY_NAME, user.encode("latin-1", "replace")),
            string(cf.MQCACF_OBJECT_NAME, object_name(name or catalogue.name)),
            _listed(held),
        ]
    ]


_NAME_OPTIONS: Mapping[int, Callable[[str, str], bool]] = {
    cf.MQAUTHOPT_NAME_EXPLICIT: str.__eq__,
    cf.MQAUTHOPT_NAME_ALL_MATCHING: authority.profile_fits,
    cf.MQAUTHOPT_NAME_AS_WILDCARD: lambda profile, name: authority.profile_fits(name, profile),
}
_ENTITY_OPTIONS = (0, cf.MQAUTHOPT_ENTITY_EXPLICIT, cf.MQAUTHOPT_ENTITY_SET)
"""Without groups, the set of a user has the user alone."""


def inquire_authority_records(request: Request) -> Responses:
    """Run MQCMD_INQUIRE_AUTH_RECS: return the records whose profile matches, of one user or all.

    The option says how: the same name, every profile that matches an object's name, or the name is
    a pattern of profiles.
    """
    arguments = check(
        request.parameters,
        {
            cf.MQIACF_AUTH_OPTIONS: cf.MQCFT_INTEGER,
            cf.MQCACF_AUTH_PROFILE_NAME: cf.MQCFT_STRING,
            cf.MQIACF_OBJECT_TYPE: cf.MQCFT_INTEGER,
        },
        {cf.MQCACF_ENTITY_NAME: cf.MQCFT_STRING, cf.MQIACF_ENTITY_TYPE: cf.MQCFT_INTEGER},
    )
    kind, options = _object_kind(arguments), int(arguments.values[cf.MQIACF_AUTH_OPTIONS])
    matches = next(
        (match for of_name, match in _NAME_OPTIONS.items() if options - of_name in _ENTITY_OPTIONS),
        None,
    )
    if matches is None:
        raise PcfError.about("MQRC_OPTIONS_ERROR", cf.MQIACF_AUTH_OPTIONS)
    if cf.MQIACF_ENTITY_TYPE in arguments.values:
        _check_principal(arguments)
    name = arguments.text(cf.MQCACF_AUTH_PROFILE_NAME)
    if kind == authority.QUEUE_MANAGER:
        name = name or request.catalogue.name
    user = arguments.text(cf.MQCACF_ENTITY_NAME)
    responses = [
        [
            string(cf.MQCACF_AUTH_PROFILE_NAME, object_name(record.profile)),
            integer(cf.MQIACF_OBJECT_TYPE, arguments.values[cf.MQIACF_OBJECT_TYPE]),
            string(cf.MQCACF_ENTITY_NAME, record.principal.encode("latin-1", "replace")),
            integer(cf.MQIACF_ENTITY_TYPE, MQZAET_PRINCIPAL),
            _listed(record.granted),
        ]
        for record in request.catalogue.authorities
        if record.object_type == kind
        and user in {"", record.principal}
        and matches(record.profile, name)
    ]
    if not responses:
        raise PcfError.about("MQRCCF_NONE_FOUND", cf.MQCACF_AUTH_PROFILE_NAME)
    return responses


def _object_kind(arguments: Arguments) -> str:
    kind = _KINDS.get(arguments.values[cf.MQIACF_OBJECT_TYPE])
    if kind is None:
        raise PcfError.about("MQRCCF_PARM_VALUE_ERROR", cf.MQIACF_OBJECT_TYPE)
    return kind


def _check_principal(arguments: Arguments) -> None:
    if arguments.values[cf.MQIACF_ENTITY_TYPE] != MQZAET_PRINCIPAL:
        raise PcfError.about("MQRCCF_PARM_VALUE_ERROR", cf.MQIACF_ENTITY_TYPE)


def _listed(held: Iterable[str]) -> Parameter:
    numbers = sorted(NUMBERS[word] for word in held) or [_MQAUTH_NONE]
    return integers(cf.MQIACF_AUTHORIZATION_LIST, numbers)


AUTHORITY_COMMANDS: Mapping[int, Command] = {
    cf.MQCMD_INQUIRE_ENTITY_AUTH: inquire_entity_authority,
    cf.MQCMD_INQUIRE_AUTH_RECS: inquire_authority_records,
}
