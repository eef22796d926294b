"""Facts of docs/reference/mqi-coverage.md beyond options and names, each with its test.

`mqi_coverage` writes these tables. A fact names its test function, which must exist; a fact without
a test says so. If IBM's documentation was not available for a fact, its text says "unverified", and
`TO_VERIFY` lists it, too.
"""

from __future__ import annotations

from typing import NamedTuple


class Fact(NamedTuple):
    """One row: a field or a case, what the embedded queue manager does, and its test."""

    item: str
    does: str
    test: str = ""


MQMD_FIELDS = (
    Fact(
        "StrucId, Version",
        "anything except an MQMD of version 1 or 2: MQRC_MD_ERROR (2026)",
        "test_an_invalid_message_descriptor_is_refused",
    ),
    Fact(
        "MsgType",
        "below 1: MQRC_MSG_TYPE_ERROR (2029); a request without a ReplyToQ:"
        " MQRC_MISSING_REPLY_TO_Q (2027)",
        "test_an_invalid_message_descriptor_is_refused",
    ),
    Fact(
        "Expiry",
        "0 or below -1: MQRC_EXPIRY_ERROR (2013); counted down; an expired message counts in the"
        " depth until a get or browse reaches it and discards it",
        "test_a_browse_discards_an_expired_message",
    ),
    Fact("Feedback", "kept as given; the range is not checked"),
    Fact(
        "Encoding, CodedCharSetId, Format",
        "kept as given, never converted; CodedCharSetId 0 and -2 become the queue manager's",
        "test_the_queue_manager_completes_the_descriptor",
    ),
    Fact(
        "Priority",
        "-1 becomes the queue's priority; above 9 the message is put with the warning"
        " MQRC_PRIORITY_EXCEEDS_MAXIMUM (2049), is ordered like priority 9 and keeps its value;"
        " below -1: MQRC_PRIORITY_ERROR (2050)",
        "test_too_high_a_priority_is_kept_and_counts_as_the_highest",
    ),
    Fact(
        "Persistence",
        "2 becomes the queue's persistence; any other: MQRC_PERSISTENCE_ERROR (2047)",
        "test_an_invalid_message_descriptor_is_refused",
    ),
    Fact(
        "MsgId, CorrelId",
        "a null MsgId becomes a new one; a CorrelId stays unless a new one is requested",
        "test_identifiers_are_kept_unless_new_ones_are_asked_for",
    ),
    Fact(
        "BackoutCount",
        "0 when put, one more with each get that is backed out",
        "test_backing_out_restores_the_position_and_raises_the_backout_count",
    ),
    Fact(
        "ReplyToQ, ReplyToQMgr",
        "a blank ReplyToQMgr becomes the queue manager's name, even if ReplyToQ is blank; a local"
        " definition of a remote queue is replaced by the queue that it names",
        "test_a_blank_reply_queue_manager_is_filled_in_without_a_reply_queue",
    ),
    Fact(
        "UserIdentifier to ApplOriginData",
        "the context: generated, passed, set or blank, according to the options",
        "test_default_context_names_the_user_and_the_time_of_a_put",
    ),
    Fact(
        "Report",
        "a report option without a ReplyToQ: MQRC_MISSING_REPLY_TO_Q (2027); see the table of"
        " report options",
        "test_a_report_request_needs_a_reply_queue_and_known_options",
    ),
    Fact(
        "GroupId",
        "a null one becomes a new one if MsgFlags name a group or segment, or allow segments;"
        " otherwise it becomes null",
        "test_the_queue_manager_makes_a_missing_group_identifier",
    ),
    Fact(
        "MsgSeqNumber, Offset, MsgFlags",
        "MQRC_MSG_SEQ_NUMBER_ERROR (2250), MQRC_OFFSET_ERROR (2251), MQRC_MSG_FLAGS_ERROR (2249),"
        " even if MsgFlags name no group (unverified)",
        "test_invalid_group_fields_are_refused",
    ),
    Fact(
        "OriginalLength",
        "the length of a segment's data; MQRC_ORIGINAL_LENGTH_ERROR (2252) in a report on a"
        " segment,"
        " MQRC_SEGMENT_LENGTH_ZERO (2253) for an empty segment that is not the last",
        "test_only_the_last_segment_may_be_empty",
    ),
    Fact(
        "an MQMDE before the data, with version 1 or default values",
        "honoured; an invalid one is MQRC_MDE_ERROR (2248), even with HDRCHECK(NO)",
        "test_an_mqmde_is_honoured_if_the_mqmd_has_defaults",
    ),
    Fact(
        "an MQMDE with other values, or in another CCSID, Encoding or version",
        "treated as data",
        "test_an_mqmde_is_data_next_to_other_values_or_in_another_encoding",
    ),
    Fact(
        "MQGET with a version 1 MQMD",
        "an MQMDE before the data of a segment, or of a message in a group or with segmentation"
        " allowed",
        "test_a_get_with_a_version_1_mqmd_returns_an_mqmde_unless_it_has_defaults",
    ),
    Fact(
        "a segment with an MQDLH",
        "an MQMDE after the MQDLH has its fields, and the MQMD has the defaults",
        "test_a_dead_letter_of_a_segment_has_an_mqmde_after_its_mqdlh",
    ),
)

