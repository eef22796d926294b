"""Rules tables in YAML: their meaning, and the places of their errors."""

from __future__ import annotations

import pytest

from mqdlq.handlers import check
from mqdlq.model import QueueKind
from mqdlq.rules import RulesTable, freeze, parse, print_table


def table(yaml: str) -> RulesTable:
    result = check(yaml, "t.yaml")
    assert result.table is not None, "\n".join(map(str, result.diagnostics))
    return result.table


def errors(yaml: str) -> str:
    result = check(yaml, "t.yaml")
    assert result.table is None
    return "".join(f"{d}\n" for d in result.diagnostics if d.severity == "error")


def test_a_yaml_table_has_the_meaning_of_the_same_rules_in_runmqdlq_syntax() -> None:
    found = table(
        "table:\n"
        "  control: {input_q: DLQ, input_q_mgr: QM1, retryint: 30, wait: no}\n"
        "  rules:\n"
        "    - match:\n"
        "        DESTQ: PAYMENTS.*\n"
        "        MQDLH.Reason: mqrc_q_full\n"
        "        PutApplName: legal-hold*\n"
        "        FORMAT: ' '\n"
        "      action: fwd\n"
        "      fwdq: '&REPLYQ'\n"
        "      fwdqm: QM2\n"
        "      header: no\n"
        "      putaut: CTX\n"
        "      retry: 3\n"
        "    - action: IGNORE\n"
    )

    assert found == parse(
        "INPUTQ(DLQ) INPUTQM(QM1) RETRYINT(30) WAIT(NO)\n"
        "DESTQ(PAYMENTS.*) REASON(2053) APPLNAME('legal-hold*') FORMAT(' ') +\n"
        "  ACTION(FWD) FWDQ(&REPLYQ) FWDQM(QM2) HEADER(NO) PUTAUT(CTX) RETRY(3)\n"
        "ACTION(IGNORE)\n"
    )
    assert [rule.line for rule in found.rules] == [4, 15]


def test_lists_of_alternatives_make_a_rule_for_each_combination() -> None:
    found = table(
        "table:\n"
        "  rules:\n"
        "    - match: {DESTQ: [B, A], REASON: [2053, 2051], MSGTYPE: 8}\n"
        "      action: RETRY\n"
        "    - {action: IGNORE}\n"
    )

    assert print_table(found) == (
        "DESTQ(B) MSGTYPE(MQMT_DATAGRAM) REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
        "DESTQ(B) MSGTYPE(MQMT_DATAGRAM) REASON(MQRC_PUT_INHIBITED) +\n"
        "    ACTION(RETRY)\n"
        "DESTQ(A) MSGTYPE(MQMT_DATAGRAM) REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
        "DESTQ(A) MSGTYPE(MQMT_DATAGRAM) REASON(MQRC_PUT_INHIBITED) +\n"
        "    ACTION(RETRY)\n"
        "ACTION(IGNORE)\n"
    )


def test_yaml_values_are_read_as_written_without_conversion() -> None:
    found = table(
        "table: {control: {wait: NO}, rules: [{match: {DESTQ: 1e3, USERID: off, REPLYQ: 0x1F,"
        ' APPLNAME: "it\'s"}, action: RETRY}]}'
    )

    assert print_table(found) == (
        "WAIT(NO)\n"
        "APPLNAME('it''s') DESTQ('1e3') REPLYQ('0x1F') USERID('off') +\n"
        "    ACTION(RETRY)\n"
    )


