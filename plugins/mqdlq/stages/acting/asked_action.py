"""The action that a person asks for, and the rule that carries it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers.operation import GuardedAction
from mqdlq.model import Action, PutAuthority
from mqdlq.rules import Rule
from mqdlq.stages.repairing.repair import Repair, parse_repair

_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_CCSID: Final = re.compile(r"[0-9]{1,5}")


class ActionError(MqDlqError, ValueError):
    """A field of the form of an action is not valid."""

    def __init__(self, field: str, fault: str, expected: str) -> None:
        """Name the field, its fault, and what would be right."""
        super().__init__("MQDLQ-981", f"{field}: {fault}; expected {expected}")


class Verb(StrEnum):
    """What to do with the messages: its words, its effect, and whether it can be undone."""

    RETRY = (
        "retry",
        "Retry",
        "each message is put to its own destination, in one attempt; it stays if the put fails",
        "A delivered message cannot be taken back: its application may read it at once.",
    )
    FORWARD = (
        "forward",
        "Forward",
        "each message is put to the queue you name; it stays if the put fails",
        "It cannot be undone: no copy is made, and an application may read the message at once.",
    )
    DISCARD = (
        "discard",
        "Discard",
        "each message is copied to the archive, and then removed from the queue",
        "It can be undone with Restore, as long as the archive keeps the copies.",
    )
    RESTORE = (
        "restore",
        "Restore",
        "the archive copy of each message is put on a queue, and also stays in the archive",
        "To undo it, act on the restored messages, before an application or a run takes them.",
    )
    LEAVE = (
        "leave",
        "Leave",
        "each message stays on the queue; the run records that you left it there",
        "Nothing is moved, so there is nothing to undo.",
    )

    words: str
    effect: str
    undo: str

    def __new__(cls, value: str, words: str = "", effect: str = "", undo: str = "") -> Self:
        """Create a member from its declaration; a lookup has the value only."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.words, member.effect, member.undo = words, effect, undo
        return member

    @property
    def guarded(self) -> GuardedAction | None:
        """The action as the guard of second persons names it, None for one that it never guards."""
        return {
            Verb.RETRY: GuardedAction.RETRY,
            Verb.FORWARD: GuardedAction.FWD,
            Verb.DISCARD: GuardedAction.DISCARD,
        }.get(self)


_VERBS: Final[Mapping[Action, Verb]] = {
    Action.RETRY: Verb.RETRY,
    Action.FWD: Verb.FORWARD,
    Action.DISCARD: Verb.DISCARD,
    Action.IGNORE: Verb.LEAVE,
}


@dataclass(frozen=True, slots=True)
class AskedAction:
    """An action with its target; without a queue, a restoration goes to the dead-letter queue.

    `repair` has the fields that a RETRY or FWD changes of the messages, None for none.
    """

    verb: Verb
    to_queue: str = ""
    to_queue_manager: str = ""
    header: bool = True
    repair: Repair | None = None

    @property
    def rule(self) -> str:
        """The rule without patterns that a run is given; "" for a restoration."""
        if self.verb is Verb.FORWARD:
            manager = f" FWDQM('{self.to_queue_manager}')" if self.to_queue_manager else ""
            header = "YES" if self.header else "NO"
            return f"ACTION(FWD) FWDQ('{self.to_queue}'){manager} HEADER({header})"
        return {
            Verb.RETRY: "ACTION(RETRY) RETRY(1)",
            Verb.DISCARD: "ACTION(DISCARD)",
            Verb.LEAVE: "ACTION(IGNORE)",
        }.get(self.verb, "")

    @property
    def needs_dead_letter(self) -> bool:
        """Whether only a message with a valid MQDLH can be acted on so."""
        return self.verb is Verb.RETRY

    @property
    def moves(self) -> bool:
        """Whether messages leave the dead-letter queue."""
        return self.verb in {Verb.RETRY, Verb.FORWARD, Verb.DISCARD}

    def parameters(self) -> dict[str, str]:
        """Return the query parameters that `parse_action` reads."""
        given = {"action": str(self.verb)}
        if self.verb in {Verb.FORWARD, Verb.RESTORE}:
            given |= {"to_queue": self.to_queue, "to_queue_manager": self.to_queue_manager}
            given |= {"header": "yes" if self.header else "no"}
        if self.repair is not None:
            ccsid = self.repair.coded_char_set_id
            given |= {"repair_format": self.repair.format or ""}
            given |= {"repair_ccsid": "" if ccsid is None else str(ccsid)}
        return {name: value for name, value in given.items() if value}


