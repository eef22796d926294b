"""Types that all stages share: classes of messages, actions, steps, outcomes, attempts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from inspect import get_annotations
from itertools import chain
from typing import Any, Final, Self

GIVEN_ACTION: Final = "the parameter action"
"""The source of a run's rules if they are one action, given for messages by name."""

QUARANTINE: Final = 0
"""The rule of a forward to the quarantine queue, which no rule of the table has decided."""

LONGEST_PROPERTY: Final = 4_096
"""The maximum length in bytes of UTF-8 of a message property that is read, from any source."""


class Declared(StrEnum):
    """An enumeration whose members are declared by a value and each attribute that it annotates."""

    def __new__(cls, value: str, *attributes: Any) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        names = chain.from_iterable(map(get_annotations, reversed(cls.__mro__)))
        for name, attribute in zip(names, attributes, strict=True):
            setattr(member, name, attribute)
        return member


class InWords(Declared):
    """An enumeration whose members have words for people beside their values."""

    words: str


class MessageClass(StrEnum):
    """Class of a message by its first bytes; `QueueKind` has the class that rules act on."""

    DEAD_LETTER = "dead_letter"
    TRUNCATED_DLH = "truncated_dlh"
    UNSUPPORTED_DLH_VERSION = "unsupported_dlh_version"
    UNDECODABLE = "undecodable"
    NO_DLH = "no_dlh"


class QueueKind(StrEnum):
    """Kind of the queue that a handler serves; rules match and act on one class of messages only.

    `BACKOUT` extends the behavior of IBM's handler. A message that begins with an invalid MQDLH is
    neither a dead letter nor a message without an MQDLH: no rule acts on it.
    """

    DEAD_LETTER = "dead_letter"
    BACKOUT = "backout"

    @property
    def acts_on(self) -> MessageClass:
        is_backout = self is QueueKind.BACKOUT
        return MessageClass.NO_DLH if is_backout else MessageClass.DEAD_LETTER


class Action(StrEnum):
    """The four actions of a rules table (IBM MQ docs, "DLQ rules (patterns and actions)")."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FWD = "FWD"


class PutAuthority(StrEnum):
    """PUTAUT: whose authority a put needs, the handler's (DEF) or the original user's (CTX)."""

    DEF = "DEF"
    CTX = "CTX"


class Disposition(StrEnum):
    """The decision of a plan about a message."""

    PLANNED = "planned"
    UNMATCHED = "unmatched"
    UNPROCESSABLE = "unprocessable"


class AttemptState(InWords):
    """State of an attempt; `INTENDED` is written before MQCMIT, the others after it."""

    INTENDED = "intended", "not settled"
    CONFIRMED = "confirmed", "succeeded"
    FAILED = "failed", "failed"
    BACKED_OUT_WITH_BATCH = "backed_out_with_batch", "backed out"
    UNKNOWN = "unknown", "unknown"


class RampPhase(StrEnum):
    """Phase of a ramp or a breaker of one cause and target.

    `MOVING`: the messages of a step may move. `WATCHING`: all of them have moved, and the next step
    waits. `OPEN`: the breaker holds all messages. `COMPLETE`: all messages may move.
    """

    MOVING = "moving"
    WATCHING = "watching"
    OPEN = "open"
    COMPLETE = "complete"


class Trait(Flag):
    """Property of all messages with an outcome."""

    DEPARTED = auto()
    """The message has left the queue."""
    STAYS = auto()
    """The final browse finds the message on the queue; without this and DEPARTED it is unknown."""
    SUCCEEDED = auto()
    """The action of a rule succeeded."""
    FAILED = auto()
    """Rules match the message and none succeeded, which counts against them in the history."""
    NEEDS_ATTENTION = auto()
    """Someone must act on it; not if a dry run is the only reason."""


_NONE: Final = Trait(0)
_HANDLED: Final = Trait.DEPARTED | Trait.SUCCEEDED
_OPEN: Final = Trait.STAYS | Trait.NEEDS_ATTENTION


class Outcome(InWords):
    """Result of a message of a snapshot in a run: exactly one of these.

    A declaration has the value in the ledger, the words in reports, and the traits. The order is
    that of reports: from finished to most urgent.
    """

    DELIVERED = "delivered", "delivered", _HANDLED
    FORWARDED = "forwarded", "forwarded", _HANDLED
    DISCARDED = "discarded", "discarded", _HANDLED
    LEFT_BY_RULE = "left_by_rule", "left by rule", Trait.STAYS
    LEASED_BY_RUN = "leased_by_run", "leased by another run", _NONE
    EXPIRED = "expired", "expired", Trait.DEPARTED
    TAKEN = "taken", "taken by others", Trait.DEPARTED
    NOT_ATTEMPTED = "not_attempted", "not attempted", _OPEN
    NOT_SELECTED = "not_selected", "not selected", _NONE
    RETRY_PENDING = "retry_pending", "retry pending", _OPEN | Trait.FAILED
    UNPROCESSABLE = "unprocessable", "unprocessable", _OPEN
    UNMATCHED = "unmatched", "unmatched", _OPEN
    EXHAUSTED = "exhausted", "exhausted", _OPEN | Trait.FAILED
    QUARANTINED = "quarantined", "quarantined", _OPEN
    UNKNOWN = "unknown", "unknown", Trait.NEEDS_ATTENTION

    traits: Trait

    @property
    def disposition(self) -> Disposition:
        """What a plan decides about a message that ends so."""
        if self in {Outcome.UNPROCESSABLE, Outcome.UNMATCHED}:
            return Disposition(self.value)
        return Disposition.PLANNED

    @classmethod
    def having(cls, trait: Trait) -> frozenset[Outcome]:
        return frozenset(outcome for outcome in cls if trait in outcome.traits)


SUCCESSES: Final = {
    Action.RETRY: Outcome.DELIVERED,
    Action.FWD: Outcome.FORWARDED,
    Action.DISCARD: Outcome.DISCARDED,
}
"""The outcomes of actions that succeed."""

DEPARTED: Final = Outcome.having(Trait.DEPARTED)
"""The outcomes of messages that have left the queue."""


class RestorationState(StrEnum):
    """State of one archived copy in a restoration.

    The first three are intermediate; exactly one of the others is final.
    """

    SELECTED = "selected"
    INTENDED = "intended"
    BACKED_OUT = "backed_out"
    RESTORED = "restored"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not_attempted"


class AuditKind(InWords):
    """Kind of an event in the audit, with the words for people."""

    RUN_STARTED = "run_started", "run started"
    APPROVAL_ASKED = "approval_asked", "approval asked"
    APPROVED = "approved", "plan approved"
    REJECTED = "rejected", "plan rejected"
    SECOND_PERSON_REFUSED = "second_person_refused", "approval refused"
    DISCARDED = "discarded", "messages discarded"
    RESTORATION_STARTED = "restoration_started", "restoration started"
    HOLD_PLACED = "hold_placed", "legal hold placed"
    HOLD_RELEASED = "hold_released", "legal hold released"
    PRUNED = "pruned", "data pruned"
    BODY_SHOWN = "body_shown", "message body shown"
    BODIES_SEARCHED = "bodies_searched", "message bodies searched"
    REPLACEMENT_STORED = "replacement_stored", "replacement of a body stored"
    LEDGER_TAKEN_ON = "ledger_taken_on", "older ledger taken on"
    CAUSE_CHANGED = "cause_changed", "cause changed"
    STOP_ASKED = "stop_asked", "stop of a run asked"
    PLAN_PROPOSED = "plan_proposed", "plan proposed by an agent"
    AGENT_SEARCHED = "agent_searched", "messages searched by an agent"
    AGENT_REFUSED = "agent_refused", "agent refused"


class ChangeKind(InWords):
    """Kind of a change that people make to what they say of a cause, with the words for people."""

    ACKNOWLEDGED = "acknowledged", "acknowledged"
    MUTED = "muted", "muted"
    MUTE_ENDED = "mute_ended", "mute ended"
    RESOLVED = "resolved", "resolved"
    REOPENED = "reopened", "opened again"
    NOTE = "note", "note"
    TICKET = "ticket", "ticket"


@dataclass(frozen=True, slots=True, order=True)
class WorkNumber:
    """The number of a pass or restoration: the high-water mark of a ledger, and who has counted it.

    `epoch` and `number` count from 1; a new epoch begins when a person takes on a ledger that was
    restored from an older copy. `name` is random: copies of one ledger may count the same epoch.
    """

    epoch: int
    number: int
    name: str

    def __str__(self) -> str:
        return f"{self.epoch:06d}-{self.number:010d}-{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the form that `str` writes; raises ValueError."""
        epoch, number, name = text.split("-")
        return cls(int(epoch), int(number), name)


