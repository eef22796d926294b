"""Translate a filter into conditions on the rows of snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mqdlq.causes import find_cause
from mqdlq.lake.row_search import (
    Condition,
    Snapshots,
    any_of,
    begins_with,
    contains,
    distinct_rows,
    equals,
    is_between,
    is_like,
    is_one_of,
)
from mqdlq.ledger import KEY_DIGITS
from mqdlq.stages.finding.message_filter import (
    ID_DIGITS,
    MessageFilter,
    reason_number,
)

_NAMES: Final = (
    "put_appl_name",
    "user_identifier",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "dlh_format",
    "format",
)
_OF_A_CAUSE: Final = ("class", "dlh_reason", "dlh_dest_q_name", "dlh_dest_q_mgr_name")
_MOST_DESTINATIONS: Final = 200_000
_LEAST: Final = 6
"""How many digits a word has at least that may be the beginning of a key."""
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


def conditions_of(chosen: MessageFilter, snapshots: Snapshots) -> list[Condition]:
    """Return the conditions of a filter, all of which a row must meet.

    `queue_manager`, `queue` and `state` are not among them: a row does not have them. The
    `snapshots` say which destinations belong to a cause.
    """
    found = [*_of_text(chosen.text), *_of_identifiers(chosen), *_of_names(chosen)]
    if chosen.reason is not None:
        found.append(equals(chosen.reason, "dlh_reason"))
    if chosen.since or chosen.until:
        found.append(is_between(chosen.since, chosen.until, "dead_lettered_at", "put_at"))
    if chosen.expires_before:
        found.append(is_between(None, chosen.expires_before, "expires_at"))
    if chosen.cause_id:
        found.append(_of_cause(chosen.cause_id, snapshots, found))
    return found


def _of_text(text: str) -> Iterator[Condition]:
    digits = text.strip().lower()
    if set(digits) <= _HEXADECIMAL and len(digits) in {ID_DIGITS, KEY_DIGITS}:
        columns = ("msg_id", "correl_id") if len(digits) == ID_DIGITS else ("message_key",)
        yield equals(bytes.fromhex(digits), *columns)
        return
    for word in text.split():
        found = [contains(word, *_NAMES)]
        if (reason := reason_number(word)) is not None:
            found.append(equals(reason, "dlh_reason"))
        if _LEAST <= len(word) < KEY_DIGITS and set(word.lower()) <= _HEXADECIMAL:
            found.append(begins_with(word.lower(), "message_key"))
        yield any_of(found)


def _of_identifiers(chosen: MessageFilter) -> Iterator[Condition]:
    for name in ("msg_id", "correl_id", "message_key"):
        if digits := getattr(chosen, name):
            yield equals(bytes.fromhex(digits), name)


def _of_names(chosen: MessageFilter) -> Iterator[Condition]:
    for pattern, column in (
        (chosen.application, "put_appl_name"),
        (chosen.user, "user_identifier"),
        (chosen.dest_q_name, "dlh_dest_q_name"),
        (chosen.dest_q_mgr_name, "dlh_dest_q_mgr_name"),
    ):
        if pattern:
            yield is_like(pattern, column)
    if chosen.format:
        # An MQDLH keeps the Format of the message in its own, and MQMD.Format is then MQDEAD.
        yield is_like(chosen.format, "dlh_format", "format")


def _of_cause(cause_id: str, snapshots: Snapshots, others: Sequence[Condition]) -> Condition:
    """Return the condition that a row's cause has this id; generated names are one cause."""
    known = distinct_rows(snapshots, others, _OF_A_CAUSE, _MOST_DESTINATIONS)
    rows = []
    for cls, reason, dest_q_name, dest_q_mgr_name in known:
        row = (cls, reason or 0, dest_q_name or "", dest_q_mgr_name or "")
        if find_cause(*row).cause_id == cause_id:
            rows.append(row)
    return is_one_of(rows, *_OF_A_CAUSE)
