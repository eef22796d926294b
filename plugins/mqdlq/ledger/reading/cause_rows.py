"""Convert counted causes into rows of the ledger, and back."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import RowMapping

from mqdlq.causes import Cause, CountedCause
from mqdlq.model import MessageClass

_COUNTS: Final = ("messages", "settled", "queues", "first_at", "last_at")


def row_of(counted: CountedCause) -> dict[str, Any]:
    """Return the row of a counted cause, without its run."""
    cause = counted.cause
    return {
        "reason": cause.reason,
        "cause_id": cause.cause_id,
        "message_class": str(cause.cls or ""),
        "dest_q_name": cause.dest_q_name,
        "dest_q_mgr_name": cause.dest_q_mgr_name,
        **{name: getattr(counted, name) for name in _COUNTS},
    }


def cause_in_row(row: RowMapping) -> Cause:
    """Return the cause of a row.

    The class of a row from before revision 0008 is not known if its reason is 0: it counts dead
    letters with this reason and messages without an MQDLH.
    """
    written = row["message_class"] or (MessageClass.DEAD_LETTER if row["reason"] else "")
    cls = MessageClass(written) if written else None
    return Cause(cls, row["reason"], row["dest_q_name"], row["dest_q_mgr_name"])


def counted_cause(row: RowMapping) -> CountedCause:
    """Return a row as a counted cause."""
    return CountedCause(cause_in_row(row), **{name: row[name] for name in _COUNTS})