def parse_action(given: Mapping[str, str]) -> AskedAction | None:
    """Parse an action and its fields; None without an action. Raises ActionError.

    The fields are to_queue, to_queue_manager and header, and for messages that are put
    repair_format and repair_ccsid, which are empty for a value that stays.
    """
    value = given.get("action", "").strip()
    if not value:
        return None
    if value not in [str(one) for one in Verb]:
        known = ", ".join(Verb)
        raise ActionError("action", f"found {value[:40]!r}", f"one of {known}")
    verb = Verb(value)
    repair = _repair(given) if verb in {Verb.RETRY, Verb.FORWARD} else None
    if verb not in {Verb.FORWARD, Verb.RESTORE}:
        return AskedAction(verb, repair=repair)
    queue = _name("to_queue", given)
    manager = _name("to_queue_manager", given)
    if not queue and (verb is Verb.FORWARD or manager):
        raise ActionError("to_queue", "it is empty", "the name of the queue to put to")
    header = given.get("header", "yes").strip() or "yes"
    if header not in {"yes", "no"}:
        raise ActionError("header", f"found {header[:40]!r}", "yes or no")
    if verb is Verb.RESTORE and not queue and header == "no":
        raise ActionError(
            "header",
            "without it a message cannot go back to its dead-letter queue",
            "another queue, or header=yes",
        )
    if repair is not None and header == "yes":
        raise ActionError(
            "header", "a message that keeps its MQDLH cannot be repaired", "header=no for a repair"
        )
    return AskedAction(verb, queue, manager, header == "yes", repair)


def _repair(given: Mapping[str, str]) -> Repair | None:
    """Return the repair of the form, None if both fields are empty."""
    written, ccsid = (given.get(name, "").strip() for name in ("repair_format", "repair_ccsid"))
    if ccsid and not _CCSID.fullmatch(ccsid):
        expected = "a whole number from 1 to 65535, such as 1208"
        raise ActionError("repair_ccsid", f"found {ccsid[:40]!r}", expected)
    wanted: dict[str, str | int] = {"format": written} if written else {}
    if ccsid:
        wanted["coded_char_set_id"] = int(ccsid)
    try:
        return parse_repair(wanted or None)
    except HandlerError as error:
        where, _, rest = error.text.partition(": ")
        fault, _, expected = rest.partition("; expected ")
        field = "repair_format" if where == "repair.format" else "repair_ccsid"
        raise ActionError(field, fault, expected) from error


def action_of_rule(rule: Rule) -> AskedAction | None:
    """Return the action of a rule as a person can ask for it, None if nobody can.

    A RETRY becomes one attempt. A rule that puts with the authority of a message's user, or takes
    its target from the message, has no such action.
    """
    verb = _VERBS[rule.action]
    if verb in {Verb.RETRY, Verb.FORWARD} and rule.put_authority is not PutAuthority.DEF:
        return None
    if verb is not Verb.FORWARD:
        return AskedAction(verb)
    names = [name for name in (rule.fwd_q, rule.fwd_q_mgr) if name]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    return AskedAction(verb, rule.fwd_q, rule.fwd_q_mgr, rule.header)


def _name(field: str, given: Mapping[str, str]) -> str:
    name = given.get(field, "").strip()
    if name and not _NAME.fullmatch(name):
        raise ActionError(
            field,
            f"found {name[:60]!r}",
            "at most 48 letters, digits and . _ / %, as IBM MQ allows in names",
        )
    return name