def test_every_fault_of_a_yaml_table_is_reported_once_with_its_place() -> None:
    faults = errors(
        "table:\n"
        "  control: {input_q: DLQ, retryint: soon}\n"
        "  rules:\n"
        "    - match:\n"
        "        MQDLH.Reason: [MQRC_Q_FUL, 1]\n"
        "        DESTQ: [A, B]\n"
        "        destqname: C\n"
        "        Reson: 3\n"
        "        action: RETRY\n"
        "      actoin: RETRY\n"
        "      REASON: 1\n"
        "    - action: FWD\n"
        "    - retry: 3\n"
        "    - match: {DESTQ: [], REPLYQ: [[A]]}\n"
        "      action: go\n"
        "    - RETRY\n"
        "    - {action: DISCARD, fwdq: A}\n"
    )

    assert faults == (
        "t.yaml:2:37: RETRYINT takes a number from 0 to 999999999, found 'SOON'\n"
        "      control: {input_q: DLQ, retryint: soon}\n"
        "                                        ~~~^\n"
        "t.yaml:5:24: unknown symbolic name MQRC_Q_FUL; did you mean MQRC_Q_FULL (2053)?\n"
        "            MQDLH.Reason: [MQRC_Q_FUL, 1]\n"
        "                           ~~~~~~~~~^\n"
        "t.yaml:7:9: DESTQ is repeated (first at line 6, column 9)\n"
        "            destqname: C\n"
        "            ~~~~~~~~^\n"
        "t.yaml:8:9: unknown key Reson; did you mean Reason?\n"
        "            Reson: 3\n"
        "            ~~~~^\n"
        "t.yaml:9:9: action belongs to the rule, beside 'match:'\n"
        "            action: RETRY\n"
        "            ~~~~~^\n"
        "t.yaml:10:7: unknown key actoin; did you mean action?\n"
        "          actoin: RETRY\n"
        "          ~~~~~^\n"
        "t.yaml:11:7: REASON belongs under 'match:'\n"
        "          REASON: 1\n"
        "          ~~~~~^\n"
        "t.yaml:12:7: ACTION(FWD) needs FWDQ, the queue to forward to\n"
        "        - action: FWD\n"
        "          ~~~~~^\n"
        "t.yaml:13:7: the rule has no action; add 'action: DISCARD', 'action: IGNORE',"
        " 'action: RETRY' or 'action: FWD'\n"
        "        - retry: 3\n"
        "          ~~~~~~~^\n"
        "t.yaml:14:22: DESTQ has no value; leave it out\n"
        "        - match: {DESTQ: [], REPLYQ: [[A]]}\n"
        "                         ~^\n"
        "t.yaml:14:35: expected text or a number\n"
        "        - match: {DESTQ: [], REPLYQ: [[A]]}\n"
        "                                      ~~^\n"
        "t.yaml:15:15: ACTION takes DISCARD, IGNORE, RETRY or FWD, found 'GO'\n"
        "          action: go\n"
        "                  ~^\n"
        "t.yaml:16:7: expected keys such as 'match:' and 'action:'\n"
        "        - RETRY\n"
        "          ~~~~^\n"
        "t.yaml:17:25: FWDQ requires ACTION(FWD), but the rule has ACTION(DISCARD)\n"
        "        - {action: DISCARD, fwdq: A}\n"
        "                            ~~~^\n"
    )


@pytest.mark.parametrize(
    ("yaml", "error"),
    [
        ("", "t.yaml:1:1: expected keys such as 'table:'\n"),
        (
            "table:\n  rules: []\n",
            "t.yaml:2:3: the table has no rule\n      rules: []\n      ~~~~~~~~^\n",
        ),
        (
            "table:\n  control: {wait: no}\n",
            "t.yaml:2:3: the table has no rule\n      control: {wait: no}\n",
        ),
        ("name: x\n", "t.yaml:1:1: the file has no key 'table'\n    name: x\n    ~~~~~~^\n"),
        (
            "rules: a.rules\n",
            "t.yaml:1:1: the file has no key 'table'; its rules stand in a.rules\n",
        ),
        (
            "table:\n  rules:\n  - {match: {DESTQ: *A}, action: RETRY}\n",
            (
                "t.yaml:3:21: not YAML: found undefined alias; in YAML a value that begins"
                " with & or * needs quotation marks\n"
                "      - {match: {DESTQ: *A}, action: RETRY}\n"
                "                        ^\n"
            ),
        ),
        (
            "table: {rules: [{action: FWD, fwdq: &REPLYQ}]}",
            (
                "t.yaml:1:37: no value; in YAML a value that begins with & or * needs"
                " quotation marks\n"
                "    table: {rules: [{action: FWD, fwdq: &REPLYQ}]}\n"
                "                                        ~~~~~~^\n"
            ),
        ),
        (
            'table: {rules: [{action: FWD, fwdq: "A\\nB"}]}',
            (
                "t.yaml:1:37: a value has one line\n"
                '    table: {rules: [{action: FWD, fwdq: "A\\nB"}]}\n'
                "                                        ~~~~~^\n"
            ),
        ),
        (
            "table:\n\x07",
            "t.yaml:2:1: not YAML: a character that YAML does not allow\n    ?\n    ^\n",
        ),
        ("table: []\ntable: []\n", "t.yaml:2:1: table is repeated\n    table: []\n    ~~~~^\n"),
        ("[" * 50_000, "t.yaml:1:21: not YAML: more than 20 levels deep\n"),
    ],
    ids=range(11),
)
def test_an_invalid_yaml_table_is_rejected(yaml: str, error: str) -> None:
    assert errors(yaml).startswith(error)


