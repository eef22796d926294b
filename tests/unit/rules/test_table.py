"""The content of a parsed table, and the equality of tables with the same meaning."""

from __future__ import annotations

import hashlib
import pickle

from mqdlq.model import Action, PutAuthority
from mqdlq.rules import ControlData, Pattern, Rule, matching_rules, parse, print_table
from mqdlq.rules.table import Values

ONE = "WAIT(0)\nREASON(MQRC_PAGESET_FULL) +\n  DESTQ('A** ') MSGTYPE(*) ACTION(RETRY) RETRY(1)\n"
OTHER = "* the same\nwait(no)\naction(retry) destq(a*) reason(2192)\n"


def test_a_parsed_table_has_all_control_data_and_rules() -> None:
    table = parse(
        "INPUTQ(DLQ) INPUTQM(QM1) RETRYINT(5) WAIT(7)\n"
        "\n"
        "REASON(2053) DESTQ('Ab*') ACTION(FWD) FWDQ(&REPLYQ) FWDQM(QM2) +\n"
        "  HEADER(NO) PUTAUT(CTX) RETRY(3)\n"
    )

    assert table.control == ControlData("DLQ", "QM1", 5, 7)
    assert table.rules == (
        Rule(
            ordinal=1,
            line=3,
            patterns=(
                Pattern("DESTQ", "dlh_dest_q_name", "Ab*"),
                Pattern("REASON", "dlh_reason", 2053),
            ),
            action=Action.FWD,
            fwd_q="&REPLYQ",
            fwd_q_mgr="QM2",
            header=False,
            put_authority=PutAuthority.CTX,
            retry=3,
        ),
    )
    assert table.rules[0].line == 3


def test_omitted_keywords_have_the_defaults_of_ibm() -> None:
    table = parse("ACTION(RETRY)\n")

    assert table.control == ControlData(
        input_q="", input_q_mgr="", retry_interval_s=60, wait_s=None
    )
    assert table.rules == (Rule(ordinal=1, line=1, patterns=(), action=Action.RETRY),)


def test_tables_with_the_same_meaning_are_equal_and_have_one_print_and_digest() -> None:
    one, other = parse(ONE), parse(OTHER)

    assert one == other
    assert print_table(one) == print_table(other)
    assert one.digest == other.digest


def test_tables_with_different_meanings_have_different_digests() -> None:
    texts = [
        "ACTION(RETRY)\n",
        "ACTION(RETRY) RETRY(2)\n",
        "ACTION(RETRY) PUTAUT(CTX)\n",
        "ACTION(DISCARD)\n",
        "REASON(0) ACTION(RETRY)\n",
        "DESTQ(' ') ACTION(RETRY)\n",
        "DESTQ(A) ACTION(RETRY)\n",
        "DESTQ('a') ACTION(RETRY)\n",
        "DESTQM(A) ACTION(RETRY)\n",
        "WAIT(NO)\nACTION(RETRY)\n",
        "ACTION(RETRY)\nACTION(RETRY)\n",
    ]

    assert len({parse(text).digest for text in texts}) == len(texts)


def test_the_digest_is_taken_over_the_canonical_print() -> None:
    table = parse(ONE)

    assert table.digest == hashlib.sha256(print_table(table).encode()).hexdigest()


def test_the_columns_of_a_table_are_those_of_its_patterns_sorted() -> None:
    assert parse(ONE).columns == ("dlh_dest_q_name", "dlh_reason")


def test_a_table_can_be_pickled_for_other_processes() -> None:
    table = parse(ONE)
    values: Values = {"dlh_reason": 2192, "dlh_dest_q_name": "AB"}
    assert matching_rules(table, values)

    copy = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own bytes

    assert copy == table
    assert matching_rules(copy, values) == table.rules
