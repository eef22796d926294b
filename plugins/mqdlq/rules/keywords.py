"""The keywords of the rules language: kind, column, length and allowed values of each.

IBM MQ docs, "Dead-letter queue handler rules table": control data, "DLQ rules (patterns and
actions)". Lengths are those of the MQMD and MQDLH fields.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final

from mqdlq.model import Action, PutAuthority, QueueKind

MAX_NUMBER: Final = 999_999_999


class Part(StrEnum):
    """The kind of entry that a keyword belongs to."""

    CONTROL = "control data"
    RULE = "a rule"


class Kind(Enum):
    """The kind of a keyword's value."""

    TEXT = auto()
    """Text to compare with; may have wildcards."""
    NAME = auto()
    """The name of a queue or a queue manager, without wildcards."""
    PATTERN_NUMBER = auto()
    """A number to compare with, or ``*``."""
    NUMBER = auto()
    """A number, without wildcards."""
    WORD = auto()
    """One of a few words, or also a number if `least` is set."""
    TIME = auto()
    """A comparison with a time, for an extension."""
    SIZE = auto()
    """A comparison with a number of bytes, for an extension."""
    COUNT = auto()
    """A comparison with a number, for an extension."""
    PROPERTY = auto()
    """A comparison of a named message property, for an extension."""
    CHAIN = auto()
    """The names of headers in order, with wildcards, for an extension."""


