"""Find out which target queues accept puts, and explain why a put to one of them fails."""

from contextlib import suppress

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.model import Destination, PutAuthority
from mqdlq.mqi.client import hint
from mqdlq.mqi.connect import CONNECTION_GONE_REASONS, QueueManager
from mqdlq.mqi.inquiries import stream_advice

DESTINATION_REASONS = frozenset(
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
"""Reasons that apply to every message for a destination, not only to the message that met them."""


class Destinations:
    """The destinations of one pass: which of them are blocked, and how large a unit of work may be.

    `limit` is the largest number of messages to one destination in a unit of work.
    """

    def __init__(self, queue_manager: QueueManager, limit: int) -> None:
        self.queue_manager, self.limit = queue_manager, limit
        self._blocked: dict[Destination, int] = {}
        self._not_authorized: set[Destination] = set()
        self._max_lengths: dict[Destination | None, int] = {}
        self._without_trigger: set[Destination] = set()
        self._allowances: dict[Destination | None, int] = {}
        self._explanations: dict[tuple[Destination, int], str] = {}
        self._resolved: dict[Destination, Destination] = {}
        self._own: dict[tuple[Destination, tuple[str, ...]], str] = {}

    def find_blocking_reason(
        self, destination: Destination | None, authority: PutAuthority = PutAuthority.DEF
    ) -> int:
        """Return the reason why puts to a destination cannot succeed in this pass, or 0.

        The answer depends on the authority that the put uses. The first question about a
        destination inquires its attributes; no message is put.
        """
        if destination is None:
            return 0
        if destination not in self._blocked:
            self._blocked[destination] = self._inquire(*destination)
        if authority is PutAuthority.DEF and destination in self._not_authorized:
            return MQRC["MQRC_NOT_AUTHORIZED"]
        return self._blocked[destination]

    def allowed_messages(self, destination: Destination | None) -> int:
        return min(self._allowances.get(destination, 1), self.limit)

    def raise_allowance(self, destination: Destination | None) -> None:
        """Double the allowance of a destination after a full unit of work has committed."""
        self._allowances[destination] = min(2 * self.allowed_messages(destination), self.limit)

    def record_failure(
        self,
        destination: Destination | None,
        reason: int,
        authority: PutAuthority = PutAuthority.DEF,
    ) -> None:
        """Reset the allowance to one message; block the destination if the reason applies to it.

        MQRC_NOT_AUTHORIZED blocks the puts under the handler's own authority. Under PUTAUT(CTX) it
        applies only to the user who wrote the message, so nothing is blocked.
        """
        self._allowances[destination] = 1
        if destination is None:
            return
        if reason in DESTINATION_REASONS:
            self._blocked[destination] = reason
        elif reason == MQRC["MQRC_NOT_AUTHORIZED"] and authority is PutAuthority.DEF:
            self._not_authorized.add(destination)

    def is_too_long(self, destination: Destination | None, length: int) -> bool:
        limit = self._max_lengths.get(destination)
        return limit is not None and length > limit

    def may_trigger(self, destination: Destination | None) -> bool:
        """Return whether a put may create a trigger message; True where triggering is unknown."""
        return destination is not None and destination not in self._without_trigger

    def explain_failure(self, destination: Destination | None, reason: int) -> str:
        """Return what the reason of a failed put means and where to look, or "".

        Each pair of destination and reason asks the queue manager at most once.
        """
        if destination is None:
            return ""
        if (destination, reason) not in self._explanations:
            name, q_mgr_name = destination
            is_local = bool(name) and q_mgr_name in {"", self.queue_manager.name}
            of_a_queue = DESTINATION_REASONS | {MQRC["MQRC_MSG_TOO_BIG_FOR_Q"]}
            advice = hint(reason, name)
            if not advice and is_local and reason in of_a_queue:
                advice = stream_advice(self.queue_manager, name, reason)
            self._explanations[destination, reason] = advice
        return self._explanations[destination, reason]

    def find_own(self, destination: Destination, queues: tuple[str, ...], user: bytes = b"") -> str:
        """Return which of these queues of this queue manager a destination leads to, or "".

        Aliases of queues and of queue managers count, also among `queues`. Each name is resolved at
        most once; one that cannot be resolved stands for itself, and then its put fails or decides.
        `user` is the user whose authority the put needs, or b"".
        """
        if (destination, queues) in self._own:
            return self._own[destination, queues]
        constants = self.queue_manager.client.CMQC
        target = self._resolve(destination, constants.MQOO_OUTPUT, user)
        own = {self._resolve((name, ""), constants.MQOO_BROWSE): name for name in queues}
        if destination in self._resolved:
            self._own[destination, queues] = own.get(target, "")
        return own.get(target, "")

    def resolved(self, destination: Destination) -> Destination:
        """Return where a destination leads that `find_own` has resolved, any other one itself."""
        return self._resolved.get(destination, destination)

    def _resolve(self, destination: Destination, options: int, user: bytes = b"") -> Destination:
        name, place = destination
        if destination not in self._resolved:
            try:
                found = self._resolve_by_opening(name, place, options, user)
            except QueueManagerError as error:
                if error.reason in CONNECTION_GONE_REASONS:
                    raise
                found = name, "" if place == self.queue_manager.name else place
                if user:
                    return found  # another user may be allowed to open it
            self._resolved[destination] = found
        return self._resolved[destination]

    def _resolve_by_opening(
        self, name: str, place: str, options: int, user: bytes
    ) -> tuple[str, str]:
        """Resolve a name; a model queue is not opened, which would create a queue."""
        constants = self.queue_manager.client.CMQC
        if place in {"", self.queue_manager.name}:
            with suppress(QueueManagerError):
                kind = self.queue_manager.inquire_queue(name, constants.MQIA_Q_TYPE)
                if kind in {constants.MQQT_LOCAL, constants.MQQT_MODEL}:
                    return name, ""
        return self.queue_manager.resolve(name, place, options, user)

    def inquire_depth(self, destination: Destination) -> int | None:
        """Return the current depth of a local queue, None if it cannot be inquired.

        An alias, a remote queue and a queue of another queue manager have no depth.
        """
        name, q_mgr_name = destination
        if q_mgr_name not in {"", self.queue_manager.name}:
            return None
        selector = self.queue_manager.client.CMQC.MQIA_CURRENT_Q_DEPTH
        try:
            return int(self.queue_manager.inquire_queue(name, selector))
        except QueueManagerError as error:
            if error.reason in CONNECTION_GONE_REASONS:
                raise
            return None

    def _inquire(self, name: str, q_mgr_name: str) -> int:
        """Return the reason why a local queue accepts no put, or 0; remember its limits.

        The result is 0 for a queue that is not local, which has no depth, and for a queue that the
        handler may not inquire: the first put decides. A blank name at another queue manager is
        refused by any put (IBM MQ docs, "2184 (0888) (RC2184)").
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
        self._max_lengths[name, q_mgr_name] = longest
        if triggers == constants.MQTC_OFF:
            self._without_trigger.add((name, q_mgr_name))
        if inhibited == constants.MQQA_PUT_INHIBITED:
            return MQRC["MQRC_PUT_INHIBITED"]
        return MQRC["MQRC_Q_FULL"] if depth >= deepest else 0
