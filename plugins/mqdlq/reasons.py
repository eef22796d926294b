"""Reasons: why a message, a copy or a ramp is as it is, as a code with values.

The ledger has the code and the values, and code compares codes. Words are made where a person
reads, by `Reason.words`, so that a reason can be reworded without any other effect.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from string import Formatter
from typing import Any, NamedTuple, Self

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


class Why(StrEnum):
    """The code of a reason; a call with the values of the code makes the reason.

    A declaration has the code in the ledger, and the template of its words, which names the values.
    A template takes a value as `str.format` does, or in a form:

    `{at:moment}` is a time, and `{mqrc:mqrc}` a reason code of IBM MQ with its name.
    `{number:one|# many}` has words for one and for another number, which replaces `#`.
    `{value:?before}` has `before` and the value, or nothing where there is no value.

    The ledger always keeps codes and names of values: no later version gives them another
    meaning, or leaves one out. The other words of a template may change at any time.
    """

    template: str
    names: tuple[str, ...]

    def __new__(cls, value: str, template: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_, member.template = value, template
        found = (name for _, name, _, _ in Formatter().parse(template) if name is not None)
        member.names = tuple(dict.fromkeys(found))
        return member

    def __call__(self, **values: Any) -> Reason:
        """Return the reason with these values; raises TypeError unless it takes exactly them."""
        if values.keys() != set(self.names):
            raise TypeError(f"{self.name} takes {self.names}, not {tuple(values)}")
        return Reason(self, tuple(_plain(values[name]) for name in self.names))

    OTHER = "other", "{text}"

    # Why a run does not execute its plan.
    DRY_RUN = "dry_run", "dry run"
    REPAIR_NOT_ASKED = (
        "repair_not_asked",
        "not approved: a repair needs an approval, and nobody was asked",
    )
    NOT_ANSWERED = "not_answered", "not approved: nobody has answered yet{who:? by }"
    REJECTED = "rejected", "not approved: rejected{who:? by }"
    WOULD_ALSO_STAY = "would_also_stay", "{why}; it would also stay because {also}"
    WOULD_BE_REPAIRED = "would_be_repaired", "{why}; it would be repaired: {changes}"

    # How a message ended.
    ATTEMPT = "attempt", "attempt {number}"
    DELIVERED_REPAIRED = "delivered_repaired", "repaired: {changes}; original in the archive"
    REPAIRED_BECAUSE = "repaired_because", "{repaired}; {because}"
    SETTLED_BEFORE = "settled_before", "as an earlier run left it"
    NO_RULE_MATCHES = "no_rule_matches", "no rule matches"
    UNPROCESSABLE = "unprocessable", "{problem}"
    RULE_IGNORES = "rule_ignores", "rule {rule} (line {line}) says IGNORE"
    NOT_TRIED = "not_tried", "not tried before the run ended"
    TRIED = "tried", "{attempts} attempts so far, the last {last}"
    EXHAUSTED = "exhausted", "{attempts} attempts, the last {last}"
    OF_EARLIER_RUN = "of_earlier_run", "made by an earlier run"
    PUT_FAILED = "put_failed", "to {target}: {mqrc:mqrc}{advice:?: }"
    ATTEMPT_ENDED = "attempt_ended", "to {target}: {state}"
    OTHER_OF_GROUP_FAILED = (
        "other_of_group_failed",
        "message {number} of its group failed with {mqrc:mqrc}",
    )
    EXPIRED = "expired", "its Expiry ended at {at:moment}"
    TAKEN = "taken", "it is no longer on the queue, and this handler did not move it"
    INVISIBLE = (
        "invisible",
        "it is not visible on the queue, and {handles:one handle has|# handles have} that"
        " open for input: an application may hold it in a unit of work, which DISPLAY QSTATUS"
        " TYPE(HANDLE) shows; if it comes back, the next run handles it",
    )
    IN_DOUBT = "in_doubt", "its unit of work was interrupted and is not resolved"
    TIME_LOST = (
        "time_lost",
        "it is not on the queue, and the ledger was restored from an older copy since this"
        " run began: this handler may have moved it before, so look for its MsgId on its"
        " target and in the archive",
    )
    HANDLED_BY_RUN = "handled_by_run", "run {run_id} handled it in the meantime"
    BEING_MOVED = "being_moved", "run {run_id} is about to move it"
    LEASED = "leased", "run {run_id} has it and waits to try it again"

    # Why a message was not moved.
    NOT_MOVED = "not_moved", "it was not moved before the run ended"
    BACKED_OUT = "backed_out", "its unit of work was backed out: {mqrc:mqrc}"
    DIFFERS_FROM_COPY = (
        "differs_from_copy",
        "its unit of work was backed out: it differs from its archive copy, or the task was"
        " interrupted",
    )
    NO_ARCHIVE_COPY = "no_archive_copy", "it was not archived, so it stays"
    NOT_ARCHIVED = "not_archived", "it could not be archived"
    TARGET_BLOCKED = "target_blocked", "held: {target} has {mqrc:mqrc}"
    OWN_TARGET = "own_target", "its target, {target}, is a queue of this very handler"
    LEADS_TO_OWN_QUEUE = (
        "leads_to_own_queue",
        "its target, {target}, leads to {queue}, a queue of this very handler",
    )
    MAYBE_TRUNCATED = (
        "maybe_truncated",
        "it is as long as the queue allows and may have been cut; deliver_truncated would"
        " deliver it anyway",
    )
    PLAN_ALTERED = (
        "plan_altered",
        "the rules decide otherwise about it than its plan, as a file of the snapshot or of"
        " the plan was altered; the next run decides about it again",
    )
    OTHER_OF_GROUP_STAYS = "other_of_group_stays", "another message of its group stays: {why}"
    OTHER_OF_GROUP_HELD = "other_of_group_held", "another message of its group is held: {why}"

    # Limits.
    BUDGET_USED = (
        "budget_used",
        "the run has moved as many messages as it may (limits: messages_per_run: {limit})",
    )
    MESSAGE_RATE = (
        "message_rate",
        "the limit of {name} is {amount:g} messages a {period} (limits: {key})",
    )
    BYTE_RATE = "byte_rate", "the limit of {name} is {amount:.0f} bytes a {period} (limits: {key})"
    TARGET_DEEP = "target_deep", "{name} holds {messages} messages or more (limits: in_flight)"
    TARGET_CLOSED = "target_closed", "queue {queue} is closed until {until:moment} (limits: closed)"
    LEFT_WHILE_WAITING = "left_while_waiting", "it left the queue while the run waited for a limit"

    # Order of messages.
    BEHIND_SAME_KEY = "behind_same_key", "it waits behind an earlier message with the same {key}"
    KEY_UNREADABLE = "key_unreadable", "the headers in which it may have {key} cannot be read"
    GROUP_ID_REPEATED = (
        "group_id_repeated",
        "its GroupId is used more than once: {messages} messages have MsgSeqNumber {number}",
    )
    GROUP_INCOMPLETE = (
        "group_incomplete",
        "its group is incomplete: {messages:1 message is|# messages are} on the queue; {gaps}",
    )
    LAST_IS_NOT_LAST = (
        "last_is_not_last",
        "MsgSeqNumber {flagged} is flagged as the last, but there is MsgSeqNumber {highest}",
    )
    LAST_MISSING = "last_missing", "the last is missing"
    NUMBERS_MISSING = "numbers_missing", "MsgSeqNumber {listed} {missing:is|are} missing"
    SEGMENT_MISSING = (
        "segment_missing",
        "the segment of MsgSeqNumber {number} with Offset {offset} is missing",
    )
    SEGMENTS_OVERLAP = (
        "segments_overlap",
        "segments of MsgSeqNumber {number} overlap at Offset {offset}",
    )
    LAST_SEGMENT_MISSING = (
        "last_segment_missing",
        "the last segment of MsgSeqNumber {number} is missing",
    )
    GROUP_NOT_IN_RUN = (
        "group_not_in_run",
        "its group has {messages} messages; this run has {here} of them{settled:?, and"
        " earlier runs have settled }",
    )
    GROUP_WITHOUT_STATE_QUEUE = (
        "group_without_state_queue",
        "its group has {messages} messages; without the state queue {queue} each message"
        " moves alone",
    )
    GROUP_OVER_UNIT = (
        "group_over_unit",
        "its group has {messages} messages; max_messages_per_unit is {limit}",
    )
    GROUP_OVER_MAXUMSGS = (
        "group_over_maxumsgs",
        "its group has {messages} messages, which need MAXUMSGS({needed}); it is {limit}",
    )
    GROUP_TOO_LONG = (
        "group_too_long",
        "its group has {messages} messages with {length} bytes; a unit of work has at most {limit}",
    )
    GROUP_OVER_BUDGET = (
        "group_over_budget",
        "its group has {messages} messages, and the run may move {room} more (limits:"
        " messages_per_run)",
    )
    MEMBER_STAYS = "member_stays", "{place} of its group stays: {why}"
    MEMBER_WITHOUT_RULE = "member_without_rule", "no rule moves {place} of its group now"
    MEMBERS_DIFFER = (
        "members_differ",
        "the rules treat the messages of its group differently: this one {step}, and {place}"
        " {other}",
    )
    STEP_DISCARDS = "step_discards", "is discarded"
    STEP_PUTS = "step_puts", "goes to {queue}"

    # Messages that came back.
    CAME_BACK = "came_back", "it {trips}"
    CAME_BACK_TOO_OFTEN = "came_back_too_often", "it {trips} (loops: limit {limit})"
    CAME_BACK_TO_OWN_QUEUE = (
        "came_back_to_own_queue",
        "it {trips} (loops: limit {limit}; it stays, because {queue} is a queue of this very"
        " handler)",
    )
    TRIPS = "trips", "came back {trips:once|# times}"
    TRIPS_AFTER = (
        "trips_after",
        "came back {trips:once|# times}, {delay} after {trips:its|each} delivery",
    )
    TRIPS_TYPICALLY_AFTER = (
        "trips_typically_after",
        "came back {trips:once|# times}, typically {delay} after a delivery",
    )

    # Ramps and breakers.
    RAMP_STEP = "ramp_step", "ramp: step {step} of {steps} ({messages:1 message|# messages})"
    BREAKER_TRY = "breaker_try", "breaker: one message as a try"
    STEP_UNFINISHED = "step_unfinished", "{step} has not finished"
    STEP_MAY_MOVE = "step_may_move", "{step} may move"
    STEP_WATCHED = (
        "step_watched",
        "{step} has moved, watching {place} until {until:moment}{unmet:?: }",
    )
    TOO_FEW_READERS = (
        "too_few_readers",
        "{readers} of {handles:1 handle|# handles} that must have it open for input",
    )
    TOO_DEEP = "too_deep", "{depth:1 message|# messages} on it, {limit:,} allowed"
    NOT_CONSUMED = "not_consumed", "{depth:1 message|# messages} on it, {before:,} before the step"
    BREAKER_OPEN = "breaker_open", "breaker: {why}; next try at {until:moment}"
    MESSAGES_CAME_BACK = (
        "messages_came_back",
        "{returned:,} of {moved:1 message|# messages} came back from {place}",
    )
    PUTS_FAILED = "puts_failed", "{puts:a put|# puts in a row} to {place} failed"
    PUTS_FAILED_WITH = (
        "puts_failed_with",
        "{puts:a put|# puts in a row} to {place} failed, the last with {mqrc:mqrc}",
    )
    RAMP_COMPLETE = "ramp_complete", "ramp: all messages may move"
    BREAKER_CLOSED = "breaker_closed", "breaker: closed, all messages may move"

    # Why a message is not repaired.
    HEADER_DESCRIBES_DATA = (
        "header_describes_data",
        "its data begin with a valid {header}, which has their Format and CodedCharSetId, so"
        " that the body would have to change; repair only the destination",
    )
    REPAIR_CHANGES_NOTHING = (
        "repair_changes_nothing",
        "the repair changes nothing: Format {format}, CodedCharSetId {ccsid} and the"
        " destination are the same already",
    )
    NO_SUCH_HEADER = (
        "no_such_header",
        "Format {format} announces a header, and its data do not begin with a valid one; a"
        " repair never changes the body",
    )
    NEXT_HEADER_UNREADABLE = (
        "next_header_unreadable",
        "Format {format} announces a header, and its data begin with a valid {header} that"
        " announces another one, which cannot be read; a repair never changes the body",
    )

    # What a restoration does with a copy.
    PUT_TO_QUEUE_FAILED = "put_to_queue_failed", "put to {queue}: {mqrc:mqrc}{advice:?: }"
    QUEUE_BLOCKED = "queue_blocked", "{queue} has {mqrc:mqrc}"
    HEADER_STAYS = (
        "header_stays",
        "its MQDLH cannot be taken off ({error}): restore it with its header",
    )
    COPY_NOT_IN_FILE = "copy_not_in_file", "its copy is missing: {location} does not hold it"
    COPY_FILE_MISSING = "copy_file_missing", "its copy is missing: {location} is not there"
    COPY_UNREADABLE = "copy_unreadable", "its copy cannot be read: {error}"
    COPY_ALTERED = (
        "copy_altered",
        "its copy in {location} was altered: it is not what the ledger has the digest of",
    )
    COPY_PRUNED = (
        "copy_pruned",
        "its copy was pruned at {at:moment} by {policy} of handler {handler}",
    )
    MOVE_NOT_SETTLED = (
        "move_not_settled",
        "its copy is provisional: the unit of work that was to {is_repaired:deliver it"
        " repaired|discard it} is not settled, which the handler's next run does; the message"
        " may still be on {queue}",
    )
    MOVE_UNKNOWN = (
        "move_unknown",
        "its copy is provisional: nobody knows whether the unit of work that was to"
        " {is_repaired:deliver it repaired|discard it} took effect; the message may still be"
        " on {queue}",
    )
    MOVE_NOT_MADE = (
        "move_not_made",
        "its copy is provisional: run {run_id} did not {is_repaired:deliver it"
        " repaired|discard it}; the message may still be on {queue}",
    )
    DELIVERED_TO = "delivered_to", "to {place} at {at:moment} by run {run_id}"
    REPAIRED_BEFORE = (
        "repaired_before",
        "it was delivered repaired {delivered}, so that its original would be a second"
        " message; again puts the original, too",
    )
    RESTORED_TO = "restored_to", "to {place} at {at:moment}"
    PERHAPS_RESTORED_TO = "perhaps_restored_to", "to {place}, by restoration {restoration_id}"
    RESTORED_IN_LOST_TIME = (
        "restored_in_lost_time",
        "before an older copy of the ledger was restored",
    )
    RESTORED_BEFORE = (
        "restored_before",
        "it was restored to {place} at {at:moment} by restoration {restoration_id}; again"
        " puts it once more",
    )
    PERHAPS_RESTORED_BEFORE = (
        "perhaps_restored_before",
        "restoration {restoration_id} may have put it to {place}: look there for its MsgId;"
        " if it is not there, again puts it",
    )
    BEING_RESTORED = (
        "being_restored",
        "restoration {restoration_id} is about to put it to {place}, or was interrupted",
    )
    RESTORATION_LOST = (
        "restoration_lost",
        "the ledger was restored from an older copy and taken on at {at:moment}: a"
        " restoration that it lost may have put the message, so look for its MsgId; if it was"
        " not put, another restoration with again puts it",
    )
    PUT_IN_DOUBT = (
        "put_in_doubt",
        "its unit of work was interrupted, and no marker tells whether it committed: look for"
        " its MsgId on {place} and at who reads from there; if it never came, restore it with"
        " again",
    )
    KNOWN_FROM_MARKER = "known_from_marker", "known from the unit's marker after an interruption"
    MOVED_IN_LOST_TIME = (
        "moved_in_lost_time",
        "moved by this handler before the ledger was restored",
    )
    RECORDED_FROM_LAKE = (
        "recorded_from_lake",
        "recorded on {at:moment} from the lake, after an older copy of the ledger was restored",
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


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


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
    return {"code": reason.code, **values}


def _from_object(found: dict[str, Any]) -> Reason:
    values = {
        name: _from_object(value) if isinstance(value, dict) else value
        for name, value in found.items()
        if name != "code"
    }
    return Why(found["code"])(**values)
