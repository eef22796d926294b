from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from mqdlq.model import Action, Disposition, PlannedMessage, PutAuthority, Step
from mqdlq.plan import columns_of, decide, needs_a_dlh, resolve, steps_for, steps_without_a_dlh
from mqdlq.rules import parse
from tests.support.plan_hashes import plan_hash, row_content

ROW = {
    "dlh_dest_q_name": "PAYMENTS",
    "dlh_dest_q_mgr_name": "QM1",
    "reply_to_q": "REPLIES",
    "reply_to_q_mgr": "QM2",
}
RETRY = Step(1, 1, Action.RETRY, "PAYMENTS", "QM1", False, PutAuthority.DEF, 3)
PLANNED = PlannedMessage(0, b"\0" * 32, "QM1", "DLQ", Disposition.PLANNED, (RETRY,))


def steps(table: str, row: dict[str, str | None] | None = None, **values: str | int) -> list[Step]:
    return [resolve(template, row or ROW) for template in steps_for(parse(table), values)]


def test_a_retry_goes_where_the_dlh_says_without_the_header() -> None:
    assert steps("ACTION(RETRY) RETRY(3)\n") == [RETRY]


def test_a_forward_goes_where_the_rule_says() -> None:
    assert steps("ACTION(FWD) FWDQ(PARKED) FWDQM(QM9) HEADER(NO) PUTAUT(CTX)\n") == [
        Step(1, 1, Action.FWD, "PARKED", "QM9", False, PutAuthority.CTX, 1)
    ]


def test_a_forward_keeps_the_header_unless_header_is_no() -> None:
    assert [step.header for step in steps("ACTION(FWD) FWDQ(PARKED)\n")] == [True]


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("FWDQ(&REPLYQ) FWDQM(&REPLYQM)", ("REPLIES", "QM2")),
        ("FWDQ(&DESTQ) FWDQM(&DESTQM)", ("PAYMENTS", "QM1")),
        ("FWDQ(&REPLYQ)", ("REPLIES", "")),
        ("FWDQ(&DESTQ) FWDQM(&REPLYQM)", ("PAYMENTS", "QM2")),
    ],
)
def test_an_ampersand_takes_the_name_from_the_message(
    written: str, target: tuple[str, str]
) -> None:
    (step,) = steps(f"ACTION(FWD) {written}\n")

    assert (step.target_q, step.target_q_mgr) == target


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (None, ""),
        ("", ""),
        ("A\0B", "A"),
        ("A  \0  ", "A"),
        ("\0\0", ""),
        ("X\t ", "X\t"),
        (" X", " X"),
    ],
)
def test_a_name_ends_where_mqopen_ends_it(name: str | None, target: str) -> None:
    (step,) = steps("ACTION(FWD) FWDQ(&REPLYQ)\n", {**ROW, "reply_to_q": name})

    assert step.target_q == target


def test_steps_know_the_columns_that_their_targets_come_from() -> None:
    table = parse("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(QM9)\nACTION(RETRY)\nACTION(DISCARD)\n")

    assert columns_of(steps_for(table, {})) == (
        "dlh_dest_q_mgr_name",
        "dlh_dest_q_name",
        "reply_to_q",
    )


def test_a_dead_letter_has_the_steps_of_its_rules_with_their_targets() -> None:
    row = {"class": "dead_letter", "dlh_reason": 2053, **ROW}

    assert decide(parse("REASON(2053) ACTION(RETRY) RETRY(3)\n"), row) == (RETRY,)


def test_every_matching_rule_is_a_step_in_the_order_of_the_table() -> None:
    table = """\
        REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)
        REASON(MQRC_PUT_INHIBITED) ACTION(RETRY)
        DESTQ(PAY*) ACTION(FWD) FWDQ(PARKED)
        """

    found = steps(table, dlh_reason=2053, dlh_dest_q_name="PAYMENTS")

    assert [(step.rule, step.rule_line, step.action) for step in found] == [
        (1, 1, Action.RETRY),
        (3, 3, Action.FWD),
    ]


@pytest.mark.parametrize("action", [Action.IGNORE, Action.DISCARD])
def test_nothing_comes_after_what_cannot_fail(action: Action) -> None:
    found = steps(f"ACTION(RETRY)\nACTION({action})\nACTION(FWD) FWDQ(PARKED)\n")

    assert [(step.action, step.target_q) for step in found] == [
        (Action.RETRY, "PAYMENTS"),
        (action, ""),
    ]


