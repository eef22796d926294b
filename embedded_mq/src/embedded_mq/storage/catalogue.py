"""Load the definitions of a queue manager from its database."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.objects.attributes import (
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    Value,
    defaults,
)

RUNNING, QUIESCING, ENDED = "RUNNING", "QUIESCING", "ENDED"

DEFINITION_TYPE, CREATED_BY = ".DEFTYPE", ".CREATOR"
"""Attributes of dynamic queues without MQSC keywords: MQQDT, creating connection and handle."""
ALTERED = (".ALTDATE", ".ALTTIME")
"""When a queue was defined or altered; nothing sets it otherwise."""
CREATED = (".CRDATE", ".CRTIME")
"""When a queue was defined, which a change keeps."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One defined queue: `type` is an MQQT value, `attributes` go by MQSC keyword."""

    queue_id: int
    name: str
    type: int
    attributes: Mapping[str, Value]

    def number(self, keyword: str) -> int:
        """Return a numeric attribute, 0 if this type of queue does not have it."""
        return int(self.attributes.get(keyword, 0))

    def text(self, keyword: str) -> str:
        """Return a character attribute."""
        return str(self.attributes[keyword])

    @property
    def is_transmission_queue(self) -> bool:
        """Return whether it is a local queue with USAGE(XMITQ)."""
        return self.number("USAGE") == mq.MQUS_TRANSMISSION

    @property
    def is_temporary(self) -> bool:
        """Return whether it is a temporary dynamic queue, which ends with its creating handle."""
        return self.number(DEFINITION_TYPE) == mq.MQQDT_TEMPORARY_DYNAMIC


@dataclass(frozen=True, slots=True)
class AuthorityRecord:
    """An authority record: the authorities of a user on the objects that match a profile."""

    object_type: str
    profile: str
    principal: str
    granted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The definitions and the state of a queue manager at one moment.

    `start` counts its starts; `owner` is the user who created it.
    """

    version: int
    queue_manager: Mapping[str, Value]
    by_name: Mapping[str, Definition]
    by_id: Mapping[int, Definition]
    status: str
    start: int
    owner: str
    authorities: tuple[AuthorityRecord, ...]
    has_faults: bool

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return str(self.queue_manager["QMNAME"])

    def number(self, keyword: str) -> int:
        """Return a numeric attribute of the queue manager."""
        return int(self.queue_manager[keyword])

    def monitoring(self, queue: Definition) -> int:
        """Return the MQMON at which a queue is monitored (IBM MQ docs, "ALTER QMGR", MONQ)."""
        of_all, own = self.number("MONQ"), queue.number("MONQ")
        if of_all == mq.MQMON_NONE:
            return mq.MQMON_OFF
        return of_all if own == mq.MQMON_Q_MGR else own


# A queue manager may be older than one of its attributes, or of its queues' attributes.
_DEFAULTS = defaults(QUEUE_MANAGER_ATTRIBUTES)
_DEFAULTS_OF_QUEUES = {kind: defaults(known) for kind, known in QUEUE_ATTRIBUTES.items()}


def load(execute: Callable[..., Any]) -> Catalogue:
    """Load the definitions; a change between the reads causes another load at the next call."""
    (version,) = execute("PRAGMA user_version").fetchone()
    queues = [
        Definition(
            queue_id, name, queue_type, _DEFAULTS_OF_QUEUES[queue_type] | json.loads(attributes)
        )
        for queue_id, name, queue_type, attributes in execute(
            "SELECT queue_id, name, type, attributes FROM queue ORDER BY name"
        )
    ]
    own = dict(execute("SELECT keyword, value FROM queue_manager").fetchall())
    status, start, owner = execute("SELECT status, start, owner FROM operation").fetchone()
    return Catalogue(
        version,
        own | {keyword: value for keyword, value in _DEFAULTS.items() if keyword not in own},
        {queue.name: queue for queue in queues},
        {queue.queue_id: queue for queue in queues},
        status,
        start,
        owner,
        tuple(
            AuthorityRecord(kind, profile, principal, frozenset(granted.split()))
            for kind, profile, principal, granted in execute(
                "SELECT object_type, profile, principal, granted FROM authority ORDER BY 1, 2, 3"
            )
        ),
        execute("SELECT 1 FROM fault").fetchone() is not None,
    )
