"""Highlight messages that will soon expire or came from a backout, in columns of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqdlq.constants import MQRC
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.connect import QueueManager

BACKED_OUT: Final = MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]
"""The reason that IBM's classes for Java put into the MQDLH."""
MAX_INQUIRED_DESTINATIONS: Final = 1_000
"""How many destinations one snapshot inquires at most; the attributes of others are unknown."""


class BackoutRule(NamedTuple):
    """BOTHRESH and BOQNAME of a queue."""

    threshold: int
    requeue_q: str


InquireBackoutRule = Callable[[str], BackoutRule | None]


class Highlighter:
    """Highlights the messages of one queue.

    A message came from a backout if its MQDLH says so, if its BackoutCount has reached its
    destination's BOTHRESH, or if this queue is its destination's BOQNAME. A message is about to
    expire if no more than RETRYINT of its Expiry remains: the next pass would not meet it.
    """

    def __init__(
        self, queue_manager: str, queue: str, retry_interval_s: int, ask: InquireBackoutRule
    ) -> None:
        """Highlight by `ask`, which returns a local queue's rule, None if it cannot be inquired."""
        self._queue_manager, self._queue, self._inquire = queue_manager, queue, ask
        self._retry_interval_tenths = retry_interval_s * 10
        self._backout_rules: dict[str, BackoutRule | None] = {}

    def highlight_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the highlight columns of one message by their names."""
        rule = self._find_backout_rule(
            row["dlh_dest_q_name"] or "", row["dlh_dest_q_mgr_name"] or ""
        )
        return {
            "expires_before_next_pass": 0 <= row["expiry"] <= self._retry_interval_tenths,
            "came_from_backout": row["dlh_reason"] == BACKED_OUT
            or self._is_backout(rule, row["backout_count"]),
            "dest_backout_threshold": rule and rule.threshold,
            "dest_backout_requeue_q": rule and rule.requeue_q,
        }

    def highlight_columns(
        self,
        columns: Mapping[str, Any],
        expiry: npt.NDArray[np.int32],
        backout_counts: npt.NDArray[np.int32],
    ) -> dict[str, Any]:
        """Return the highlight columns of many messages."""
        names = columns["dlh_dest_q_name"].to_pylist()
        others = columns["dlh_dest_q_mgr_name"].to_pylist()
        rules = [self._find_backout_rule(*place) for place in zip(names, others, strict=True)]
        reasons = columns["dlh_reason"].tolist()
        return {
            "expires_before_next_pass": (expiry >= 0) & (expiry <= self._retry_interval_tenths),
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

    def _find_backout_rule(self, queue: str, queue_manager: str) -> BackoutRule | None:
        if not queue or queue_manager not in {"", self._queue_manager}:
            return None
        if queue not in self._backout_rules:
            asks = len(self._backout_rules) < MAX_INQUIRED_DESTINATIONS
            if not asks:
                return None
            self._backout_rules[queue] = self._inquire(queue)
        return self._backout_rules[queue]


def make_backout_inquiry(queue_manager: QueueManager) -> InquireBackoutRule:
    """Return a function that inquires the backout rule of a queue, None if it is unknown."""
    constants = queue_manager.client.CMQC
    selectors = constants.MQIA_BACKOUT_THRESHOLD, constants.MQCA_BACKOUT_REQ_Q_NAME

    def ask(queue: str) -> BackoutRule | None:
        try:
            threshold, requeue_q = queue_manager.inquire_attributes(queue, *selectors)
        except QueueManagerError:
            return None  # no local queue, or no authority to inquire: nothing depends on it
        return BackoutRule(int(threshold), str(requeue_q))

    return ask
