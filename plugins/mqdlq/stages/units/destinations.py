"""What is known of the queues messages go to: their names in, the reason why puts fail out."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.model import PutAuthority
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.hints import hint
from mqdlq.mqi.streams import stream_advice

MQTC_OFF = 0
MQQA_PUT_INHIBITED = 1

OF_THE_DESTINATION = frozenset(
    MQRC[name]
    for name in (
        "MQRC_ALIAS_BASE_Q_TYPE_ERROR",
        "MQRC_PUT_INHIBITED",
        "MQRC_Q_DELETED",
        "MQRC_Q_FULL",
        "MQRC_Q_SPACE_NOT_AVAILABLE",
        "MQRC_Q_TYPE_ERROR",
        "MQRC_UNKNOWN_ALIAS_BASE_Q",
        "MQRC_UNKNOWN_OBJECT_NAME",
        "MQRC_UNKNOWN_OBJECT_Q_MGR",
        "MQRC_UNKNOWN_REMOTE_Q_MGR",
        "MQRC_XMIT_Q_TYPE_ERROR",
        "MQRC_XMIT_Q_USAGE_ERROR",
        "MQRC_OBJECT_DAMAGED",
        "MQRC_REMOTE_Q_NAME_ERROR",
        "MQRC_STORAGE_MEDIUM_FULL",
        "MQRC_NAME_NOT_VALID_FOR_TYPE",
        "MQRC_UNKNOWN_XMIT_Q",
        "MQRC_UNKNOWN_DEF_XMIT_Q",
        "MQRC_DEF_XMIT_Q_TYPE_ERROR",
        "MQRC_DEF_XMIT_Q_USAGE_ERROR",
        "MQRC_CLUSTER_PUT_INHIBITED",
    )
)
"""Reasons that hold for every message to a destination, not for the one that met them."""

Destination = tuple[str, str]
"""A queue's name and its queue manager's, blank where name resolution is to find it."""


@dataclass(slots=True)
class Destinations:
    """The destinations of one pass: which are blocked and why, and how far each unit may go.

    `limit` is the most messages to one destination in a unit of work.
    """

    queue_manager: QueueManager
    limit: int
    _blocked: dict[Destination, int] = field(default_factory=dict)
    _closed_to_us: set[Destination] = field(default_factory=set)
    _longest: dict[Destination | None, int] = field(default_factory=dict)
    _without_trigger: set[Destination] = field(default_factory=set)
    _levels: dict[Destination | None, int] = field(default_factory=dict)
    _advice: dict[tuple[Destination, int], str] = field(default_factory=dict)

    def reason_blocked(
        self, destination: Destination | None, authority: PutAuthority = PutAuthority.DEF
    ) -> int:
        """Return the reason why no put there under that authority can succeed in this pass, or 0.

        The first question about a destination is asked of the queue manager, by inquiry only.
        """
        if destination is None:
            return 0
        if destination not in self._blocked:
            self._blocked[destination] = self._inquire(*destination)
        if authority is PutAuthority.DEF and destination in self._closed_to_us:
            return MQRC["MQRC_NOT_AUTHORIZED"]
        return self._blocked[destination]

    def level(self, destination: Destination | None) -> int:
        """Return how many messages to a destination one unit of work may hold now."""
        return min(self._levels.get(destination, 1), self.limit)

    def succeeded(self, destination: Destination | None) -> None:
        """Double the allowance: a whole one went well."""
        self._levels[destination] = min(2 * self.level(destination), self.limit)

    def failed(
        self,
        destination: Destination | None,
        reason: int,
        authority: PutAuthority = PutAuthority.DEF,
    ) -> None:
        """Start again from single messages; stop trying where the reason is the destination's.

        That we have no authority there holds for all that we put as ourselves; under PUTAUT(CTX)
        it is the one user's who wrote the message.
        """
        self._levels[destination] = 1
        if destination is None:
            return
        if reason in OF_THE_DESTINATION:
            self._blocked[destination] = reason
        elif reason == MQRC["MQRC_NOT_AUTHORIZED"] and authority is PutAuthority.DEF:
            self._closed_to_us.add(destination)

    def is_too_long(self, destination: Destination | None, length: int) -> bool:
        """Whether a message of that many bytes is known to be too long for a destination."""
        limit = self._longest.get(destination)
        return limit is not None and length > limit

    def may_trigger(self, destination: Destination | None) -> bool:
        """Whether a put there may make a trigger message: what is not known to have none may."""
        return destination is not None and destination not in self._without_trigger

    def advice(self, destination: Destination | None, reason: int) -> str:
        """Return what the reason of a failed put means, and where to look; "" for nothing to add.

        The queue manager is asked once about each destination and reason.
        """
        if destination is None:
            return ""
        if (destination, reason) not in self._advice:
            name, q_mgr_name = destination
            is_local = bool(name) and q_mgr_name in {"", self.queue_manager.name}
            of_a_queue = OF_THE_DESTINATION | {MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]}
            advice = hint(reason, name)
            if not advice and is_local and reason in of_a_queue:
                advice = stream_advice(self.queue_manager, name, reason)
            self._advice[destination, reason] = advice
        return self._advice[destination, reason]

    def _inquire(self, name: str, q_mgr_name: str) -> int:
        """Look whether a local queue is there, open for puts, and has room; note what it takes.

        A queue that is not local, and so has no depth, or that we may not inquire about, is left
        to the first put; a blank name at another queue manager is refused by any put (IBM MQ docs,
        "2184 (0888) (RC2184)").
        """
        if q_mgr_name not in {"", self.queue_manager.name}:
            return 0 if name else MQRC["MQRC_REMOTE_Q_NAME_ERROR"]
        constants = self.queue_manager.client.CMQC
        try:
            inhibited, depth, deepest, longest, triggers = self.queue_manager.inquire_attributes(
                name,
                constants.MQIA_INHIBIT_PUT,
                constants.MQIA_CURRENT_Q_DEPTH,
                constants.MQIA_MAX_Q_DEPTH,
                constants.MQIA_MAX_MSG_LENGTH,
                constants.MQIA_TRIGGER_CONTROL,
            )
        except QueueManagerError as error:
            unknown = MQRC["MQRC_UNKNOWN_OBJECT_NAME"]
            return unknown if error.reason == unknown else 0
        self._longest[name, q_mgr_name] = longest
        if triggers == MQTC_OFF:
            self._without_trigger.add((name, q_mgr_name))
        if inhibited == MQQA_PUT_INHIBITED:
            return MQRC["MQRC_PUT_INHIBITED"]
        return MQRC["MQRC_Q_FULL"] if depth >= deepest else 0
