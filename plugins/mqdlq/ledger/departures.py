"""What has left its queue, as far as the ledger can tell: a message's id in, a condition out."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select

from mqdlq.ledger import tables
from mqdlq.model import DEPARTED, AttemptState


def has_departed(message_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a run booked the message as departed, or a unit of work proved to have moved it.

    The proof may come after the run has ended and booked the message as unknown: outcomes stay as
    they are, and the message is gone all the same.
    """
    ended, tried = tables.outcomes, tables.attempts
    booked = select(ended.c.message_id).where(
        ended.c.message_id == message_id,
        ended.c.outcome.in_([outcome.value for outcome in DEPARTED]),
    )
    proven = select(tried.c.message_id).where(
        tried.c.message_id == message_id, tried.c.state == AttemptState.CONFIRMED.value
    )
    return booked.exists() | proven.exists()