HEADER_CHECKS = (
    Fact(
        "ALTER QMGR HDRCHECK(NO), the default",
        "no MQ header is checked when it is put",
        "test_an_invalid_header_is_refused_with_a_version_2_mqmd",
    ),
    Fact(
        "ALTER QMGR HDRCHECK(YES), or `mqdlq qm create --check-headers`",
        "the headers at the beginning of a message are checked if its MQMD is of version 2",
        "test_an_invalid_header_is_refused_with_a_version_2_mqmd",
    ),
    Fact(
        "an MQMD of version 1",
        "no MQ header is checked",
        "test_no_header_is_checked_with_a_version_1_mqmd",
    ),
    Fact(
        "MQDLH",
        "StrucId, Version, CodedCharSetId (positive, or -2), length: MQRC_DLH_ERROR (2141);"
        " nothing after the first MQDLH is checked (unverified)",
        "test_a_valid_mq_header_is_accepted",
    ),
    Fact(
        "MQXQH",
        "StrucId, Version, length: MQRC_XQH_ERROR (2260); then the headers that its MQMD announces",
        "test_an_invalid_header_is_refused_with_a_version_2_mqmd",
    ),
    Fact(
        "MQRFH, MQRFH2",
        "StrucId, Version, StrucLength, CodedCharSetId: MQRC_RFH_ERROR (2334)",
        "test_an_invalid_header_is_refused_with_a_version_2_mqmd",
    ),
    Fact(
        "MQMDE",
        "StrucId, Version, StrucLength, CodedCharSetId: MQRC_MDE_ERROR (2248)",
        "test_an_invalid_header_is_refused_with_a_version_2_mqmd",
    ),
    Fact("MQCIH, MQDH, MQIIH, MQRMH, MQTM, MQTMC2, MQWIH, PCF", "not checked"),
)

OTHER_MESSAGES = (
    Fact(
        "the copy for a queue's STREAMQ",
        "the same message, but it does not expire and requests no COA, COD, expiration, exception"
        " or activity report; it does not count towards MAXUMSGS",
        "test_a_copy_goes_to_the_stream_queue",
    ),
    Fact(
        "STRMQOS(MUSTDUP), and the copy cannot be put",
        "nothing is put; the reason code is that of a put to the stream queue"
        ' (unverified: IBM says "an appropriate reason code")',
        "test_under_mustdup_a_message_is_put_only_with_its_copy",
    ),
    Fact(
        "STRMQOS(BESTEF), and the copy cannot be put",
        "the original is put; the log gives the reason for the missing copy",
        "test_under_bestef_a_message_is_put_even_without_its_copy",
    ),
    Fact(
        "a STREAMQ of a transmission queue, to a SYSTEM or model queue, in a chain or loop",
        "the command is rejected; the PCF reason code of each case is unverified",
        "test_a_stream_queue_that_ibm_mq_does_not_support_is_refused",
    ),
    Fact(
        "the descriptor of a message on a transmission queue",
        "a copy of the descriptor that was put, with a new MsgId, the old MsgId as CorrelId, origin"
        " context of the queue manager, no group and no reports on arrival or delivery; which"
        " fields are copied is unverified except ReplyToQ, ReplyToQMgr and identity context",
        "test_a_message_for_another_queue_manager_gets_an_mqxqh",
    ),
    Fact(
        "queue depth events (high, low, full)",
        "put on SYSTEM.ADMIN.PERFM.EVENT with PERFMEV(ENABLED); an event disables itself and"
        " enables its counterparts in QDPHIEV, QDPLOEV and QDPMAXEV; statistics begin when events"
        " are enabled for the queue",
        "test_an_event_disables_itself_and_enables_its_counterparts",
    ),
    Fact(
        "authority events (Not Authorized, type 2)",
        "put on SYSTEM.ADMIN.QMGR.EVENT with AUTHOREV(ENABLED) when MQOPEN or MQPUT1 fails; not"
        " when a connection or a PCF command is refused",
        "test_a_refused_open_puts_an_authority_event",
    ),
    Fact("trigger messages, other events, activity reports", "not generated"),
)

