"""Run SET, DELETE and DISPLAY AUTHREC (IBM MQ docs, "SET AUTHREC")."""

import re
from dataclasses import dataclass

from embedded_mq.engine.connection import Connection
from embedded_mq.engine.objects.authority import (
    AUTHORITIES,
    GROUPS,
    QUEUE_MANAGER,
    granted_authorities,
)
from embedded_mq.engine.objects.queue_objects import matches_name
from embedded_mq.mqsc.syntax import Command, ProblemError, split_parameters
from embedded_mq.storage.catalogue import AuthorityRecord

PROFILE = re.compile(r"[A-Za-z0-9._/%*?]{1,48}")
EXAMPLE = "SET AUTHREC PROFILE(MY.QUEUE) OBJTYPE(QUEUE) PRINCIPAL('user') AUTHADD(PUT,INQ)"


@dataclass(frozen=True, slots=True)
class Subject:
    """The key of an authority record, and the other parameters of the command."""

    object_type: str
    profile: str
    principal: str
    rest: dict[str, str]


def set_record(connection: Connection, command: Command) -> list[str]:
    """Grant and revoke authorities; the first record switches the checks on."""
    subject = _subject(connection, command, "AUTHADD", "AUTHRMV")
    if not subject.rest:
        raise ProblemError(command.line, f"SET AUTHREC needs AUTHADD or AUTHRMV, as in {EXAMPLE}")
    catalogue = connection.store.catalogue()
    found = _record(connection, subject)
    if found is not None:
        held = found.granted
    elif subject.principal == catalogue.owner:
        held = granted_authorities(catalogue, catalogue.owner, subject.object_type, subject.profile)
    else:
        held = frozenset()
    held |= _authorities(command, subject, "AUTHADD")
    held -= _authorities(command, subject, "AUTHRMV")
    connection.store.execute(
        "INSERT OR REPLACE INTO authority VALUES(?, ?, ?, ?)",
        (subject.object_type, subject.profile, subject.principal, " ".join(sorted(held))),
    )
    connection.store.definitions_changed()
    return [f"set {_line(AuthorityRecord(*_key(subject), held))}"]


def delete_record(connection: Connection, command: Command) -> list[str]:
    """Delete a record."""
    subject = _subject(connection, command)
    if _record(connection, subject) is None:
        raise ProblemError(
            command.line, f"{subject.principal} has no authority record for {subject.profile}"
        )
    connection.store.execute(
        "DELETE FROM authority WHERE object_type = ? AND profile = ? AND principal = ?",
        _key(subject),
    )
    connection.store.definitions_changed()
    return [f"deleted AUTHREC PROFILE({subject.profile}) PRINCIPAL({subject.principal})"]


def display(connection: Connection, command: Command) -> list[str]:
    """Display the records that match the parameters."""
    wanted, rest = split_parameters(command, "PROFILE", "OBJTYPE", "PRINCIPAL")
    if rest:
        raise ProblemError(
            rest[0].line, "DISPLAY AUTHREC takes only PROFILE, OBJTYPE and PRINCIPAL"
        )
    return [
        _line(record)
        for record in connection.store.catalogue().authorities
        if matches_name(record.profile, wanted.get("PROFILE") or "*")
        and matches_name(record.principal, wanted.get("PRINCIPAL") or "*")
        and wanted.get("OBJTYPE", record.object_type) == record.object_type
    ]


def _subject(connection: Connection, command: Command, *others: str) -> Subject:
    found, rest = split_parameters(command, "PROFILE", "OBJTYPE", "PRINCIPAL", *others)
    if rest:
        raise ProblemError(
            rest[0].line,
            f"{command.verb} AUTHREC does not support {rest[0].keyword}; use {EXAMPLE}",
        )
    object_type, principal = found.pop("OBJTYPE", None), found.pop("PRINCIPAL", None)
    profile = found.pop("PROFILE", None)
    if object_type == QUEUE_MANAGER:
        profile = connection.store.catalogue().name
    if object_type not in AUTHORITIES or not principal or not PROFILE.fullmatch(profile or ""):
        raise ProblemError(
            command.line,
            f"{command.verb} AUTHREC needs PROFILE, OBJTYPE(QUEUE), OBJTYPE(QMGR) or"
            f" OBJTYPE(CHANNEL), and PRINCIPAL, as in {EXAMPLE}",
        )
    return Subject(
        object_type, profile or "", principal, {key: value or "" for key, value in found.items()}
    )


def _key(subject: Subject) -> tuple[str, str, str]:
    return subject.object_type, subject.profile, subject.principal


def _record(connection: Connection, subject: Subject) -> AuthorityRecord | None:
    records = connection.store.catalogue().authorities
    fitting = (
        record
        for record in records
        if (record.object_type, record.profile, record.principal) == _key(subject)
    )
    return next(fitting, None)


def _authorities(command: Command, subject: Subject, keyword: str) -> frozenset[str]:
    words = subject.rest.get(keyword, "").replace(",", " ").upper().split()
    known, groups = AUTHORITIES[subject.object_type], GROUPS[subject.object_type]
    named: set[str] = set()
    for word in words:
        if word not in known and word not in groups:
            raise ProblemError(
                command.line,
                f"{keyword}({word}) is not valid for OBJTYPE({subject.object_type}); use"
                f" {' '.join(sorted(known))} {' '.join(groups)}",
            )
        named |= groups.get(word, {word})
    return frozenset(named)


def _line(record: AuthorityRecord) -> str:
    words = " ".join(sorted(record.granted)) or "NONE"
    return (
        f"AUTHREC PROFILE({record.profile}) OBJTYPE({record.object_type})"
        f" PRINCIPAL({record.principal}) AUTHLIST({words})"
    )
