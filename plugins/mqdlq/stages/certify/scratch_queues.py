"""The scratch queues on which behaviours are tried, and the commands that define them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq.errors import CertificationError

DEFAULT_PREFIX: Final = "MQDLQ.CERT."
TEMPORARY: Final = "mqdlq certify: scratch queue, deleted after the run"
"""DESCR of a scratch queue that `mqdlq certify` has created and deletes."""
KEPT: Final = "mqdlq certify: scratch queue, emptied after the run"
"""DESCR of a scratch queue that an administrator has defined and `mqdlq certify` only empties."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._/%]{1,40}")
_CONNECT: Final = "CONNECT,INQ"
_SET_CONTEXT: Final = "SETALL"
QUEUE_AUTHORITIES: Final = "BROWSE,GET,PUT,INQ,PASSALL"
"""The authorities that every behaviour except restoring needs on each scratch queue."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a queue: as MQSC, and as selector and value of the MQI."""

    mqsc: str
    selector: str
    value: int


# The site may have changed the defaults of these in SYSTEM.DEFAULT.LOCAL.QUEUE.
_COMMON: Final = (
    Attribute("SHARE", "MQIA_SHAREABILITY", 1),
    Attribute("DEFSOPT(SHARED)", "MQIA_DEF_INPUT_OPEN_OPTION", 2),
    Attribute("MSGDLVSQ(PRIORITY)", "MQIA_MSG_DELIVERY_SEQUENCE", 0),
)


@dataclass(frozen=True, slots=True)
class ScratchQueue:
    """A local queue; its name is the prefix and the suffix."""

    suffix: str
    own: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that behaviours rely on."""
        return _COMMON + self.own

    def name(self, prefix: str) -> str:
        """Return the name of the queue under a prefix."""
        return prefix + self.suffix

    def mqsc(self, prefix: str) -> str:
        """Return the command by which an administrator defines the queue."""
        attributes = " ".join(attribute.mqsc for attribute in self.attributes)
        return f"DEFINE QLOCAL('{self.name(prefix)}') {attributes} +\n  DESCR('{KEPT}')"


SOURCE: Final = ScratchQueue("SOURCE", (Attribute("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100),))
TARGET: Final = ScratchQueue("TARGET", (Attribute("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100),))
STATE: Final = ScratchQueue("STATE", (Attribute("DEFPSIST(YES)", "MQIA_DEF_PERSISTENCE", 1),))
FULL: Final = ScratchQueue("FULL", (Attribute("MAXDEPTH(1)", "MQIA_MAX_Q_DEPTH", 1),))
NO_PUT: Final = ScratchQueue("NOPUT", (Attribute("PUT(DISABLED)", "MQIA_INHIBIT_PUT", 1),))
NO_GET: Final = ScratchQueue("NOGET", (Attribute("GET(DISABLED)", "MQIA_INHIBIT_GET", 1),))
SHORT: Final = ScratchQueue("SHORT", (Attribute("MAXMSGL(100)", "MQIA_MAX_MSG_LENGTH", 100),))
LOCK: Final = ScratchQueue("LOCK")
"""A run holds it for exclusive input, so that a second one does not use the same queues."""
MISSING: Final = ScratchQueue("MISSING")
"""A name under the prefix that is never defined."""

SCRATCH_QUEUES: Final = (LOCK, SOURCE, TARGET, STATE, FULL, NO_PUT, NO_GET, SHORT)


def check_prefix(prefix: str) -> str:
    """Return the prefix; raise CertificationError if no queue can have it, or it is IBM's."""
    if not _PREFIX.fullmatch(prefix):
        raise CertificationError(
            "MQDLQ-951",
            f"--scratch-prefix {prefix!r} is not valid; use 1 to 40 letters, digits and . _ / %,"
            f" such as {DEFAULT_PREFIX}",
        )
    if prefix.upper().startswith("SYSTEM"):
        raise CertificationError(
            "MQDLQ-951",
            f"--scratch-prefix {prefix!r} is not valid; names that begin with SYSTEM are IBM's, use"
            f" a prefix such as {DEFAULT_PREFIX}",
        )
    return prefix


def administrator_commands(prefix: str, user: str) -> Iterator[str]:
    """Yield the MQSC commands that define the scratch queues and grant a user the authorities."""
    principal = f"PRINCIPAL('{user or '…'}')"
    yield "* The scratch queues of mqdlq certify; it empties them after a run."
    yield from (queue.mqsc(prefix) for queue in SCRATCH_QUEUES)
    yield "* The authorities that it needs."
    yield f"SET AUTHREC OBJTYPE(QMGR) {principal} AUTHADD({_CONNECT})"
    profile = f"PROFILE('{prefix}**') OBJTYPE(QUEUE)"
    yield f"SET AUTHREC {profile} {principal} +\n  AUTHADD({QUEUE_AUTHORITIES})"
    yield "* To restore messages, a user sets their context; without SETALL this is not tried."
    yield f"SET AUTHREC OBJTYPE(QMGR) {principal} AUTHADD({_SET_CONTEXT})"
    yield f"SET AUTHREC {profile} {principal} AUTHADD({_SET_CONTEXT})"
