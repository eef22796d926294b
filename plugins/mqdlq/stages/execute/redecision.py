"""Decide about a message again before it is moved, from the message itself.

The plan was made from files, and its digest proves only that it is the accepted plan. Here the
run's own rules, from the ledger, decide about the message under the cursor. If they give it other
steps than its plan, a file of the snapshot or of the plan was altered, and the message stays.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from mqdlq.headers import DLH_LENGTH, header_row
from mqdlq.lake import snapshot_rows
from mqdlq.ledger import Ledger, Run
from mqdlq.model import Step
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.mqi.connect import QueueManager
from mqdlq.plan import TARGET_COLUMNS, decide
from mqdlq.rules import parse
from mqdlq.stages.execute.attempt_recorder import PlannedAttempt
from mqdlq.structures import MQDLH, MQMD

ALTERED: Final = (
    "the rules decide otherwise about it than its plan, as a file of the snapshot or of the plan"
    " was altered; the next run decides about it again"
)
_READ: Final = ("encoding", "coded_char_set_id", "format", "msg_flags")
"""The fields of the MQMD by which an MQDLH is read."""
_CHANGING: Final = {"expiry", "backout_count"}
_OF_MESSAGE: Final = {
    *({field.name for field in MQMD.fields} - _CHANGING),
    *(f"dlh_{field.name}" for field in MQDLH.fields),
    "dead_lettered_at",
    "total_length",
}
"""The columns whose values a message keeps while it is on its queue."""
_REMEMBERED: Final = 65_536
_TIMES: Final = MQDLH.slice_of("put_date", "put_time")


class Redecision:
    """The decisions of a run's rules about messages under the browse cursor.

    Columns that belong to the browse of the snapshot, such as the age of a message, come from the
    snapshot. All others come from the message. Equal messages are decided once.
    """

    def __init__(self, run: Run, queue_manager: QueueManager, ledger: Ledger) -> None:
        """Read the run's rules, and columns of its snapshot if the rules compare any."""
        self.run = run
        self._table = parse(run.rules_text, queue_kind=run.queue_kind, frozen=True)
        selector = queue_manager.client.CMQC.MQIA_CODED_CHAR_SET_ID
        self._ccsid = int(queue_manager.inquire(selector))
        compared = {*self._table.columns, *TARGET_COLUMNS}
        fields = [field.name for field in MQMD.fields if field.name in compared.union(_READ)]
        self._fields = itemgetter(*(MQMD.slice_of(name) for name in fields))
        self._known: dict[Any, tuple[Step, ...]] | None = {}
        self._rows: dict[int, dict[str, Any]] = {}
        snapshot = ledger.snapshots.of_run(run.run_id)
        only_there = sorted(set(self._table.columns) - _OF_MESSAGE)
        if self._table.extensions:
            self._known = None  # their values differ from message to message
        if only_there and snapshot is not None:
            rows = snapshot_rows(snapshot.location, ["browse_seq", *only_there])
            self._rows = {row.pop("browse_seq"): row for row in rows}

    def agrees(self, planned: PlannedAttempt) -> bool:
        """Whether the rules give a message the steps of its plan."""
        item = planned.item
        return item.planned == self._decide(planned.browsed, item.message.browse_seq)

    def _decide(self, browsed: BrowsedMessage, browse_seq: int) -> tuple[Step, ...]:
        if self._known is None:
            return self._decide_row(browsed, browse_seq)
        prefix = browsed.prefix
        parts = prefix[: _TIMES.start], prefix[_TIMES.stop : DLH_LENGTH]
        key = (self._fields(browsed.descriptor), *parts, browsed.total_length < DLH_LENGTH)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._decide_row(browsed, browse_seq)
        return self._known[key]

    def _decide_row(self, browsed: BrowsedMessage, browse_seq: int) -> tuple[Step, ...]:
        row = header_row(
            browse_seq,
            browsed.descriptor,
            browsed.prefix,
            browsed.total_length,
            browsed_at=self.run.started_at,
            ccsid=self._ccsid,
        )
        return decide(
            self._table,
            row | self._rows.get(browse_seq, {}),
            nul_as_blank=self.run.nul_as_blank,
            has_given_action=self.run.has_given_action,
        )