MQOD_CASES = (
    Fact(
        "ObjectName blank, ObjectQMgrName blank or this queue manager's",
        "MQRC_UNKNOWN_OBJECT_NAME (2085) (unverified)",
        "test_mqopen_of_an_unresolvable_name_fails_with_the_reason",
    ),
    Fact(
        "ObjectName blank, any other ObjectQMgrName",
        "MQRC_REMOTE_Q_NAME_ERROR (2184), even if the other queue manager is unknown (unverified)",
        "test_mqopen_of_an_unresolvable_name_fails_with_the_reason",
    ),
    Fact(
        "ObjectName of a QREMOTE with a blank RNAME",
        "MQRC_REMOTE_Q_NAME_ERROR (2184)",
        "test_mqopen_of_an_unresolvable_name_fails_with_the_reason",
    ),
    Fact(
        "ObjectName of a QREMOTE whose RQMNAME is blank or this queue manager's",
        "MQRC_UNKNOWN_REMOTE_Q_MGR (2087), even if XMITQ names a transmission queue",
        "test_mqopen_of_an_unresolvable_name_fails_with_the_reason",
    ),
    Fact(
        "ObjectQMgrName of a QREMOTE whose RNAME is not blank",
        "MQRC_UNKNOWN_REMOTE_Q_MGR (2087): it is not a queue-manager alias",
        "test_mqopen_of_an_unresolvable_name_fails_with_the_reason",
    ),
    Fact(
        "a model queue in MQPUT1, or behind an alias of this queue manager",
        "MQRC_Q_TYPE_ERROR (2057)",
        "test_mqput1_accepts_queues_except_model_queues",
    ),
    Fact(
        "MQPUT1 to the queue manager object",
        "MQRC_OBJECT_TYPE_ERROR (2043)",
        "test_mqput1_accepts_queues_except_model_queues",
    ),
    Fact(
        "ObjectType of a namelist, process or topic",
        "MQRC_OBJECT_TYPE_ERROR (2043)",
        "test_an_object_descriptor_is_checked",
    ),
    Fact(
        "RecsPresent, a distribution list",
        "MQRC_RECS_PRESENT_ERROR (2154)",
        "test_an_object_descriptor_is_checked",
    ),
    Fact(
        "SelectionString",
        "MQRC_SELECTION_NOT_AVAILABLE (2551)",
        "test_message_selectors_are_not_emulated",
    ),
    Fact(
        "a queue that is open, with any options",
        "CLEAR and DELETE are rejected; DELETE QALIAS and QREMOTE only if the definition itself is"
        " open for inquiry or setting",
        "test_mqsc_neither_clears_nor_deletes_an_open_queue",
    ),
)

TABLES = {
    "MQMD fields on MQPUT and MQPUT1": MQMD_FIELDS,
    "MQ headers on MQPUT and MQPUT1": HEADER_CHECKS,
    "Messages that the queue manager changes or does not generate": OTHER_MESSAGES,
    "MQOD and name resolution": MQOD_CASES,
}

VERIFIED_BY_CERTIFY = (
    "[`mqdlq certify`](../how-to/certify.md) tries points 1 to 4 and 6 on your queue manager, as"
    " far as the handler relies on them."
)
TO_VERIFY = (
    (
        "Whether MQ headers are checked on MQPUT under a version 2 MQMD, which ones, and which"
        " fields: IBM's topics differ. `tests/contract/headers/test_header_checks.py` has the"
        " cases; the handler's tests run with both settings of HDRCHECK."
    ),
    (
        "Whether a put that was rejected for a header (2141, 2260, 2334) succeeds under a version 1"
        " MQMD: the handler and the restoration rely on that."
    ),
    "The reason code of a blank ObjectName, here and at an unknown queue manager.",
    (
        "The reason code of a put whose stream queue rejects the copy under STRMQOS(MUSTDUP), and"
        " whether MQINQ supports MQCA_STREAM_QUEUE_NAME and MQIA_STREAM_QUEUE_QOS: the handler"
        " inquires them to explain such a put."
    ),
    (
        "Which fields the descriptor of a message on a transmission queue copies: Report, MsgType,"
        " Feedback and Expiry."
    ),
    (
        "Whether a message with Format MQFMT_DEAD_LETTER_HEADER causes a COA or COD, and the other"
        " points below the table of messages that the queue manager generates."
    ),
    (
        "Whether MsgSeqNumber and Offset are checked if MsgFlags name no group or segment, and"
        " whether an MQMDE of an unknown version is data or MQRC_MDE_ERROR: IBM's topics differ."
    ),
    (
        "Whether MSGAGE follows from PutDate and PutTime, which applications can set, and is 0 for"
        " an empty queue; and whether a report or an event message counts as the last put."
    ),
    (
        "The reason code of an inquiry of authority records that finds none (MQRCCF_NONE_FOUND"
        " here), and of an inquiry of a channel that does not fit its type; and whether STOP"
        " CHANNEL makes an inactive receiver channel STOPPED."
    ),
)
