"""The ledger's facts as records: what a row says, in the field's words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mqdlq.model import GIVEN_ACTION, Action, AttemptState, Disposition, Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler, with the rules it read at its start; they hold to its end.

    `wait_s` is WAIT in seconds: 0 for NO, None for YES. `carry_attempts` says that attempts made
    by earlier runs count (see DESIGN, "Attempts"), `nul_as_blank` that the rules take NULs for
    blanks. `hold_while_blocked` keeps attempts while a destination is blocked, `deliver_truncated`
    delivers what may have been cut, `messages_in_a_unit` bounds a unit of work per destination.
    `message_keys` (hex) are the only messages to act on; none means all. `started_by` is who or
    what has started it, in words: "alice in Airflow", "the schedule"; "" for a run of a version
    that did not record it.
    """

    run_id: str
    handler: str
    dag_run_id: str
    run_type: str
    queue_manager: str
    queue: str
    state_queue: str
    rules_source: str
    rules_digest: str
    rules_text: str
    retry_interval_s: int
    wait_s: int | None
    carry_attempts: bool
    dry_run: bool
    max_run_time_s: int
    started_at: datetime
    nul_as_blank: bool = False
    hold_while_blocked: bool = False
    deliver_truncated: bool = False
    messages_in_a_unit: int = 128
    max_plan_age_s: int = 86_400
    message_keys: tuple[str, ...] = ()
    started_by: str = ""

    @property
    def has_given_action(self) -> bool:
        """Whether one action is given for the named messages, in place of a rules table."""
        return self.rules_source == GIVEN_ACTION

    @property
    def named(self) -> frozenset[bytes]:
        """The keys in `message_keys` as the snapshot holds them; empty where all are meant."""
        return frozenset(bytes.fromhex(key) for key in self.message_keys)


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A message as one run's plan lists it.

    `occurrence` counts equal keys in browse order from 0, `residence` how often the message has
    come back to the queue.
    """

    message_id: int
    browse_seq: int
    message_key: bytes
    occurrence: int
    residence: int
    disposition: Disposition


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one rule's action on one message, within the unit of work `unit`.

    `mqrc` is the reason code of a failed attempt, else 0.
    """

    unit: str
    run_id: str
    plan_id: str
    message_id: int
    message_key: bytes
    rule: int
    attempt_no: int
    action: Action
    target_q: str
    target_q_mgr: str
    state: AttemptState
    mqrc: int
    at: datetime


@dataclass(frozen=True, slots=True)
class OutcomeFact:
    """How one message ended in one run; `why` is for people, `rule` 0 where no rule decided."""

    message_id: int
    outcome: Outcome
    why: str
    rule: int
    action: str
    target_q: str
    target_q_mgr: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Learned:
    """How a message had ended in the run `of_run`, as the run `run_id` came to know.

    The earlier run had booked another outcome, since nothing proved this one then.
    """

    of_run: str
    message_id: int
    run_id: str
    outcome: Outcome
    target_q: str
    target_q_mgr: str
    at: datetime


DRY_RUN: Final = "dry run"
"""Why a dry run attempted nothing, where nothing else would have stood in the way."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the last browse of a run found, against what the ledger had booked.

    `seen` messages of the run were on the queue; `returned` were booked as departed and yet
    there; `arrived` were there and none of the run's.
    """

    depth: int
    seen: int
    returned: int
    arrived: int
    at: datetime
