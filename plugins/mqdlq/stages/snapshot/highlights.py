"""What a person should see at once about a message: its row in, marks as further columns out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager

BACKED_OUT: Final = MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]
"""What an application's classes put into the MQDLH."""
MOST_DESTINATIONS: Final = 1_000
"""How many destinations one snapshot asks about at most; beyond, what they say is unknown."""


class BackoutRule(NamedTuple):
    """What a queue says of messages that are backed out: BOTHRESH and BOQNAME."""

    threshold: int
    requeue_q: str


Ask = Callable[[str], BackoutRule | None]


class Marks:
    """Marks the messages of one queue.

    A message came from a backout where its MQDLH says so, where its BackoutCount has come to its
    destination's BOTHRESH, or where this queue is its destination's BOQNAME. It is about to expire
    where no more than RETRYINT is left of it: a next pass would not meet it.
    """

    def __init__(self, queue_manager: str, queue: str, retry_interval_s: int, ask: Ask) -> None:
        """`ask` returns what a local queue says, None where it cannot be asked."""
        self._queue_manager, self._queue, self._ask = queue_manager, queue, ask
        self._tenths = retry_interval_s * 10
        self._known: dict[str, BackoutRule | None] = {}

    def of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the marks of one message by the names of their columns."""
        rule = self._rule(row["dlh_dest_q_name"] or "", row["dlh_dest_q_mgr_name"] or "")
        return {
            "expires_before_next_pass": 0 <= row["expiry"] <= self._tenths,
            "came_from_backout": row["dlh_reason"] == BACKED_OUT
            or self._is_backout(rule, row["backout_count"]),
            "dest_backout_threshold": rule and rule.threshold,
            "dest_backout_requeue_q": rule and rule.requeue_q,
        }

    def of_columns(
        self,
        columns: Mapping[str, Any],
        expiry: npt.NDArray[np.int32],
        backout_counts: npt.NDArray[np.int32],
    ) -> dict[str, Any]:
        """Return the marks of many messages, as columns."""
        names = columns["dlh_dest_q_name"].to_pylist()
        others = columns["dlh_dest_q_mgr_name"].to_pylist()
        rules = [self._rule(*place) for place in zip(names, others, strict=True)]
        reasons = columns["dlh_reason"].tolist()
        return {
            "expires_before_next_pass": (expiry >= 0) & (expiry <= self._tenths),
            "came_from_backout": [
                reason == BACKED_OUT or self._is_backout(rule, count)
                for rule, count, reason in zip(rules, backout_counts.tolist(), reasons, strict=True)
            ],
            "dest_backout_threshold": [rule and rule.threshold for rule in rules],
            "dest_backout_requeue_q": [rule and rule.requeue_q for rule in rules],
        }

    def _is_backout(self, rule: BackoutRule | None, backout_count: int) -> bool:
        if rule is None:
            return False
        return 0 < rule.threshold <= backout_count or rule.requeue_q == self._queue

    def _rule(self, queue: str, queue_manager: str) -> BackoutRule | None:
        if not queue or queue_manager not in {"", self._queue_manager}:
            return None
        if queue not in self._known:
            asks = len(self._known) < MOST_DESTINATIONS
            if not asks:
                return None
            self._known[queue] = self._ask(queue)
        return self._known[queue]


def asking(queue_manager: QueueManager) -> Ask:
    """Return how to ask a queue manager; what cannot be inquired is not known."""
    constants = queue_manager.client.CMQC
    selectors = constants.MQIA_BACKOUT_THRESHOLD, constants.MQCA_BACKOUT_REQ_Q_NAME

    def ask(queue: str) -> BackoutRule | None:
        try:
            threshold, requeue_q = queue_manager.inquire_attributes(queue, *selectors)
        except QueueManagerError:
            return None  # no local queue, or no authority to inquire: nothing depends on it
        return BackoutRule(int(threshold), str(requeue_q))

    return ask
