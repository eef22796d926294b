"""The behaviours on which the handler relies, and queue managers that deviate from them."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from embedded_mq.storage.lies import LIES
from mqdlq.tools.certify.behaviours import administrator_commands
from mqdlq.tools.certify.certification import Certification, Verdict, certify
from tests.contract.conftest import PARAMETERS
from tests.support.contract_worlds import World

ALL = "MQDLQ_ALL_CONTRACTS" in os.environ
CLIENTS = [name for name in PARAMETERS if name != "real"]
"""`make soak` tries every lie under both; else each is tried under one of them."""
PREFIX = "MQDLQ.CERT."
INQUIRIES = "inquiries_have_the_form_that_a_diagnosis_reads"
MOVES = {
    "a_commit_keeps_the_puts_and_gets_of_its_unit",
    "a_dead_letter_header_stays_unchanged",
    "a_message_with_an_invalid_header_can_be_moved",
    "a_moved_message_keeps_its_data",
    "a_moved_message_keeps_its_group",
    "a_moved_message_keeps_its_identifiers",
    "all_context_can_be_set",
    "all_context_is_passed_with_a_message",
    "identifiers_stay_unless_new_ones_are_asked_for",
    "message_properties_can_be_archived_and_restored",
    "message_properties_move_with_a_message",
    "the_remaining_expiry_moves_with_a_message",
}
CONCERNS: dict[str, set[str]] = {
    "browse-reversed": {
        "a_browse_returns_messages_in_the_order_of_their_puts",
        "a_browse_returns_higher_priorities_first",
    },
    "cursor-forgotten": {"a_get_under_the_cursor_gets_the_browsed_message"},
    "truncation-silent": {
        "a_browse_of_the_first_bytes_states_the_whole_length",
        "a_get_with_a_short_buffer_leaves_the_message",
        "message_properties_can_be_archived_and_restored",
    },
    "uncommitted-visible": {
        "a_browse_skips_uncommitted_messages",
        "a_put_is_invisible_until_it_is_committed",
    },
    "commit-lost": MOVES
    | {
        "a_get_under_the_cursor_gets_the_browsed_message",
        "a_marker_is_there_if_its_unit_was_committed",
        "a_put_is_invisible_until_it_is_committed",
        "a_put_to_a_full_queue_has_its_reason_code",
        "a_report_belongs_to_the_unit_of_work",
    },
    "backout-committed": {
        "a_backed_out_get_counts",
        "a_backed_out_unit_leaves_the_queues_as_they_were",
        "a_marker_is_there_if_its_unit_was_committed",
        "a_report_belongs_to_the_unit_of_work",
    },
    "backout-uncounted": {"a_backed_out_get_counts"},
    "exclusive-shared": {"a_state_queue_has_one_executor"},
    "context-replaced": {"all_context_is_passed_with_a_message", "all_context_can_be_set"},
    "msg-id-replaced": {"identifiers_stay_unless_new_ones_are_asked_for"},
    "properties-dropped": {"message_properties_move_with_a_message"},
    "expiry-ignored": {
        "an_expired_message_is_not_returned",
        "the_remaining_expiry_moves_with_a_message",
    },
    "header-changed": {"a_dead_letter_header_stays_unchanged"},
    "header-refused": {"a_message_with_an_invalid_header_can_be_moved"},
    "full-renamed": {"a_put_to_a_full_queue_has_its_reason_code"},
    "trace": {"a_message_with_an_invalid_header_can_be_moved"},
}
"""The behaviours that each lie concerns; a lost commit concerns all that commit a move.

IBM MQ for z/OS does what `trace` does: a message gets properties, and a message with properties and
an invalid MQRFH2 is refused with version 1, too.
"""


def certified(mq: World) -> Certification:
    return certify(mq.queue_manager, PREFIX, clock=lambda: datetime(2026, 11, 22, tzinfo=UTC))


def differing(found: Certification) -> set[str]:
    return {each.behaviour.name for each in found.findings if each.verdict is Verdict.DIFFERS}


@pytest.mark.slow
def test_the_handler_may_rely_on_each_behaviour(mq: World) -> None:
    found = certified(mq)

    deviations = {
        each.behaviour.name: (each.verdict, each.expected, each.seen, each.remark)
        for each in found.findings
        if each.verdict is not Verdict.AGREES
        # A handler's user needs no authority to inquire.
        and (each.verdict, each.behaviour.name) != (Verdict.SKIPPED, INQUIRIES)
    }
    assert not deviations
    assert len(found.findings) == len({each.behaviour.name for each in found.findings}) > 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mq", "lie"),
    [
        (client, lie)
        for number, lie in enumerate(LIES)
        for client in (CLIENTS if ALL else [CLIENTS[number % len(CLIENTS)]])
    ],
    indirect=["mq"],
)
def test_each_lie_is_found_by_the_behaviours_that_it_concerns(mq: World, lie: str) -> None:
    """The scratch queues are defined beforehand, as an administrator defines them."""
    mq.mqsc("\n".join(part for part in administrator_commands(PREFIX, "me") if "AUTH" not in part))
    mq.mqsc(f"SET FAULT('{lie}')")

    assert differing(certified(mq)) == CONCERNS[lie]


@pytest.mark.slow
def test_headers_may_be_checked_with_version_2(mq: World) -> None:
    """The handler then puts a message with version 1, and the report says which checks there are.

    IBM MQ docs, "Version (MQMD)", (RC2141), (RC2260), (RC2334).
    """
    mq.mqsc("ALTER QMGR HDRCHECK(YES)")

    found = certified(mq)

    assert not differing(found)
    remarks = {each.behaviour.name: each.remark for each in found.findings}
    assert remarks["a_message_with_an_invalid_header_can_be_moved"] == (
        "headers are checked with version 2: MQRC_DLH_ERROR (2141), MQRC_XQH_ERROR (2260),"
        " MQRC_RFH_ERROR (2334)"
    )
