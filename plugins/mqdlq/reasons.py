"""Reasons: why a message, a copy or a ramp is as it is, as a code with values.

The ledger has the code and the values, and code compares codes. Words are made where a person
reads, by `Reason.words`, so that a reason can be reworded without any other effect.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import Enum, unique
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple

from mqdlq.constants import reason_text


class Reason(NamedTuple):
    """A code, and its values in the order of its declaration.

    A value is a text, a number, a time in ISO format, another reason, or None for nothing.
    """

    code: Why
    values: tuple[Any, ...] = ()

    @property
    def words(self) -> str:
        return _TEMPLATES.vformat(self.code.template, (), self.by_name)

    @property
    def by_name(self) -> dict[str, Any]:
        return dict(zip(self.code.names, self.values, strict=True))

    @property
    def stored(self) -> str:
        """The form in the ledger: an object of JSON that has the code first."""
        return _dump(self)

    @classmethod
    def read(cls, stored: str) -> Reason | None:
        """Read the stored form, "" as None; a text that this version cannot read is `OTHER`."""
        return _load(stored) if stored else None


def words_of(reason: Reason | None) -> str:
    """Return a reason in words for people, "" for none."""
    return reason.words if reason is not None else ""


def code_of(reason: Reason | None) -> str:
    """Return the code of a reason for programs, "" for none."""
    return str(reason.code) if reason is not None else ""


@unique
class Why(Enum):
    """The code of a reason; a call with the values of the code makes the reason.

    The value of a member is the template of its words, which names the values. A template takes a
    value as `str.format` does, or in a form:

    `{at:moment}` is a time, and `{mqrc:mqrc}` a reason code of IBM MQ with its name.
    `{number:one|# many}` has words for one and for another number, which replaces `#`.
    `{value:?before}` has `before` and the value, or nothing where there is no value.

    The ledger has the name of a member in lower case, with the names of the values. It keeps them
    always: no later version gives them another name or meaning, or leaves one out. The other words
    of a template may change at any time.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        found = (name for _, name, _, _ in Formatter().parse(template) if name is not None)
        self.names = tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        return self.name.lower()

    def __call__(self, **values: Any) -> Reason:
        """Return the reason with these values; raises TypeError unless it takes exactly them."""
        if values.keys() != set(self.names):
            raise TypeError(f"{self.name} takes {self.names}, not {tuple(values)}")
        given = (values[name] for name in self.names)
        plain = (one.isoformat() if isinstance(one, datetime) else one for one in given)
        return Reason(self, tuple(plain))

    OTHER = "{text}"

    # Why a run does not execute its plan.
    DRY_RUN = "dry run"
    REPAIR_NOT_ASKED = "not approved: a repair needs an approval, and nobody was asked"
    NOT_ANSWERED = "not approved: nobody has answered yet{who:? by }"
    REJECTED = "not approved: rejected{who:? by }"
    STOPPED = "the run was stopped{who:? by }{why:?: }"
    WOULD_ALSO_STAY = "{why}; it would also stay because {also}"
    WOULD_BE_REPAIRED = "{why}; it would be repaired: {changes}"

    # How a message ended.
    ATTEMPT = "attempt {number}"
    DELIVERED_REPAIRED = "repaired: {changes}; original in the archive"
    REPAIRED_BECAUSE = "{repaired}; {because}"
    SETTLED_BEFORE = "as an earlier run left it"
    NO_RULE_MATCHES = "no rule matches"
    UNPROCESSABLE = "{problem}"
    RULE_IGNORES = "rule {rule} (line {line}) says IGNORE"
    NOT_TRIED = "not tried before the run ended"
    TRIED = "{attempts} attempts so far, the last {last}"
    EXHAUSTED = "{attempts} attempts, the last {last}"
    OF_EARLIER_RUN = "made by an earlier run"
    PUT_FAILED = "to {target}: {mqrc:mqrc}{advice:?: }"
    ATTEMPT_ENDED = "to {target}: {state}"
    OTHER_OF_GROUP_FAILED = "message {number} of its group failed with {mqrc:mqrc}"
    EXPIRED = "its Expiry ended at {at:moment}"
    TAKEN = "it is no longer on the queue, and this handler did not move it"
    INVISIBLE = (
        "it is not visible on the queue, and {handles:one handle has|# handles have} that open for"
        " input: an application may hold it in a unit of work, which DISPLAY QSTATUS TYPE(HANDLE)"
        " shows; if it comes back, the next run handles it"
    )
    IN_DOUBT = "its unit of work was interrupted and is not resolved"
    TIME_LOST = (
        "it is not on the queue, and the ledger was restored from an older copy since this run"
        " began: this handler may have moved it before, so look for its MsgId on its target and in"
        " the archive"
    )
    HANDLED_BY_RUN = "run {run_id} handled it in the meantime"
    BEING_MOVED = "run {run_id} is about to move it"
    LEASED = "run {run_id} has it and waits to try it again"

    # Why a message was not moved.
    NOT_MOVED = "it was not moved before the run ended"
    BACKED_OUT = "its unit of work was backed out: {mqrc:mqrc}"
    DIFFERS_FROM_COPY = (
        "its unit of work was backed out: it differs from its archive copy, or the task was"
        " interrupted"
    )
    NO_ARCHIVE_COPY = "it was not archived, so it stays"
    NOT_ARCHIVED = "it could not be archived"
    TARGET_BLOCKED = "held: {target} has {mqrc:mqrc}"
    OWN_TARGET = "its target, {target}, is a queue of this very handler"
    LEADS_TO_OWN_QUEUE = "its target, {target}, leads to {queue}, a queue of this very handler"
    MAYBE_TRUNCATED = (
        "it is as long as the queue allows and may have been cut; deliver_truncated would deliver"
        " it anyway"
    )
    PLAN_ALTERED = (
        "the rules decide otherwise about it than its plan, as a file of the snapshot or of the"
        " plan was altered; the next run decides about it again"
    )
    OTHER_OF_GROUP_STAYS = "another message of its group stays: {why}"
    OTHER_OF_GROUP_HELD = "another message of its group is held: {why}"

    # Limits.
    BUDGET_USED = "the run has moved as many messages as it may (limits: messages_per_run: {limit})"
    MESSAGE_RATE = "the limit of {name} is {amount:g} messages a {period} (limits: {key})"
    BYTE_RATE = "the limit of {name} is {amount:.0f} bytes a {period} (limits: {key})"
    TARGET_DEEP = "{name} holds {messages} messages or more (limits: in_flight)"
    TARGET_CLOSED = "queue {queue} is closed until {until:moment} (limits: closed)"
    DESTINATION_REFUSES = "it waits until its destination takes it: {fact}"
    LEFT_WHILE_WAITING = "it left the queue while the run waited for a limit"

    # Order of messages.
    BEHIND_SAME_KEY = "it waits behind an earlier message with the same {key}"
    KEY_UNREADABLE = "the headers in which it may have {key} cannot be read"
    GROUP_ID_REPEATED = (
        "its GroupId is used more than once: {messages} messages have MsgSeqNumber {number}"
    )
    GROUP_INCOMPLETE = (
        "its group is incomplete: {messages:1 message is|# messages are} on the queue; {gaps}"
    )
    LAST_IS_NOT_LAST = (
        "MsgSeqNumber {flagged} is flagged as the last, but there is MsgSeqNumber {highest}"
    )
    LAST_MISSING = "the last is missing"
    NUMBERS_MISSING = "MsgSeqNumber {listed} {missing:is|are} missing"
    SEGMENT_MISSING = "the segment of MsgSeqNumber {number} with Offset {offset} is missing"
    SEGMENTS_OVERLAP = "segments of MsgSeqNumber {number} overlap at Offset {offset}"
    LAST_SEGMENT_MISSING = "the last segment of MsgSeqNumber {number} is missing"
    GROUP_NOT_IN_RUN = (
        "its group has {messages} messages; this run has {here} of them{settled:?, and earlier"
        " runs have settled }"
    )
    GROUP_WITHOUT_STATE_QUEUE = (
        "its group has {messages} messages; without the state queue {queue} each message moves"
        " alone"
    )
    GROUP_OVER_UNIT = "its group has {messages} messages; max_messages_per_unit is {limit}"
    GROUP_OVER_MAXUMSGS = (
        "its group has {messages} messages, which need MAXUMSGS({needed}); it is {limit}"
    )
    GROUP_TOO_LONG = (
        "its group has {messages} messages with {length} bytes; a unit of work has at most {limit}"
    )
    GROUP_OVER_BUDGET = (
        "its group has {messages} messages, and the run may move {room} more (limits:"
        " messages_per_run)"
    )
    MEMBER_STAYS = "{place} of its group stays: {why}"
    MEMBER_WITHOUT_RULE = "no rule moves {place} of its group now"
    MEMBERS_DIFFER = (
        "the rules treat the messages of its group differently: this one {step}, and {place}"
        " {other}"
    )
    STEP_DISCARDS = "is discarded"
    STEP_PUTS = "goes to {queue}"

    # Messages that came back.
    CAME_BACK = "it {trips}"
    CAME_BACK_TOO_OFTEN = "it {trips} (loops: limit {limit})"
    CAME_BACK_TO_OWN_QUEUE = (
        "it {trips} (loops: limit {limit}; it stays, because {queue} is a queue of this very"
        " handler)"
    )
    TRIPS = "came back {trips:once|# times}"
    TRIPS_AFTER = "came back {trips:once|# times}, {delay} after {trips:its|each} delivery"
    TRIPS_TYPICALLY_AFTER = "came back {trips:once|# times}, typically {delay} after a delivery"

    # Ramps and breakers.
    RAMP_STEP = "ramp: step {step} of {steps} ({messages:1 message|# messages})"
    BREAKER_TRY = "breaker: one message as a try"
    STEP_UNFINISHED = "{step} has not finished"
    STEP_MAY_MOVE = "{step} may move"
    STEP_WATCHED = "{step} has moved, watching {place} until {until:moment}{unmet:?: }"
    TOO_FEW_READERS = "{readers} of {handles:1 handle|# handles} that must have it open for input"
    TOO_DEEP = "{depth:1 message|# messages} on it, {limit:,} allowed"
    NOT_CONSUMED = "{depth:1 message|# messages} on it, {before:,} before the step"
    BREAKER_OPEN = "breaker: {why}; next try at {until:moment}"
    MESSAGES_CAME_BACK = "{returned:,} of {moved:1 message|# messages} came back from {place}"
    PUTS_FAILED = "{puts:a put|# puts in a row} to {place} failed"
    PUTS_FAILED_WITH = "{puts:a put|# puts in a row} to {place} failed, the last with {mqrc:mqrc}"
    RAMP_COMPLETE = "ramp: all messages may move"
    BREAKER_CLOSED = "breaker: closed, all messages may move"

    # Why a message is not repaired.
    HEADER_DESCRIBES_DATA = (
        "its data begin with a valid {header}, which has their Format and CodedCharSetId, so that"
        " the body would have to change; repair only the destination"
    )
    REPAIR_CHANGES_NOTHING = (
        "the repair changes nothing: Format {format}, CodedCharSetId {ccsid} and the destination"
        " are the same already"
    )
    NO_SUCH_HEADER = (
        "Format {format} announces a header, and its data do not begin with a valid one; a repair"
        " of the Format never changes the body"
    )
    NEXT_HEADER_UNREADABLE = (
        "Format {format} announces a header, and its data begin with a valid {header} that"
        " announces another one, which cannot be read; a repair of the Format never changes the"
        " body"
    )
    BODY_PROTECTED = "Advanced Message Security protects its body, which cannot be replaced"
    BODY_OF_SEGMENT = "it is a segment of a message, and the others would not fit another body"
    BODY_WITHOUT_HEADERS = (
        "the replacement does not begin with the headers of the body, byte for byte: {headers}"
    )
    BODY_NOT_TEXT = "its Format is MQSTR, and the replacement is not text in CCSID {ccsid}"

    # What a restoration does with a copy.
    PUT_TO_QUEUE_FAILED = "put to {queue}: {mqrc:mqrc}{advice:?: }"
    QUEUE_BLOCKED = "{queue} has {mqrc:mqrc}"
    HEADER_STAYS = "its MQDLH cannot be taken off ({error}): restore it with its header"
    COPY_NOT_IN_FILE = "its copy is missing: {location} does not hold it"
    COPY_FILE_MISSING = "its copy is missing: {location} is not there"
    COPY_UNREADABLE = "its copy cannot be read: {error}"
    COPY_ALTERED = "its copy in {location} was altered: it is not what the ledger has the digest of"
    COPY_PRUNED = "its copy was pruned at {at:moment} by {policy} of handler {handler}"
    MOVE_NOT_SETTLED = (
        "its copy is provisional: the unit of work that was to {is_repaired:deliver it"
        " repaired|discard it} is not settled, which the handler's next run does; the message may"
        " still be on {queue}"
    )
    MOVE_UNKNOWN = (
        "its copy is provisional: nobody knows whether the unit of work that was to"
        " {is_repaired:deliver it repaired|discard it} took effect; the message may still be on"
        " {queue}"
    )
    MOVE_NOT_MADE = (
        "its copy is provisional: run {run_id} did not {is_repaired:deliver it repaired|discard"
        " it}; the message may still be on {queue}"
    )
    DELIVERED_TO = "to {place} at {at:moment} by run {run_id}"
    REPAIRED_BEFORE = (
        "it was delivered repaired {delivered}, so that its original would be a second message;"
        " again puts the original, too"
    )
    RESTORED_TO = "to {place} at {at:moment}"
    PERHAPS_RESTORED_TO = "to {place}, by restoration {restoration_id}"
    RESTORED_IN_LOST_TIME = "before an older copy of the ledger was restored"
    RESTORED_BEFORE = (
        "it was restored to {place} at {at:moment} by restoration {restoration_id}; again puts it"
        " once more"
    )
    PERHAPS_RESTORED_BEFORE = (
        "restoration {restoration_id} may have put it to {place}: look there for its MsgId; if it"
        " is not there, again puts it"
    )
    BEING_RESTORED = (
        "restoration {restoration_id} is about to put it to {place}, or was interrupted"
    )
    RESTORATION_LOST = (
        "the ledger was restored from an older copy and taken on at {at:moment}: a restoration"
        " that it lost may have put the message, so look for its MsgId; if it was not put, another"
        " restoration with again puts it"
    )
    PUT_IN_DOUBT = (
        "its unit of work was interrupted, and no marker tells whether it committed: look for its"
        " MsgId on {place} and at who reads from there; if it never came, restore it with again"
    )
    KNOWN_FROM_MARKER = "known from the unit's marker after an interruption"
    MOVED_IN_LOST_TIME = "moved by this handler before the ledger was restored"
    RECORDED_FROM_LAKE = (
        "recorded on {at:moment} from the lake, after an older copy of the ledger was restored"
    )


