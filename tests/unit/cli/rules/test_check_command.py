"""Test the output and exit codes of `mqdlq rules check` and `mqdlq explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app

GOOD = (
    "INPUTQM(QM1)\n\nREASON(MQRC_Q_FULL) destq(a*) +\n  ACTION(RETRY)\nMSGTYPE(*) ACTION(IGNORE)\n"
)


EXPECTED = (
    'expected a JSON object such as {"dlh_reason": 2053}, JSON lines of mqdlq decode or mqdlq qm,'
    " the output of amqsbcg, a file of dmpmqmsg, or hexadecimal digits of a message's body"
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_check_accepts_a_valid_table() -> None:
    result = run("rules", "check", write("a.rules", GOOD))

    assert (result.exit_code, result.stdout) == (0, "a.rules: 2 rules\n")


def test_check_reports_every_file_and_fails_if_one_is_refused() -> None:
    result = run(
        "rules", "check", write("a.rules", GOOD), write("b.rules", "ACTION(FWD)\nACTION(RETRY)")
    )

    assert result.exit_code == 1
    assert result.stdout == (
        "a.rules: 2 rules\n"
        "b.rules:1:1: ACTION(FWD) needs FWDQ, the queue to forward to\n"
        "    ACTION(FWD)\n"
        "    ~~~~~^\n"
        "b.rules:2:14: warning: the last line has no line end;"
        " on Windows runmqdlq ignores it [no-final-newline]\n"
        "    ACTION(RETRY)\n"
        "                 ^\n"
        "b.rules: refused, 1 error, 1 warning\n"
    )


def test_check_writes_a_valid_table_as_json() -> None:
    result = run("rules", "check", "--format", "json", "-", stdin=GOOD)

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "files": [
            {
                "path": "<stdin>",
                "valid": True,
                "control": {"INPUTQM": "QM1"},
                "rules": [
                    {"line": 3, "keywords": {"REASON": 2053, "DESTQ": "A*", "ACTION": "RETRY"}},
                    {"line": 5, "keywords": {"MSGTYPE": "*", "ACTION": "IGNORE"}},
                ],
                "diagnostics": [],
            }
        ]
    }


def test_check_writes_diagnostics_as_json() -> None:
    result = run("rules", "check", "--format", "json", write("b.rules", "ACTION(FWD)\n"))

    assert result.exit_code == 1
    assert json.loads(result.stdout)["files"] == [
        {
            "path": "b.rules",
            "valid": False,
            "control": {},
            "rules": [],
            "diagnostics": [
                {
                    "severity": "error",
                    "code": "missing-fwdq",
                    "line": 1,
                    "column": 1,
                    "message": "ACTION(FWD) needs FWDQ, the queue to forward to",
                }
            ],
        }
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("rules", "check", "missing.rules"),
        ("rules", "check", "--format", "xml", "-"),
        ("explain", "-"),
        ("explain", "--rules", "missing.rules", "-"),
    ],
)
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_explain_writes_chain_and_trace_as_json_lines() -> None:
    messages = '{"dlh_reason": 2053, "dlh_dest_q_name": "AB  ", "other": [1]}\n\n{}\n'

    result = run(
        "explain", "--rules", write("a.rules", GOOD), "--format", "json", "-", stdin=messages
    )

    matched = {"matched": True, "keyword": None, "expected": None, "actual": None}
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"chain": [3, 5], "trace": [{"line": 3, **matched}, {"line": 5, **matched}]},
        {
            "chain": [5],
            "trace": [
                {
                    "line": 3,
                    "matched": False,
                    "keyword": "REASON",
                    "expected": 2053,
                    "actual": 0,
                },
                {"line": 5, **matched},
            ],
        },
    ]


def test_explain_prints_names_and_numbers() -> None:
    table = write("a.rules", "REASON(MQRC_Q_FULL) ACTION(RETRY)\nDESTQ(A) ACTION(IGNORE)\n")

    result = run(
        "explain",
        "--rules",
        table,
        "-",
        stdin='{"dlh_reason": 2085, "dlh_dest_q_name": "A\\u0000"}',
    )

    assert result.stdout == (
        "message at line 1: no rule matches, the message is left\n"
        "  line 1: REASON expects MQRC_Q_FULL (2053),"
        " Reason is MQRC_UNKNOWN_OBJECT_NAME (2085)\n"
        "  line 2: DESTQ expects 'A', DestQName is 'A\\x00';"
        " only its NULs keep it from matching\n"
        "  nearest is the rule at line 1: REASON expects MQRC_Q_FULL (2053),"
        " Reason is MQRC_UNKNOWN_OBJECT_NAME (2085)\n"
    )


def test_explain_names_the_nearest_rule_of_an_unmatched_message() -> None:
    table = write(
        "a.rules",
        "REASON(1) DESTQ(A) ACTION(RETRY)\nREASON(2) DESTQ(A) REPLYQ(R) ACTION(IGNORE)\n",
    )
    message = '{"dlh_reason": 3, "dlh_dest_q_name": "A\\u0000", "reply_to_q": "R"}'

    as_text = run("explain", "--rules", table, "-", stdin=message)
    as_json = run("explain", "--rules", table, "--format", "json", "-", stdin=message)

    assert as_text.stdout.splitlines()[-1] == (
        "  nearest is the rule at line 1: REASON expects 1, Reason is 3;"
        " and DESTQ expects 'A', DestQName is 'A\\x00'; only its NULs keep it from matching"
    )
    assert json.loads(as_json.stdout)["nearest"] == {
        "line": 1,
        "failures": [
            {"keyword": "REASON", "expected": 1, "actual": 3},
            {"keyword": "DESTQ", "expected": "A", "actual": "A\0", "only_nuls": True},
        ],
    }


def test_explain_matches_rules_of_a_backout_queue_against_messages_without_an_mqdlh() -> None:
    table = write("b.rules", "INPUTQ(B)\nFORMAT(MQSTR) ACTION(DISCARD)\n")
    lines = '{"class": "no_dlh", "format": "MQSTR"}\n{"class": "dead_letter"}\n'
    command = ("explain", "--rules", table, "--queue-kind", "backout", "-")

    assert run(*command, stdin=lines).stdout == (
        "message at line 1: rules tried, by line: 2\n"
        "  line 2: matches, ACTION(DISCARD)\n"
        "message at line 2: its class is dead_letter;"
        " rules apply to messages without an MQDLH only, so it is left\n"
    )


def test_explain_matches_no_rule_against_a_message_that_is_not_a_dead_letter() -> None:
    table = write("a.rules", GOOD)

    as_text = run("explain", "--rules", table, "-", stdin='{"class": "no_dlh"}')
    as_json = run("explain", "--rules", table, "--format", "json", "-", stdin='{"class": "no_dlh"}')

    assert as_text.stdout == (
        "message at line 1: its class is no_dlh;"
        " rules apply to messages with a valid MQDLH only, so it is left\n"
    )
    unasked = {"matched": False, "keyword": None, "expected": None, "actual": None}
    assert json.loads(as_json.stdout) == {
        "chain": [],
        "trace": [{"line": 3, **unasked}, {"line": 5, **unasked}],
        "class": "no_dlh",
    }


def test_explain_compares_nuls_as_blanks_with_the_option() -> None:
    table = write("a.rules", "DESTQ(A) ACTION(RETRY)\n")
    message = '{"dlh_dest_q_name": "A\\u0000"}'

    asked = ("explain", "--rules", table, "--format", "json", "--nul-as-blank", "-")

    assert json.loads(run(*asked, stdin=message).stdout)["chain"] == [1]


def test_explain_accepts_a_line_with_only_a_class() -> None:
    table = write("a.rules", GOOD)

    result = run(
        "explain", "--rules", table, "--format", "json", "-", stdin='{"class": "dead_letter"}'
    )

    assert json.loads(result.stdout)["chain"] == [5]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("nonsense", EXPECTED),
        ("[" * 100_000, EXPECTED),
        (b"\xff", EXPECTED),
        (
            '{"Reason": 2053, "DestQName": "A"}',
            f"'DestQName' is not a column of a snapshot, nor is any other key here; {EXPECTED}",
        ),
        ('{"dlh_reason": "2053"}', "dlh_reason must be a number, found str"),
        ('{"dlh_reason": true}', "dlh_reason must be a number, found bool"),
        ('{"reply_to_q": 1}', "reply_to_q must be text, found int"),
        (
            '{"class": []}',
            (
                "class must be dead_letter, truncated_dlh, unsupported_dlh_version, undecodable"
                " or no_dlh"
            ),
        ),
    ],
    ids=range(8),
)
def test_explain_names_the_line_that_is_not_a_message(line: str | bytes, error: str) -> None:
    result = run("explain", "--rules", write("a.rules", GOOD), "-", stdin=line)

    assert (result.exit_code, result.stderr) == (1, f"<stdin>:1: {error} [MQDLQ-905]\n")


def test_explain_warns_once_of_keys_that_are_not_columns() -> None:
    messages = (
        '{"dlh_reson": 2053, "dlh_format": "A"}\n'
        '{"dlh_reson": 2051, "colour": 1, "dlh_reason": 2053}\n'
    )
    table = write("a.rules", GOOD)

    result = run("explain", "--rules", table, "--format", "json", "-", stdin=messages)

    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == (
        "<stdin>:1: warning: 'dlh_reson' is not a column of a snapshot (did you mean dlh_reason?),"
        " and is not looked at\n"
        "<stdin>:2: warning: 'colour' is not a column of a snapshot, and is not looked at\n"
    )


def test_explain_rejects_a_table_that_check_rejects() -> None:
    result = run("explain", "--rules", write("b.rules", "ACTION(FWD)\n"), "-", stdin="{}")

    assert result.exit_code == 1
    assert result.stderr.startswith("b.rules:1:1: ACTION(FWD) needs FWDQ")
