"""Find doubtful actions: those that destroy, retry without success, or lose a target."""

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
    "somebody has to define what is missing": (
        "MQRC_Q_DELETED",
        "MQRC_UNKNOWN_ALIAS_BASE_Q",
        "MQRC_UNKNOWN_OBJECT_NAME",
        "MQRC_UNKNOWN_OBJECT_Q_MGR",
        "MQRC_UNKNOWN_REMOTE_Q_MGR",
        "MQRC_UNKNOWN_XMIT_Q",
        "MQRC_UNKNOWN_DEF_XMIT_Q",
    ),
    "somebody has to correct a definition": (
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
    "somebody has to grant the authority": ("MQRC_NOT_AUTHORIZED",),
    "the message stays as it is": (
        "MQRC_MSG_TOO_BIG_FOR_Q",
        "MQRC_MSG_TOO_BIG_FOR_Q_MGR",
        "MQRC_MSG_TOO_BIG_FOR_CHANNEL",
        "MQRC_PERSISTENT_NOT_ALLOWED",
        "MQRC_PROPERTIES_TOO_BIG",
    ),
}

WITHOUT_HOPE: Final = {MQRC[name]: cure for cure, names in _CURES.items() for name in names}
"""Reasons that time does not cure, and what would; full and inhibited queues are not among them."""

_FIELDS: Final = {"&DESTQ": ("DESTQM", "&DESTQM"), "&REPLYQ": ("REPLYQM", "&REPLYQM")}


def find_discarded(rule: Rule) -> Iterator[Finding]:
    """Find a DISCARD that matches every message; ``DESTQ(*)`` is no pattern either."""
    if rule.action is Action.DISCARD and not rule.patterns:
        yield Finding(
            Code.DISCARD_EVERYTHING,
            rule,
            "ACTION",
            "ACTION(DISCARD) without patterns discards every message that no earlier rule takes;"
            " name the messages by a pattern, or forward them",
        )


def find_vain_retry(rule: Rule) -> Iterator[Finding]:
    """Find a RETRY whose reason time does not cure, or that spreads poison."""
    reason = _value(rule, "REASON")
    if rule.action is not Action.RETRY or not isinstance(reason, int):
        return
    if reason == _POISON:
        yield Finding(
            Code.POISON_RETRY,
            rule,
            "REASON",
            f"{reason_text(reason)} is a message its consumer backed out again and again;"
            " ACTION(RETRY) hands it back to that consumer, forward it to where somebody looks",
        )
    elif reason in WITHOUT_HOPE:
        yield Finding(
            Code.HOPELESS_RETRY,
            rule,
            "REASON",
            f"{reason_text(reason)} does not pass by itself, {WITHOUT_HOPE[reason]};"
            " ACTION(RETRY) fails each time, forward it to where somebody looks",
        )


def find_unguarded_reply(rule: Rule) -> Iterator[Finding]:
    """Find a FWDQ(&REPLYQ) that messages without a reply-to queue meet (IBM asks REPLYQ(?*))."""
    if rule.fwd_q != "&REPLYQ":
        return
    guard = _pattern(rule, "REPLYQ")
    if guard is None or guard.matches(""):
        yield Finding(
            Code.UNGUARDED_REPLY_QUEUE,
            rule,
            "FWDQ",
            "FWDQ(&REPLYQ) names no queue where ReplyToQ is blank; the rule needs REPLYQ(?*)",
        )


def find_dropped_queue_manager(rule: Rule, queue_manager: str) -> Iterator[Finding]:
    """Find a put to a field's queue that drops the queue manager the rule itself asked for.

    A queue named literally may well be meant locally, unless it is the very one of DESTQ.
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
            f" but the rule asks {keyword}({shortened(str(asked))}); add FWDQM({substitution})",
        )


def _pattern(rule: Rule, keyword: str) -> Pattern | None:
    return next((pattern for pattern in rule.patterns if pattern.keyword == keyword), None)


def _value(rule: Rule, keyword: str) -> str | int | None:
    pattern = _pattern(rule, keyword)
    return None if pattern is None else pattern.value