@dataclass(frozen=True, slots=True)
class Measure:
    """How the value of an extension follows from columns of a snapshot, as a whole number.

    The value is `of` minus `since` minus `less`, both columns or "", rounded down to a multiple of
    `per`. Times count in microseconds. The value is never reached if the column `never` is less
    than 0.
    """

    of: str
    since: str = ""
    less: int = 0
    per: int = 1
    never: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.of, self.since, self.never)))


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword.

    A pattern compares the snapshot's `column`, which IBM calls `field`. If that is a field of the
    MQDLH, `without_dlh` is the column that it compares for messages without an MQDLH, or "" if they
    have no such field. Text has at most `length` characters. Symbolic names belong to `families`. A
    number is at least `least`.

    An extension has `sources`, the snapshot's columns that its value follows from, by a `measure`
    unless it is a chain or a property; its `column` exists in the table only, and `without_dlh` is
    the same if messages without an MQDLH have such a value. `unknown` says why the value of a
    message can be unknown. With `changes`, the value of an unchanged message differs from run to
    run.
    """

    name: str
    part: Part
    kind: Kind
    column: str = ""
    field: str = ""
    length: int = 0
    families: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    least: int | None = None
    sources: tuple[str, ...] = ()
    measure: Measure | None = None
    unknown: str = ""
    changes: bool = False
    without_dlh: str = ""

    def column_on(self, queue_kind: QueueKind) -> str:
        """Return the column that the pattern compares on such a queue, or "" if there is none."""
        needs_dlh = self.is_extension or self.column.startswith("dlh_")
        return self.without_dlh if needs_dlh and queue_kind is QueueKind.BACKOUT else self.column

    @property
    def is_extension(self) -> bool:
        return bool(self.sources)

    @property
    def is_pattern(self) -> bool:
        return bool(self.column)

    @property
    def takes_text(self) -> bool:
        return self.kind in (Kind.TEXT, Kind.NAME)


def _text(name: str, column: str, field: str, length: int, without_dlh: str = "") -> Keyword:
    return Keyword(name, Part.RULE, Kind.TEXT, column, field, length, without_dlh=without_dlh)


def _number(name: str, column: str, field: str, *families: str) -> Keyword:
    return Keyword(name, Part.RULE, Kind.PATTERN_NUMBER, column, field, families=families, least=0)


def _name(name: str, part: Part) -> Keyword:
    return Keyword(name, part, Kind.NAME, length=48)


def _measured(name: str, kind: Kind, field: str, measure: Measure, **more: Any) -> Keyword:
    column, sources = f"{name.lower()} extension", measure.sources
    return Keyword(name, Part.RULE, kind, column, field, sources=sources, measure=measure, **more)


def _word(name: str, part: Part, *words: str, least: int | None = None) -> Keyword:
    return Keyword(name, part, Kind.WORD, words=words, least=least)


_ALL: Final = (
    _name("INPUTQ", Part.CONTROL),
    _name("INPUTQM", Part.CONTROL),
    Keyword("RETRYINT", Part.CONTROL, Kind.NUMBER, least=0),
    _word("WAIT", Part.CONTROL, "YES", "NO", least=0),
    _text("APPLIDAT", "appl_identity_data", "ApplIdentityData", 32),
    _text("APPLNAME", "put_appl_name", "PutApplName", 28),
    _number("APPLTYPE", "put_appl_type", "PutApplType", "MQAT"),
    _text("DESTQ", "dlh_dest_q_name", "DestQName", 48),
    _text("DESTQM", "dlh_dest_q_mgr_name", "DestQMgrName", 48),
    _number("FEEDBACK", "feedback", "Feedback", "MQFB"),
    # The format of the application data: MQDLH.Format, since MQMD.Format of a dead letter is
    # MQDEAD, but MQMD.Format without an MQDLH.
    _text("FORMAT", "dlh_format", "Format", 8, without_dlh="format"),
    _number("MSGTYPE", "msg_type", "MsgType", "MQMT"),
    _number("PERSIST", "persistence", "Persistence", "MQPER"),
    # MQDLH.Reason holds MQRC and MQFB values alike (IBM MQ docs, "MQDLH - Dead-letter header").
    _number("REASON", "dlh_reason", "Reason", "MQRC", "MQFB"),
    _text("REPLYQ", "reply_to_q", "ReplyToQ", 48),
    _text("REPLYQM", "reply_to_q_mgr", "ReplyToQMgr", 48),
    _text("USERID", "user_identifier", "UserIdentifier", 12),
    _word("ACTION", Part.RULE, *Action),
    _name("FWDQ", Part.RULE),
    _name("FWDQM", Part.RULE),
    _word("HEADER", Part.RULE, "YES", "NO"),
    _word("PUTAUT", Part.RULE, *PutAuthority),
    Keyword("RETRY", Part.RULE, Kind.NUMBER, least=1),
)

_SECOND: Final = 1_000_000
_DLH_LENGTH: Final = 172

_EXTENSIONS: Final = (
    _measured(
        "AGE",
        Kind.TIME,
        "the age on the queue",
        Measure("browsed_at", since="dead_lettered_at", per=_SECOND),
        unknown="the MQDLH has no valid PutDate and PutTime, or the snapshot has no browsed_at",
        changes=True,
    ),
    _measured(
        "EXPIRES_IN",
        Kind.TIME,
        "the remaining expiry",
        Measure("expires_at", since="browsed_at", per=_SECOND, never="expiry"),
        words=("never",),
        unknown="the snapshot has no expires_at or browsed_at",
        changes=True,
        without_dlh="expires_in extension",
    ),
    _measured(
        "LENGTH",
        Kind.SIZE,
        "the length of the original message",
        Measure("total_length", less=_DLH_LENGTH),
        unknown="the snapshot has no total_length",
    ),
    _measured(
        "ATTEMPTS",
        Kind.COUNT,
        "the number of attempts so far",
        Measure("attempts_made"),
        unknown="only snapshots of runs whose rules compare attempts have it",
        changes=True,
        without_dlh="attempts extension",
    ),
    Keyword(
        "HEADER_CHAIN",
        Part.RULE,
        Kind.CHAIN,
        "header_chain extension",
        "the chain of headers",
        sources=("chain_is_whole", "header_chain"),
        unknown="a header cannot be read, or the snapshot has no chain_is_whole",
    ),
    Keyword(
        "PROPERTY",
        Part.RULE,
        Kind.PROPERTY,
        "property extension",
        "the property",
        sources=("properties_met", "properties_unmet"),
        unknown="it cannot be read, or the run of the snapshot did not compare it with this",
        without_dlh="property extension",
    ),
)

KEYWORDS: Final = {keyword.name: keyword for keyword in _ALL}
"""Every keyword of IBM's by its name, in the order of the canonical print."""

EXTENSIONS: Final = {keyword.name: keyword for keyword in _EXTENSIONS}
"""Every extension by its name: patterns of mqdlq's own, which only the YAML form of a table has."""

KNOWN: Final = KEYWORDS | EXTENSIONS
"""Every keyword and every extension by its name."""