def test_the_number_of_rules_from_lists_is_limited() -> None:
    many = "[" + ", ".join("A" * 1000) + "]"

    table = f"table: {{rules: [{{match: {{DESTQ: {many}, REPLYQ: {many}}}, action: RETRY}}]}}"

    assert errors(table).startswith(
        "t.yaml:1:17: with this rule and its alternatives there are more than 100000 rules\n"
    )


SHADOWED = (
    "table:\n"
    "  rules:\n"
    "    - match: {DESTQ: [A*, AB]}\n"
    "      action: DISCARD\n"
    "    - match: {DESTQ: AC}\n"
    "      action: RETRY\n"
    "    - action: IGNORE\n"
)


def test_the_linter_names_the_lines_of_the_yaml_file() -> None:
    result = check(SHADOWED, "t.yaml")

    assert "".join(f"{d}\n" for d in result.diagnostics) == (
        "t.yaml:3:7: warning: no message reaches this rule because ACTION(DISCARD) at line 3"
        " matches all of its messages; move it before that rule or remove it [shadowed-rule]\n"
        "        - match: {DESTQ: [A*, AB]}\n"
        "          ~~~~~~~~~~~~~~~~~~~~~~~^\n"
        "t.yaml:5:7: warning: no message reaches this rule because ACTION(DISCARD) at line 3"
        " matches all of its messages; move it before that rule or remove it [shadowed-rule]\n"
        "        - match: {DESTQ: AC}\n"
        "          ~~~~~~~~~~~~~~~~~^\n"
    )


def test_the_handler_file_sets_the_severity_of_a_lint_warning() -> None:
    off = check(f"lint: {{shadowed-rule: off}}\n{SHADOWED}", "t.yaml")
    refused = check(f"lint: {{shadowed-rule: error}}\n{SHADOWED}", "t.yaml")

    assert off.table is not None
    assert off.diagnostics == ()
    assert refused.table is None
    assert {d.severity for d in refused.diagnostics} == {"error"}
    assert errors("lint: {shadowed: off, no-catch-all: 1}\ntable: {rules: [{action: IGNORE}]}") == (
        "t.yaml:1:8: unknown key shadowed; did you mean shadowed-rule?\n"
        "    lint: {shadowed: off, no-catch-all: 1}\n"
        "           ~~~~~~~^\n"
        "t.yaml:1:37: no-catch-all takes error, warning or off\n"
        "    lint: {shadowed: off, no-catch-all: 1}\n"
        "                                        ^\n"
    )


def test_extensions_stand_beside_the_patterns() -> None:
    found = table(
        "table:\n"
        "  rules:\n"
        "    - match: {DESTQ: QUOTES}\n"
        "      extensions:\n"
        "        age: '>= 120min'\n"
        "        header_chain: mqdlh mqrfh2*\n"
        "      action: DISCARD\n"
        "    - extensions: {expires_in: ['< 15min', never], length: '> 1MB'}\n"
        "      action: RETRY\n"
        "    - {action: IGNORE}\n"
    )

    assert freeze(found) == (
        "DESTQ(QUOTES) AGE('>= 2h') HEADER_CHAIN('MQDLH MQRFH2*') +\n"
        "    ACTION(DISCARD)\n"
        "EXPIRES_IN('< 15min') LENGTH('> 1MB') ACTION(RETRY)\n"
        "EXPIRES_IN('never') LENGTH('> 1MB') ACTION(RETRY)\n"
        "ACTION(IGNORE)\n"
    )
    assert [rule.line for rule in found.rules] == [3, 8, 8, 10]