Destination = tuple[str, str]
"""The names of a queue and its queue manager; a blank name leaves it to name resolution."""


@dataclass(frozen=True, slots=True)
class RuleAction:
    """A rule's action on a target; the target is "" if the action has none."""

    rule: int
    action: str
    target_q: str
    target_q_mgr: str


@dataclass(frozen=True, slots=True)
class Step:
    """One matching rule of a message's plan, with its target resolved.

    `rule` is the ordinal of the rule in its table (from 1), `rule_line` the first line of its
    entry, and `tries` the number of attempts that the rule grants (RETRY). `target_q` and
    `target_q_mgr` are "" if the action has no target, or if name resolution chooses the queue
    manager.
    """

    rule: int
    rule_line: int
    action: Action
    target_q: str
    target_q_mgr: str
    header: bool
    put_authority: PutAuthority
    tries: int

    @property
    def destination(self) -> Destination | None:
        """The queue to which the step puts a message; None for a DISCARD."""
        is_put = self.action is not Action.DISCARD
        return (self.target_q, self.target_q_mgr) if is_put else None


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """A row of a plan: a message and its steps, in order.

    With explanations, `winning_rule` is the ordinal of the first matching rule, and `nearest_rule`
    that of the first rule with the fewest failing patterns if none matches.
    """

    browse_seq: int
    message_key: bytes
    queue_manager: str
    queue: str
    disposition: Disposition
    steps: tuple[Step, ...]
    winning_rule: int | None = None
    nearest_rule: int | None = None


class Verdict(InWords):
    """The first word of a report.

    `empty`: the queue was empty. `settled`: every message on the queue is settled. `unfinished`:
    the states of the stages are unknown and the account is open, so the run may be in progress.
    """

    OK = "ok", "Everything is handled"
    EMPTY = "empty", "Nothing to do"
    SETTLED = "settled", "Nothing new"
    ATTENTION = "attention", "Needs attention"
    UNFINISHED = "unfinished", "Not finished"
    FAILED = "failed", "Failed"
