"""The nouns every stage shares: classes of message, actions, steps, outcomes, attempts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from typing import Final, Self

from mqdlq.renamed import STORED

GIVEN_ACTION: Final = "the parameter action"
"""The source of a run's rules where they are one action, given for the messages it names."""


class MessageClass(StrEnum):
    """What a message on a dead-letter queue is; rules match and act on `DEAD_LETTER` only."""

    DEAD_LETTER = "dead_letter"
    TRUNCATED_DLH = "truncated_dlh"
    UNSUPPORTED_DLH_VERSION = "unsupported_dlh_version"
    UNDECODABLE = "undecodable"
    NO_DLH = "no_dlh"


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


class _Stored(StrEnum):
    """Values that plans and snapshots hold, also under old names."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return next((one for one in cls if one == STORED.get(str(value))), None)


class Disposition(_Stored):
    """What a plan says of a message."""

    PLANNED = "planned"
    UNMATCHED = "unmatched"
    UNPROCESSABLE = "unprocessable"


class AttemptState(StrEnum):
    """How far an attempt got; `INTENDED` is written before MQCMIT, the others after."""

    INTENDED = "intended"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    BACKED_OUT_WITH_BATCH = "backed_out_with_batch"
    UNKNOWN = "unknown"


class Trait(Flag):
    """What is true of a message with an outcome."""

    DEPARTED = auto()
    """It is no longer on the queue."""
    STAYS = auto()
    """The last browse meets it on the queue; without either of these two, nobody knows."""
    SUCCEEDED = auto()
    """The action of a rule was carried out."""
    FAILED = auto()
    """Rules match it, and none of them has succeeded: it counts against them in the history."""
    NEEDS_ATTENTION = auto()
    """Someone must act on it; not if a dry run is the only reason."""


_NONE: Final = Trait(0)
_HANDLED: Final = Trait.DEPARTED | Trait.SUCCEEDED
_OPEN: Final = Trait.STAYS | Trait.NEEDS_ATTENTION


class Outcome(_Stored):
    """How a message of a snapshot ended in a run: exactly one of these.

    Each is declared by its value in the ledger, its words in reports, its traits, and what the plan
    said of the message. They are in the order of reports: from done with to most worrying.
    """

    DELIVERED = "delivered", "delivered", _HANDLED
    FORWARDED = "forwarded", "forwarded", _HANDLED
    DISCARDED = "discarded", "discarded", _HANDLED
    LEFT_BY_RULE = "left_by_rule", "left by rule", Trait.STAYS
    LEASED_BY_RUN = "leased_by_run", "leased by another run"
    EXPIRED = "expired", "expired", Trait.DEPARTED
    TAKEN = "taken", "taken by others", Trait.DEPARTED
    NOT_ATTEMPTED = "not_attempted", "not attempted", _OPEN
    NOT_SELECTED = "not_selected", "not selected"
    RETRY_PENDING = "retry_pending", "retry pending", _OPEN | Trait.FAILED
    UNPROCESSABLE = "unprocessable", "unprocessable", _OPEN, Disposition.UNPROCESSABLE
    UNMATCHED = "unmatched", "unmatched", _OPEN, Disposition.UNMATCHED
    EXHAUSTED = "exhausted", "exhausted", _OPEN | Trait.FAILED
    UNKNOWN = "unknown", "unknown", Trait.NEEDS_ATTENTION

    words: str
    traits: Trait
    disposition: Disposition

    def __new__(
        cls,
        value: str,
        words: str = "",
        traits: Trait = _NONE,
        disposition: Disposition = Disposition.PLANNED,
    ) -> Self:
        """Make a member of its declaration; to look one up takes its value alone."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.words, member.traits, member.disposition = words, traits, disposition
        return member

    @classmethod
    def having(cls, trait: Trait) -> frozenset[Outcome]:
        """Return the outcomes that have a trait, or all of several."""
        return frozenset(outcome for outcome in cls if trait in outcome.traits)


DEPARTED: Final = Outcome.having(Trait.DEPARTED)
"""The outcomes after which a message is no longer on the queue."""


class RestorationState(StrEnum):
    """What a restoration has come to with one archived copy.

    The first three are stages on the way; exactly one of the others is how it ends.
    """

    SELECTED = "selected"
    INTENDED = "intended"
    BACKED_OUT = "backed_out"
    RESTORED = "restored"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not_attempted"


@dataclass(frozen=True, slots=True)
class Step:
    """One matching rule of a message's plan, with its target resolved.

    `rule` is the ordinal of the rule in its table (from 1), `rule_line` the first line of its
    entry, `tries` how many attempts the rule grants (RETRY). `target_q` and `target_q_mgr` are ""
    where the action has no target, or where the queue manager is left to name resolution.
    """

    rule: int
    rule_line: int
    action: Action
    target_q: str
    target_q_mgr: str
    header: bool
    put_authority: PutAuthority
    tries: int


@dataclass(frozen=True, slots=True)
class PlannedMessage:
    """A row of a plan: which message, and what to do with it in which order.

    Where the handler asks for explanations, `winning_rule` is the ordinal of the first matching
    rule, and `nearest_rule` that of the first rule with the fewest failing patterns where none
    matches.
    """

    browse_seq: int
    message_key: bytes
    queue_manager: str
    queue: str
    disposition: Disposition
    steps: tuple[Step, ...]
    winning_rule: int | None = None
    nearest_rule: int | None = None