class _Templates(Formatter):
    """Fills templates with values, in the forms that `Why` names."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Reason):
            value = value.words
        if format_spec == "moment":
            return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S} UTC"
        if format_spec == "mqrc":
            return reason_text(value)
        if format_spec.startswith("?"):
            return f"{format_spec[1:]}{value}" if value else ""
        if "|" in format_spec:
            one, many = format_spec.split("|")
            return one if value == 1 else many.replace("#", f"{value:,}")
        return str(super().format_field(value, format_spec))


_TEMPLATES = _Templates()


# Very many messages of a run have the same reason.


@lru_cache(4096)
def _dump(reason: Reason) -> str:
    return json.dumps(_to_object(reason), separators=(",", ":"))


@lru_cache(4096)
def _load(stored: str) -> Reason:
    try:
        return _from_object(json.loads(stored))
    except (AttributeError, KeyError, TypeError, ValueError):
        return Why.OTHER(text=stored)


def _to_object(reason: Reason) -> dict[str, Any]:
    values = {
        name: _to_object(value) if isinstance(value, Reason) else value
        for name, value in reason.by_name.items()
    }
    return {"code": str(reason.code), **values}


def _from_object(found: dict[str, Any]) -> Reason:
    values = {
        name: _from_object(value) if isinstance(value, dict) else value
        for name, value in found.items()
        if name != "code"
    }
    return Why[found["code"].upper()](**values)
