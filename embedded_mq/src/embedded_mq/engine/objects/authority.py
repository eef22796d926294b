"""Check the authority of users by authority records.

IBM MQ docs, "setmqaut", "SET AUTHREC", "Using OAM generic profiles", "MQOPEN authorizations".
Without any authority record, a queue manager checks nothing. With the first record, a user has the
authorities that records grant. Only the owner of the queue manager, like a member of IBM's group
mqm, has every authority unless a record for the owner revokes it.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from embedded_mq.engine.failures import CallFailedError, log
from embedded_mq.storage.catalogue import AuthorityRecord, Catalogue

QUEUE, QUEUE_MANAGER, CHANNEL = "QUEUE", "QMGR", "CHANNEL"
_ADMINISTRATION = {
    QUEUE: {"CHG", "CLR", "CRT", "DLT", "DSP"},
    QUEUE_MANAGER: {"CHG", "DLT", "DSP"},
    CHANNEL: {"CHG", "CRT", "CTRL", "CTRLX", "DLT", "DSP"},
}
_MQI = {
    QUEUE: {"BROWSE", "GET", "INQ", "PASSALL", "PASSID", "PUT", "SET", "SETALL", "SETID"},
    QUEUE_MANAGER: {"ALTUSR", "CONNECT", "INQ", "SET", "SETALL", "SETID"},
    CHANNEL: set[str](),
}
AUTHORITIES = {kind: frozenset(_MQI[kind] | _ADMINISTRATION[kind]) for kind in _MQI}
"""The authorities of each type of object; those for administration are never checked by the MQI."""

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
    """Raise CallFailedError if a user lacks authority on an object (MQRC_NOT_AUTHORIZED)."""
    if not catalogue.authorities:
        return
    missing = set(needed) - granted_authorities(catalogue, user, kind, name)
    if missing:
        log.info(
            "user %s has no authority %s on %s %s", user, "+".join(sorted(missing)), kind, name
        )
        raise CallFailedError("MQRC_NOT_AUTHORIZED")


def granted_authorities(catalogue: Catalogue, user: str, kind: str, name: str) -> frozenset[str]:
    """Return the authorities of a user on an object, by the most specific matching record."""
    fitting = [
        record
        for record in catalogue.authorities
        if (record.object_type, record.principal) == (kind, user)
        and (kind == QUEUE_MANAGER or profile_fits(record.profile, name))
    ]
    if fitting:
        return max(fitting, key=_specificity).granted
    return AUTHORITIES[kind] if user == catalogue.owner else frozenset()


@lru_cache(maxsize=4096)
def profile_fits(profile: str, name: str) -> bool:
    """Match a profile: ? is one character of a qualifier, * any number, ** any qualifiers.

    All ways to match are followed together, so that no profile takes long.
    """
    ends = {0}
    for part in re.split(r"(\*\*|\*|\?)", profile):
        if part == "**":
            ends = {end for start in ends for end in range(start, len(name) + 1)}
        elif part == "*":
            rest = {start: len(name[start:].partition(".")[0]) for start in ends}
            ends = {start + more for start, length in rest.items() for more in range(length + 1)}
        elif part == "?":
            ends = {start + 1 for start in ends if name[start : start + 1] not in {"", "."}}
        else:
            ends = {start + len(part) for start in ends if name.startswith(part, start)}
    return len(name) in ends


def _specificity(record: AuthorityRecord) -> list[int]:
    """Return the sort key of a profile: from the left, a character, then ?, then *, then **."""
    weights = {"**": 0, "*": 1, "?": 2}
    return [weights.get(part, 3) for part in re.findall(r"\*\*|.", record.profile)]