def test_a_message_no_rule_matches_has_no_steps() -> None:
    assert steps("REASON(MQRC_Q_FULL) ACTION(RETRY)\n", dlh_reason=2085) == []


@pytest.mark.parametrize(
    ("rule", "needed"),
    [
        ("ACTION(RETRY)", "ACTION(RETRY)"),
        ("ACTION(FWD) FWDQ(&DESTQ)", "FWDQ(&DESTQ)"),
        ("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)", "FWDQ(&REPLYQ)"),
        ("ACTION(FWD) FWDQ(PARKED) FWDQM(&DESTQM)", "FWDQM(&DESTQM)"),
        ("ACTION(FWD) FWDQ(PARKED) FWDQM(QM9)", ""),
        ("ACTION(DISCARD)", ""),
        ("ACTION(IGNORE)", ""),
    ],
)
def test_a_target_taken_from_the_message_needs_its_mqdlh(rule: str, needed: str) -> None:
    table = parse(f"{rule}\n")

    assert needs_a_dlh(table.rules[0]) == needed
    assert bool(steps_without_a_dlh(table)) is not bool(needed)


@pytest.mark.parametrize("header", ["YES", "NO"])
def test_a_message_without_an_mqdlh_is_forwarded_as_it_is(header: str) -> None:
    table = parse(f"ACTION(FWD) FWDQ(PARKED) FWDQM(QM9) HEADER({header}) PUTAUT(CTX)\n")

    assert steps_without_a_dlh(table) == (
        Step(1, 1, Action.FWD, "PARKED", "QM9", True, PutAuthority.CTX, 1),
    )


@pytest.mark.parametrize("action", [Action.DISCARD, Action.IGNORE])
def test_a_message_without_an_mqdlh_can_be_discarded_or_ignored(action: Action) -> None:
    (step,) = steps_without_a_dlh(parse(f"ACTION({action})\n"))

    assert step == Step(1, 1, action, "", "", False, PutAuthority.DEF, 1)


def test_a_rows_content_measures_every_value() -> None:
    row = replace(PLANNED, browse_seq=12, message_key=b"\xab", queue="A:B")

    treatment = "7:planned1:11:11:15:RETRY8:PAYMENTS3:QM15:false3:DEF1:3"
    digest = sha256(treatment.encode()).digest()
    assert row_content(row) == b"12:1:\xab3:QM13:A:B" + digest


def test_the_explanation_of_a_row_does_not_change_the_hash() -> None:
    explained = replace(PLANNED, winning_rule=1, nearest_rule=2)

    assert plan_hash([explained]) == plan_hash([PLANNED])


@pytest.mark.parametrize(
    "other",
    [
        replace(PLANNED, browse_seq=1),
        replace(PLANNED, message_key=b"\1" * 32),
        replace(PLANNED, queue_manager="QM1D", queue="LQ"),
        replace(PLANNED, disposition=Disposition.UNMATCHED),
        replace(PLANNED, steps=()),
        replace(PLANNED, steps=(RETRY, RETRY)),
        replace(PLANNED, steps=(replace(RETRY, target_q="PAYMENTSQ", target_q_mgr="M1"),)),
        replace(PLANNED, steps=(replace(RETRY, header=True),)),
        replace(PLANNED, steps=(replace(RETRY, tries=4),)),
    ],
)
def test_another_plan_has_another_hash(other: PlannedMessage) -> None:
    assert plan_hash([other]) != plan_hash([PLANNED])


def test_a_hash_covers_every_bucket() -> None:
    rows = [replace(PLANNED, browse_seq=number) for number in (0, 4095, 4096, 10_000)]

    hashes = {plan_hash(rows[:count]) for count in range(5)}
    assert len(hashes) == 5


def test_the_hash_is_the_one_recorded_for_this_plan() -> None:
    """Plans are stored with their hash: it must mean the same in every version."""
    rows = [replace(PLANNED, browse_seq=number) for number in (0, 1, 5000)]

    assert plan_hash(rows) == ("c2c283a9e30857795169f79a7d82c7489ad0d84bc0146c0481c006704f7cb78b")


@pytest.mark.parametrize(("is_given", "steps_of_it"), [(False, 0), (True, 1)])
def test_only_an_action_given_for_a_message_decides_about_one_without_a_dlh(
    is_given: bool, steps_of_it: int
) -> None:
    table = parse("ACTION(DISCARD)\n")

    decided = decide(table, {**ROW, "class": "no_dlh"}, has_given_action=is_given)

    assert len(decided) == steps_of_it
