"""Test that `mqdlq rules suggest` drafts a table from the messages of snapshots."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row
from mqdlq.lake import SnapshotWriter
from mqdlq.model import QueueKind
from tests.support.wire.pasted_messages import print_amqsbcg

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path / "lake"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rules", *arguments])


def take_snapshot(*causes: tuple[int, str] | tuple[int, str, str]) -> None:
    """Write a snapshot of a dead letter for each cause, and of a message without an MQDLH."""
    with SnapshotWriter("lake", "QM1", "DLQ", "s1") as writer:
        for number, (reason, name, *manager) in enumerate(causes, start=1):
            at = "".join(manager)
            dlh = DeadLetterHeader(
                reason=reason, dest_q_name=name, dest_q_mgr_name=at, put_date="20261121"
            )
            body = dlh.encode(encoding=546, ccsid=1208)
            descriptor = MessageDescriptor(
                format="MQDEAD", coded_char_set_id=1208, msg_id=number.to_bytes(24, "big")
            )
            row = header_row(number, descriptor.encode(), body, len(body), browsed_at=NOON)
            writer.write(row)
        stray = MessageDescriptor().encode()
        writer.write(header_row(len(causes) + 1, stray, b"hello", 5, browsed_at=NOON))
        writer.finish(taken_at=NOON, taken_by="ann", rules_digest="", rules_text="")


def test_each_cause_gets_a_rule_the_most_frequent_first() -> None:
    take_snapshot((2085, "ORDERS"), (2053, "PAY.IN"), (2053, "PAY.IN"), (7777, "X"))

    assert run("suggest", "--snapshot", "s1", "--parking-queue", "PARKED").stdout == (
        "* A draft, made from what was found on the queue. Read it before use.\n"
        "* 4 dead letters in 1 snapshot.\n"
        "* 1 message without a valid MQDLH: no rule meets those.\n"
        "*\n"
        "* 2 messages: the queue is full; tried again until full queues are\n"
        "* emptied.\n"
        "DESTQ(PAY.IN) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)\n"
        "*\n"
        "* 1 message: no queue of that name; define the queue, or correct the\n"
        "* name that is used.\n"
        "DESTQ(ORDERS) REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(FWD) +\n"
        "    FWDQ(PARKED)\n"
        "*\n"
        "* 1 message: look up the reason.\n"
        "DESTQ(X) REASON(7777) ACTION(FWD) FWDQ(PARKED)\n"
        "*\n"
        "* Everything else is left where it is.\n"
        "ACTION(IGNORE)\n"
    )


def test_the_most_frequent_causes_get_their_own_rule_up_to_a_number() -> None:
    take_snapshot((2085, "ORDERS"), (2053, "PAY.IN"), (2053, "PAY.IN"))

    drafted = run("suggest", "--snapshot", "s1", "--causes", "1").stdout

    assert "DESTQ(PAY.IN)" in drafted
    assert "DESTQ(ORDERS)" not in drafted


def test_no_rules_are_suggested_for_a_backout_queue() -> None:
    with SnapshotWriter("lake", "QM1", "BACKOUT", "s2") as writer:
        row = header_row(1, MessageDescriptor().encode(), b"x", 1, browsed_at=NOON)
        writer.write(row)
        writer.finish(
            taken_at=NOON,
            taken_by="ann",
            rules_digest="",
            rules_text="",
            queue_kind=QueueKind.BACKOUT,
        )
    refusal = (
        "snapshot s2 is of the backout queue BACKOUT; rules are suggested for dead-letter queues"
        " only [MQDLQ-917]\n"
    )

    done = run("suggest", "--snapshot", "s2")
    alone = run("suggest", "--since", "9999w")
    take_snapshot((2053, "PAY.IN"))
    mixed = run("suggest", "--since", "9999w")

    assert (done.exit_code, done.stderr, done.stdout) == (2, refusal, "")
    assert (alone.exit_code, alone.stderr) == (2, refusal)
    assert mixed.stderr == "left out: 1 snapshot of backout queues\n"
    assert "* 1 dead letter in 1 snapshot.\n" in mixed.stdout


def test_queues_with_generated_names_get_one_rule() -> None:
    names = [f"AMQ.5F2A6C7E2103{number:04X}" for number in range(3)]
    take_snapshot(*((2085, name) for name in names), (2053, "AMQ.ORDERS"))

    drafted = run("suggest", "--snapshot", "s1").stdout

    assert "* 3 messages: no queue of that name;" in drafted
    assert "DESTQ(AMQ.*) REASON(MQRC_UNKNOWN_OBJECT_NAME)" in drafted
    assert "DESTQ(AMQ.ORDERS) REASON(MQRC_Q_FULL)" in drafted


def test_generated_names_get_no_pattern_that_matches_another_queue_with_the_reason() -> None:
    names = [f"AMQ.5F2A6C7E2103{number:04X}" for number in range(3)]
    take_snapshot(*((2085, name) for name in names), (2085, "AMQ.ORDERS"))

    drafted = run("suggest", "--snapshot", "s1").stdout

    rules = [line for line in drafted.splitlines() if not line.startswith("*")]
    assert rules[0].startswith("DESTQ(AMQ.ORDERS) REASON(MQRC_UNKNOWN_OBJECT_NAME)")
    assert rules[1].startswith("REASON(MQRC_UNKNOWN_OBJECT_NAME)")


def test_one_queue_at_two_queue_managers_gets_two_rules() -> None:
    take_snapshot((2085, "ORDERS", "QM2"), (2085, "ORDERS", "QM3"))

    drafted = run("suggest", "--snapshot", "s1").stdout

    assert "DESTQ(ORDERS) DESTQM(QM2) REASON(MQRC_UNKNOWN_OBJECT_NAME)" in drafted
    assert "DESTQ(ORDERS) DESTQM(QM3) REASON(MQRC_UNKNOWN_OBJECT_NAME)" in drafted


def test_a_name_that_a_nul_ends_gets_no_pattern() -> None:
    take_snapshot((2085, "ORDERS\0X"), (2085, "ORDERS"))

    drafted = run("suggest", "--snapshot", "s1").stdout

    assert "DESTQ" not in drafted
    assert "REASON(MQRC_UNKNOWN_OBJECT_NAME)" in drafted


def test_a_draft_is_valid_whatever_the_messages_contain() -> None:
    odd = [
        "\x1b[2J",
        "\x9b31m",
        "a\tb",
        "\u202eq",
        "A*B",
        "?",
        "it's",
        "\0\0",
        "a\nb",
        "é",
        "",
        " lead",
        "x" * 48,
        "&DESTQ",
        "+",
        "-",
    ]
    take_snapshot(*((reason, name) for name in odd for reason in (0, 2053, -5, 2**31 - 1)))

    drafted = run("suggest", "--snapshot", "s1", "--causes", "99")

    assert drafted.exit_code == 0
    assert "DISCARD" not in drafted.stdout
    assert all(line.isprintable() for line in drafted.stdout.splitlines())
    Path("draft.rules").write_bytes(drafted.stdout_bytes)
    checked = run("check", "draft.rules")
    assert (checked.exit_code, "error" in checked.stdout) == (0, False), checked.stdout


def test_a_dump_is_as_good_as_a_snapshot() -> None:
    dlh = DeadLetterHeader(reason=2053, dest_q_name="ORDERS", dest_q_mgr_name="QM1")
    body = dlh.encode(encoding=546, ccsid=819)
    dumped = print_amqsbcg([(MessageDescriptor(format="MQDEAD", coded_char_set_id=819), body)] * 2)

    drafted = CliRunner().invoke(app, ["rules", "suggest", "-"], input=dumped).stdout

    assert "* 2 dead letters in 1 dump.\n" in drafted
    assert "DESTQ(ORDERS) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)\n" in drafted


@pytest.mark.parametrize("arguments", [(), ("-", "--snapshot", "s1")], ids=["neither", "both"])
def test_suggest_names_the_sources_of_which_it_takes_one(arguments: tuple[str, ...]) -> None:
    result = run("suggest", *arguments)

    words = " ".join(result.stderr.replace("│", " ").split())
    assert (result.exit_code, "by --snapshot, or say how far back by --since" in words) == (2, True)
