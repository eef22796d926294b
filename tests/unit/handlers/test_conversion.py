"""Conversion between the two forms of a rules table, with comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq.handlers import to_table, to_yaml
from mqdlq.rules import RulesError, parse

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "rules" / "valid").glob("*.rules"))

TABLE = (
    "* The demo\n"
    "RETRYINT(5) WAIT(NO)\n"
    "* Full queues\n"
    "*\n"
    "* three times\n"
    "APPLNAME('O''Neil *') DESTQ(PAYMENTS.*) FORMAT(' ') +\n"
    "    REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\n"
    "MSGTYPE(70000) USERID(123) ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM) +\n"
    "    HEADER(NO)\n"
    "* The rest\n"
    "ACTION(IGNORE)\n"
    "* The end\n"
)
YAML = (
    "table:\n"
    "  # The demo\n"
    "  control:\n"
    "    retryint: 5\n"
    "    wait: 'NO'\n"
    "  rules:\n"
    "    # Full queues\n"
    "    #\n"
    "    # three times\n"
    "    - match:\n"
    "        APPLNAME: O'Neil *\n"
    "        DESTQ: PAYMENTS.*\n"
    "        FORMAT: ' '\n"
    "        REASON: MQRC_Q_FULL\n"
    "      action: RETRY\n"
    "      retry: 3\n"
    "    - match:\n"
    "        MSGTYPE: 70000\n"
    "        USERID: '123'\n"
    "      action: FWD\n"
    "      fwdq: '&REPLYQ'\n"
    "      fwdqm: '&REPLYQM'\n"
    "      header: 'NO'\n"
    "    # The rest\n"
    "    - action: IGNORE\n"
    "    # The end\n"
)


def test_a_table_is_converted_to_yaml_with_its_comments() -> None:
    assert to_yaml(TABLE) == YAML


def test_yaml_is_converted_to_a_table_with_its_comments() -> None:
    assert to_table(YAML) == TABLE.replace("*\n* three", "* three")


def test_converted_comments_precede_their_rule_and_comments_outside_the_table_are_dropped() -> None:
    yaml = (
        "# the handler\n"
        "connection: mq  # Airflow's\n"
        "table:\n"
        "  control: {wait: no}  # not for ever\n"
        "  rules:\n"
        "    # first\n"
        "    - match: {DESTQ: ['A # no comment', B]}  # two queues\n"
        "      # retried\n"
        "      action: RETRY\n"
        "    # last\n"
        "# how often\n"
        "schedule: '@hourly'\n"
    )

    assert to_table(yaml) == (
        "* not for ever\n"
        "WAIT(NO)\n"
        "* first\n"
        "* two queues\n"
        "* retried\n"
        "DESTQ('A # no comment') ACTION(RETRY)\n"
        "DESTQ(B) ACTION(RETRY)\n"
        "* last\n"
    )


def test_a_converted_comment_loses_only_characters_that_yaml_does_not_allow() -> None:
    assert to_yaml(b"* caf\xe9 \x07!\nACTION(RETRY)\n") == (
        "table:\n  rules:\n    # caf? ?!\n    - action: RETRY\n"
    )


def test_conversion_removes_default_control_data_and_keeps_its_comment() -> None:
    assert to_yaml("* for ever\nWAIT(YES)\nACTION(RETRY)\n") == (
        "table:\n  # for ever\n  rules:\n    - action: RETRY\n"
    )


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_every_table_of_the_corpus_keeps_its_meaning_in_yaml(path: Path) -> None:
    table = path.read_bytes()

    assert parse(to_table(to_yaml(table))) == parse(table)


def test_an_invalid_table_is_not_converted() -> None:
    with pytest.raises(RulesError, match=r"a\.rules:1:1: ACTION"):
        to_yaml("ACTION(FWD)\n", "a.rules")
    with pytest.raises(RulesError, match=r"a\.yaml:1:18: ACTION"):
        to_table("table: {rules: [{action: FWD}]}", "a.yaml")


def test_a_table_with_extensions_is_not_converted_to_runmqdlqs_syntax() -> None:
    yaml = "table:\n  rules:\n    - {extensions: {age: '> 1h'}, action: IGNORE}\n"

    with pytest.raises(RulesError) as raised:
        to_table(yaml, "t.yaml")

    assert str(raised.value) == (
        "t.yaml:3:1: rule 1 has the extension age, which no table of runmqdlq has; keep the table"
        " in YAML"
    )
