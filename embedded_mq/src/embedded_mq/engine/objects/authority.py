"""Who may do what: authority records in, MQRC_NOT_AUTHORIZED or nothing out.

IBM MQ docs, "setmqaut", "SET AUTHREC", "Using OAM generic profiles", "MQOPEN authorizations".
While a queue manager has no authority record nothing is checked. With the first one a user may do
what the records grant him; only the owner of the queue manager, who is what a member of the group
mqm is to IBM's, may do everything but what a record made for him takes away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.storage.catalogue import AuthorityRecord, Catalogue

QUEUE, QUEUE_MANAGER = "QUEUE", "QMGR"
_ADMINISTRATION = {QUEUE: {"CHG", "CLR", "CRT", "DLT", "DSP"}, QUEUE_MANAGER: {"CHG", "DLT", "DSP"}}
_MQI = {
    QUEUE: {"BROWSE", "GET", "INQ", "PASSALL", "PASSID", "PUT", "SET", "SETALL", "SETID"},
    QUEUE_MANAGER: {"ALTUSR", "CONNECT", "INQ", "SET", "SETALL", "SETID"},
}
AUTHORITIES = {kind: frozenset(_MQI[kind] | _ADMINISTRATION[kind]) for kind in _MQI}
"""What can be granted on each type of object; nobody asks for that of administrators here."""

GROUPS = {
    kind: {
        "ALL": AUTHORITIES[kind],
        "ALLMQI": frozenset(_MQI[kind]),
        "ALLADM": frozenset(_ADMINISTRATION[kind]),
        "NONE": frozenset[str](),
    }
    for kind in AUTHORITIES
}


def check(catalogue: Catalogue, user: str, kind: str, name: str, needed: Iterable[str]) -> None:
    """Refuse what a user may not do with an object (MQRC_NOT_AUTHORIZED)."""
    if not catalogue.authorities:
        return
    missing = set(needed) - granted_authorities(catalogue, user, kind, name)
    if missing:
        log.info(
            "user %s has no authority %s on %s %s", user, "+".join(sorted(missing)), kind, name
        )
        raise CallFailedError("MQRC_NOT_AUTHORIZED")


def granted_authorities(catalogue: Catalogue, user: str, kind: str, name: str) -> frozenset[str]:
    """Return what the records let a user do: of those that fit the name the most specific."""
    fitting = [
        record
        for record in catalogue.authorities
        if (record.object_type, record.principal) == (kind, user)
        and (kind == QUEUE_MANAGER or _pattern(record.profile).fullmatch(name))
    ]
    if fitting:
        return max(fitting, key=_specificity).granted
    return AUTHORITIES[kind] if user == catalogue.owner else frozenset()


@cache
def _pattern(profile: str) -> re.Pattern[str]:
    """Read a profile: ? is a character of a qualifier, * are any of them, ** is any qualifiers."""
    parts = re.split(r"(\*\*|\*|\?)", profile)
    generic = {"**": ".*", "*": "[^.]*", "?": "[^.]"}
    return re.compile("".join(generic.get(part, re.escape(part)) for part in parts))


def _specificity(record: AuthorityRecord) -> list[int]:
    """Compare profiles from the left: a character counts more than ?, that more than *, than **."""
    weights = {"**": 0, "*": 1, "?": 2}
    return [weights.get(part, 3) for part in re.findall(r"\*\*|.", record.profile)]
