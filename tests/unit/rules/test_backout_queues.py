"""Rules of backout queues: what is rejected, and what patterns compare there."""

from __future__ import annotations

import pytest

from mqdlq.model import MessageClass, QueueKind
from mqdlq.rules import check, explain, freeze, parse, print_table
from mqdlq.rules.keywords import KEYWORDS

BACKOUT = QueueKind.BACKOUT
TABLE = "INPUTQ(ORDERS.BACKOUT)\nFORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED)\nACTION(IGNORE)\n"


def errors(text: str) -> str:
    result = check(text, "b.rules", BACKOUT)
    assert result.table is None
    return "".join(f"{d.line}:{d.column}: {d.message} [{d.code}]\n" for d in result.diagnostics)


def test_each_part_of_a_rule_that_needs_an_mqdlh_is_an_error_on_a_backout_queue() -> None:
    without = "which messages on a backout queue do not have"
    from_message = "takes the target from the message, which rules of a dead-letter queue do"
    assert errors(
        "INPUTQ(B)\n"
        "REASON(2053) DESTQ(A) ACTION(RETRY)\n"
        "DESTQM(*) ACTION(FWD) FWDQ(&DESTQ) FWDQM(&REPLYQM) HEADER(NO)\n"
    ) == (
        f"2:1: REASON compares MQDLH.Reason, {without}; remove the pattern [needs-mqdlh]\n"
        f"2:14: DESTQ compares MQDLH.DestQName, {without}; remove the pattern [needs-mqdlh]\n"
        f"2:23: ACTION(RETRY) needs the destination in the MQDLH, {without};"
        " use ACTION(FWD) with FWDQ [needs-mqdlh]\n"
        f"3:1: DESTQM compares MQDLH.DestQMgrName, {without}; remove the pattern [needs-mqdlh]\n"
        f"3:23: FWDQ(&DESTQ) {from_message}; name a queue [needs-mqdlh]\n"
        f"3:36: FWDQM(&REPLYQM) {from_message}; name a queue manager [needs-mqdlh]\n"
        f"3:52: HEADER keeps or removes the MQDLH, {without}; remove it [needs-mqdlh]\n"
    )


def test_an_extension_that_needs_an_mqdlh_is_an_error_on_a_backout_queue() -> None:
    text = "INPUTQ(B)\nEXPIRES_IN('< 1h') LENGTH('> 1kB') ACTION(DISCARD)\n"

    result = check(text, queue_kind=BACKOUT, frozen=True)

    (found,) = result.diagnostics
    assert f"{found.column}: {found.message}" == (
        "20: LENGTH compares the length of the original message, for which it needs an MQDLH, which"
        " messages on a backout queue do not have; remove it"
    )
    allowed = parse(text.replace("LENGTH('> 1kB') ", ""), queue_kind=BACKOUT, frozen=True)
    assert allowed.columns == ("browsed_at", "expires_at", "expiry")
    assert parse(freeze(allowed), queue_kind=BACKOUT, frozen=True) == allowed


def test_a_table_of_a_backout_queue_names_the_queue() -> None:
    assert errors("WAIT(NO)\nACTION(IGNORE)\n") == (
        "1:1: the table of a backout queue names no INPUTQ; add control data such as"
        " INPUTQ(ORDERS.BACKOUT) [missing-inputq]\n"
    )


@pytest.mark.parametrize("name", [name for name in KEYWORDS if KEYWORDS[name].is_pattern])
def test_every_pattern_over_the_mqmd_is_accepted_on_a_backout_queue(name: str) -> None:
    value = "8" if KEYWORDS[name].least == 0 else "A"
    table = check(f"INPUTQ(B)\n{name}({value}) ACTION(DISCARD)\n", queue_kind=BACKOUT).table

    assert (table is None) == (name in {"DESTQ", "DESTQM", "REASON"})
    if table is not None:
        assert not table.columns[0].startswith("dlh_")


def test_format_compares_the_format_in_the_mqmd_of_a_message_without_an_mqdlh() -> None:
    row = {"format": "MQSTR", "dlh_format": None}

    assert [rule.line for rule in explain(parse(TABLE, queue_kind=BACKOUT), row).chain] == [2, 3]
    assert [rule.line for rule in explain(parse(TABLE), row).chain] == [3]


def test_the_same_text_is_another_table_for_another_kind_of_queue() -> None:
    table, usual = parse(TABLE, queue_kind=BACKOUT), parse(TABLE)

    assert print_table(table) == print_table(usual)
    assert table.digest != usual.digest
    assert parse(print_table(table), queue_kind=BACKOUT) == table


def test_rules_act_on_one_class_of_messages_by_the_kind_of_the_queue() -> None:
    acted_on = {
        kind: [cls for cls in MessageClass if parse(TABLE, queue_kind=kind).acts_on(cls)]
        for kind in QueueKind
    }

    assert acted_on == {
        QueueKind.DEAD_LETTER: [MessageClass.DEAD_LETTER],
        QueueKind.BACKOUT: [MessageClass.NO_DLH],
    }