def test_an_error_of_an_extension_names_its_place_in_the_file() -> None:
    assert errors(
        "table:\n"
        "  rules:\n"
        "    - match: {age: '> 1h'}\n"
        "      extensions: {ages: '> 1h', DESTQ: A, length: []}\n"
        "      expires_in: never\n"
        "      action: IGNORE\n"
        "    - extensions: {age: 2h}\n"
        "      action: IGNORE\n"
    ) == (
        "t.yaml:3:15: age belongs under 'extensions:'\n"
        "        - match: {age: '> 1h'}\n"
        "                  ~~^\n"
        "t.yaml:4:20: unknown key ages; did you mean age?\n"
        "          extensions: {ages: '> 1h', DESTQ: A, length: []}\n"
        "                       ~~~^\n"
        "t.yaml:4:34: DESTQ belongs under 'match:'\n"
        "          extensions: {ages: '> 1h', DESTQ: A, length: []}\n"
        "                                     ~~~~^\n"
        "t.yaml:4:52: LENGTH has no value; leave it out\n"
        "          extensions: {ages: '> 1h', DESTQ: A, length: []}\n"
        "                                                       ~^\n"
        "t.yaml:5:7: expires_in belongs under 'extensions:'\n"
        "          expires_in: never\n"
        "          ~~~~~~~~~^\n"
        "t.yaml:7:25: AGE takes a comparison with a time such as '>= 2h' (s, min, h or d), found"
        " '2h'\n"
        "        - extensions: {age: 2h}\n"
        "                            ~^\n"
    )


def test_patterns_of_a_backout_queue_name_fields_of_the_mqmd() -> None:
    found = table(
        "queue_kind: backout\n"
        "table:\n"
        "  control: {input_q: ORDERS.BACKOUT}\n"
        "  rules:\n"
        "    - match: {MQMD.Format: MQSTR}\n"
        "      action: DISCARD\n"
    )

    text = "INPUTQ(ORDERS.BACKOUT)\nFORMAT(MQSTR) ACTION(DISCARD)\n"
    assert found == parse(text, queue_kind=QueueKind.BACKOUT)


def test_a_yaml_table_of_a_backout_queue_is_rejected_where_it_needs_an_mqdlh() -> None:
    assert errors(
        "queue_kind: backout\n"
        "table:\n"
        "  rules:\n"
        "    - match: {MQDLH.Reason: 2053}\n"
        "      action: RETRY\n"
    ) == (
        "t.yaml:4:15: REASON compares MQDLH.Reason, which messages on a backout queue do not have;"
        " remove the pattern\n"
        "        - match: {MQDLH.Reason: 2053}\n"
        "                  ~~~~~~~~~~~^\n"
        "t.yaml:5:7: ACTION(RETRY) needs the destination in the MQDLH, which messages on a backout"
        " queue do not have; use ACTION(FWD) with FWDQ\n"
        "          action: RETRY\n"
        "          ~~~~~^\n"
    )
    assert errors("queue_kind: backout\ntable:\n  rules: [{action: IGNORE}]\n") == (
        "t.yaml:3:3: the table of a backout queue names no INPUTQ; add control data such as"
        " INPUTQ(ORDERS.BACKOUT)\n"
        "      rules: [{action: IGNORE}]\n"
        "      ~~~~~~~~~~~~~~~~~~~~~~~~^\n"
    )


def test_a_kind_of_queue_that_does_not_exist_is_an_error() -> None:
    assert errors("queue_kind: back-out\ntable: {rules: [{action: IGNORE}]}\n") == (
        "t.yaml:1:13: queue_kind takes dead_letter or backout\n"
        "    queue_kind: back-out\n"
        "                ~~~~~~~^\n"
    )
