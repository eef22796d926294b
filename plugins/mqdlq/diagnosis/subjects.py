"""Read from a snapshot what a diagnosis asks about: the dead letters of each of some causes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from mqdlq.causes import COLUMNS, Cause, cause_of_row
from mqdlq.diagnosis.obstacles import Sample, Subject
from mqdlq.headers import DLH_LENGTH
from mqdlq.lake import whole_rows

MOST_MESSAGES: Final = 50_000
"""The most messages of a snapshot that are read while someone waits."""
MOST_USERS: Final = 3
_READ: Final = (
    *COLUMNS,
    *("message_key", "msg_id", "user_identifier", "put_appl_name", "total_length"),
    *("dlh_coded_char_set_id", "dlh_format", "payload_offset"),
)


def read_subjects(
    location: str, queue: str, *, cause_id: str = "", message_key: str = ""
) -> dict[Cause, Subject]:
    """Return what a snapshot of a queue has of each cause, those with the most messages first.

    `cause_id` and `message_key`, or their beginnings, restrict it to the messages that have them.
    Raises LakeError.
    """
    found: dict[Cause, Subject] = {}
    users: defaultdict[Cause, Counter[str]] = defaultdict(Counter)
    applications: defaultdict[Cause, Counter[str]] = defaultdict(Counter)
    for row in islice(whole_rows(location, _READ), MOST_MESSAGES):
        cause = cause_of_row(row)
        if not (
            cause.cause_id.startswith(cause_id) and row["message_key"].hex().startswith(message_key)
        ):
            continue
        one = found.get(cause) or _subject(row, queue)
        length = (row["total_length"] or 0) - DLH_LENGTH * cause.is_of_dead_letters
        longest = max(one.longest, length)
        found[cause] = replace(one, messages=one.messages + 1, longest=longest)
        users[cause][row["user_identifier"] or ""] += 1
        applications[cause][row["put_appl_name"] or ""] += 1
    return {
        cause: replace(one, users=_most(users[cause]), applications=_most(applications[cause]))
        for cause, one in sorted(found.items(), key=lambda each: -each[1].messages)
    }


def _subject(row: Mapping[str, Any], queue: str) -> Subject:
    sample = None
    if (offset := row["payload_offset"]) is not None:
        stated = row["dlh_coded_char_set_id"] or 0, row["dlh_format"] or ""
        sample = Sample(queue, row["msg_id"], offset, *stated)
    name, place = row["dlh_dest_q_name"] or "", row["dlh_dest_q_mgr_name"] or ""
    return Subject(row["dlh_reason"] or 0, (name, place), 0, sample=sample)


def _most(names: Counter[str]) -> tuple[str, ...]:
    return tuple(name for name, _ in names.most_common(MOST_USERS) if name)
