"""Find doubtful actions: discarding everything, hopeless retries, incomplete targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.model import Action
from mqdlq.rules.diagnostics import shortened
from mqdlq.rules.lint.findings import Code, Finding
from mqdlq.rules.records import Pattern, Rule

_POISON: Final = MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]

_CURES: Final = {
    "someone must define the missing object": (
        "MQRC_Q_DELETED",
        "MQRC_UNKNOWN_ALIAS_BASE_Q",
        "MQRC_UNKNOWN_OBJECT_NAME",
        "MQRC_UNKNOWN_OBJECT_Q_MGR",
        "MQRC_UNKNOWN_REMOTE_Q_MGR",
        "MQRC_UNKNOWN_XMIT_Q",
        "MQRC_UNKNOWN_DEF_XMIT_Q",
    ),
    "someone must correct the definition": (
        "MQRC_ALIAS_BASE_Q_TYPE_ERROR",
        "MQRC_Q_TYPE_ERROR",
        "MQRC_XMIT_Q_TYPE_ERROR",
        "MQRC_XMIT_Q_USAGE_ERROR",
        "MQRC_DEF_XMIT_Q_TYPE_ERROR",
        "MQRC_DEF_XMIT_Q_USAGE_ERROR",
        "MQRC_OBJECT_NAME_ERROR",
        "MQRC_OBJECT_Q_MGR_NAME_ERROR",
        "MQRC_REMOTE_Q_NAME_ERROR",
        "MQRC_NAME_NOT_VALID_FOR_TYPE",
    ),
    "someone must grant the authority": ("MQRC_NOT_AUTHORIZED",),
    "the message does not change": (
        "MQRC_MSG_TOO_BIG_FOR_Q",
        "MQRC_MSG_TOO_BIG_FOR_Q_MGR",
        "MQRC_MSG_TOO_BIG_FOR_CHANNEL",
        "MQRC_PERSISTENT_NOT_ALLOWED",
        "MQRC_PROPERTIES_TOO_BIG",
    ),
}

HOPELESS_REASONS: Final = {MQRC[name]: cure for cure, names in _CURES.items() for name in names}
"""Reasons that do not pass by themselves, with their remedies; not full or inhibited queues."""

_FIELDS: Final = {"&DESTQ": ("DESTQM", "&DESTQM"), "&REPLYQ": ("REPLYQM", "&REPLYQM")}


def find_discarded(rule: Rule) -> Iterator[Finding]:
    """Find a DISCARD that matches every message; ``DESTQ(*)`` does not count as a pattern."""
    if rule.action is Action.DISCARD and not rule.patterns:
        yield Finding(
            Code.DISCARD_EVERYTHING,
            rule,
            "ACTION",
            "ACTION(DISCARD) without patterns discards every message that no earlier rule handles;"
            " name the messages by a pattern, or forward them",
        )


def find_hopeless_retry(rule: Rule) -> Iterator[Finding]:
    """Find a RETRY whose reason does not pass, or that returns a message its reader backs out."""
    reason = _value(rule, "REASON")
    if rule.action is not Action.RETRY or not isinstance(reason, int):
        return
    if reason == _POISON:
        yield Finding(
            Code.POISON_RETRY,
            rule,
            "REASON",
            f"{reason_text(reason)} means that the message's reader backed it out repeatedly, and"
            " ACTION(RETRY) returns it to that reader; forward it to a queue that someone monitors",
        )
    elif reason in HOPELESS_REASONS:
        yield Finding(
            Code.HOPELESS_RETRY,
            rule,
            "REASON",
            f"{reason_text(reason)} does not pass by itself ({HOPELESS_REASONS[reason]}), so every"
            " ACTION(RETRY) fails; forward the message to a queue that someone monitors",
        )


def find_unguarded_reply(rule: Rule) -> Iterator[Finding]:
    """Find a FWDQ(&REPLYQ) that also matches messages without ReplyToQ (IBM uses REPLYQ(?*))."""
    if rule.fwd_q != "&REPLYQ":
        return
    guard = _pattern(rule, "REPLYQ")
    if guard is None or guard.matches(""):
        yield Finding(
            Code.UNGUARDED_REPLY_QUEUE,
            rule,
            "FWDQ",
            "FWDQ(&REPLYQ) names no queue if ReplyToQ is blank; add REPLYQ(?*)",
        )


def find_dropped_queue_manager(rule: Rule, queue_manager: str) -> Iterator[Finding]:
    """Find a put to a field's queue that drops the queue manager of the rule's own pattern.

    A literal queue name may be intended as local, unless it is the one in DESTQ.
    """
    if rule.fwd_q_mgr:
        return
    destination = _value(rule, "DESTQ")
    target = "&DESTQ" if rule.fwd_q and rule.fwd_q == destination else rule.fwd_q
    keyword, substitution = _FIELDS.get(target, ("", ""))
    asked = _value(rule, keyword)
    if asked and asked != queue_manager:
        yield Finding(
            Code.DROPPED_QUEUE_MANAGER,
            rule,
            "FWDQ",
            f"FWDQ({shortened(rule.fwd_q)}) without FWDQM is a queue of the local queue manager,"
            f" but the rule requires {keyword}({shortened(str(asked))}); add FWDQM({substitution})",
        )


def _pattern(rule: Rule, keyword: str) -> Pattern | None:
    return next((pattern for pattern in rule.patterns if pattern.keyword == keyword), None)


def _value(rule: Rule, keyword: str) -> str | int | None:
    pattern = _pattern(rule, keyword)
    return None if pattern is None else pattern.value
