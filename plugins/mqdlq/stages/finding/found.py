"""Messages that a search found, and one page of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from mqdlq.causes import cause_of_row
from mqdlq.constants import reason_text
from mqdlq.ledger import KnownSnapshot, MessageState
from mqdlq.model import MessageClass, Outcome
from mqdlq.stages.report.wording import CLASSES

PAGE_ROWS: Final = 50
COUNTED: Final = 10_000
"""A page counts the messages that its filter selects up to this number."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message in its newest full row, with what the ledger knows of it.

    Identifiers are hexadecimal digits. `run_id` and `snapshot_id` are those of the row, and
    `browse_seq` is its number there. `reason` is 0 and the destination "" without an MQDLH.
    `format` is that of the message as it was put, `persistence` is MQMD.Persistence.
    `outcome` is the last one, of the run `outcome_run_id`. `equals` counts messages on the queue
    that have the same key.
    """

    handler: str
    queue_manager: str
    queue: str
    snapshot_id: str
    run_id: str
    browse_seq: int
    message_key: str
    msg_id: str
    correl_id: str
    cls: MessageClass
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    cause_id: str
    application: str
    user: str
    format: str
    total_length: int
    persistence: int | None
    put_at: datetime | None
    dead_lettered_at: datetime | None
    expires_at: datetime | None
    outcome: Outcome | None
    why: str
    outcome_run_id: str
    outcome_at: datetime | None
    has_departed: bool
    equals: int

    @property
    def since(self) -> datetime | None:
        """When it was dead-lettered, or put if its MQDLH does not say."""
        return self.dead_lettered_at or self.put_at

    @property
    def why_dead(self) -> str:
        """Why it is a dead letter: its reason, or its class without a valid MQDLH."""
        is_dead_letter = self.cls is MessageClass.DEAD_LETTER
        return reason_text(self.reason) if is_dead_letter else CLASSES[self.cls]

    def as_record(self) -> dict[str, Any]:
        """Return it for CSV and JSON: times in ISO 8601, enumerations as their values."""
        return {name: _plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Total:
    """How many messages a filter selects; if it is not exact, there are at least so many."""

    number: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class FoundPage:
    """One page of messages; `number` is from 1.

    `is_complete` is False if the search ended before it had looked at all messages, as too many
    fit all but the state: a narrower filter sees the others.
    """

    messages: tuple[FoundMessage, ...]
    total: Total
    number: int
    has_next: bool
    is_complete: bool = True


COLUMNS: Final = (
    "browse_seq",
    "message_key",
    "class",
    "msg_id",
    "correl_id",
    "put_appl_name",
    "user_identifier",
    "format",
    "dlh_format",
    "dlh_reason",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "total_length",
    "persistence",
    "put_at",
    "dead_lettered_at",
    "expires_at",
)
"""The columns of a snapshot that a `FoundMessage` has."""


def found_message(
    snapshot: KnownSnapshot, row: Mapping[str, Any], state: MessageState
) -> FoundMessage:
    """Return a row of a snapshot, with the state of its message."""
    is_dead_letter = row["dlh_reason"] is not None
    return FoundMessage(
        handler=snapshot.handler,
        queue_manager=snapshot.queue_manager,
        queue=snapshot.queue,
        snapshot_id=snapshot.snapshot_id,
        run_id=snapshot.run_id,
        browse_seq=row["browse_seq"],
        message_key=row["message_key"].hex(),
        msg_id=(row["msg_id"] or b"").hex(),
        correl_id=(row["correl_id"] or b"").hex(),
        cls=MessageClass(row["class"]),
        reason=row["dlh_reason"] or 0,
        dest_q_name=row["dlh_dest_q_name"] or "",
        dest_q_mgr_name=row["dlh_dest_q_mgr_name"] or "",
        cause_id=cause_of_row(row).cause_id,
        application=row["put_appl_name"] or "",
        user=row["user_identifier"] or "",
        format=row["dlh_format" if is_dead_letter else "format"] or "",
        total_length=row["total_length"],
        persistence=row["persistence"],
        put_at=row["put_at"],
        dead_lettered_at=row["dead_lettered_at"],
        expires_at=row["expires_at"],
        outcome=state.outcome,
        why=state.why,
        outcome_run_id=state.run_id,
        outcome_at=state.at,
        has_departed=state.has_departed,
        equals=state.occurrences,
    )


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
