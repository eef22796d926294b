"""Test that `mqdlq rules diff` shows how two tables differ, and for which messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app, rules_diff
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, header_row
from mqdlq.lake import SnapshotWriter

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
OLD = "RETRYINT(5)\nDESTQ(A*) ACTION(RETRY)\nDESTQ(B) ACTION(DISCARD)\nACTION(IGNORE)\n"
NEW = (
    "* the new one\nDESTQ(A*) ACTION(RETRY) RETRY(3)\nREASON(MQRC_Q_FULL) ACTION(IGNORE)\n"
    "ACTION(FWD) FWDQ(&DESTQ)\n"
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQDLQ_LAKE", str(tmp_path / "lake"))
    Path("old.rules").write_text(OLD, encoding="utf-8")
    Path("new.rules").write_text(NEW, encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rules", "diff", *arguments])


def take_snapshot(*dest_q_names: str, snapshot_id: str = "s1", taken_at: datetime = NOON) -> str:
    """Write a snapshot of a dead letter for each queue, and of one without an MQDLH."""
    with SnapshotWriter("lake", "QM1", "DLQ", snapshot_id) as writer:
        for browse_seq, name in enumerate(dest_q_names, start=1):
            dlh = DeadLetterHeader(reason=2085, dest_q_name=name, put_date="20261121")
            body = dlh.encode(encoding=546, ccsid=1208)
            descriptor = MessageDescriptor(format="MQDEAD", coded_char_set_id=1208)
            writer.write(
                header_row(browse_seq, descriptor.encode(), body, len(body), browsed_at=NOON)
            )
        stray = MessageDescriptor().encode()
        writer.write(header_row(len(dest_q_names) + 1, stray, b"hello", 5, browsed_at=NOON))
        writer.finish(taken_at=taken_at, taken_by="ann", rules_digest="", rules_text="")
    return writer.directory


def as_json(*arguments: str) -> Any:
    return json.loads(run("--format", "json", *arguments).stdout)


def test_tables_that_mean_the_same_end_with_0() -> None:
    Path("same.rules").write_text(f"* x\n{OLD.lower()}", encoding="utf-8")

    result = run("old.rules", "same.rules")

    assert (result.exit_code, result.stdout) == (0, "old.rules and same.rules mean the same\n")


def test_a_table_may_be_in_yaml() -> None:
    Path("old.yaml").write_text(
        "table: {control: {retryint: 5}, rules: [{match: {DESTQ: A*}, action: RETRY},"
        " {match: {DESTQ: B}, action: DISCARD}, {action: IGNORE}]}",
        encoding="utf-8",
    )

    assert run("old.rules", "old.yaml").exit_code == 0


def test_differences_are_printed_and_end_with_1() -> None:
    take_snapshot("AB", "B", "B", "C", "AC")

    result = run("old.rules", "new.rules", "--snapshot", "s1")

    assert result.exit_code == 1
    assert result.stdout == (
        "old.rules and new.rules differ\n"
        "RETRYINT: 5 -> default\n"
        "changed, line 2 -> 2: DESTQ(A*) ACTION(RETRY)\n"
        "    -> DESTQ(A*) ACTION(RETRY) RETRY(3)\n"
        "removed, line 3: DESTQ(B) ACTION(DISCARD)\n"
        "added, line 3: REASON(MQRC_Q_FULL) ACTION(IGNORE)\n"
        "changed, line 4 -> 4: ACTION(IGNORE)\n"
        "    -> ACTION(FWD) FWDQ(&DESTQ)\n"
        "\n"
        "snapshot s1: 5 of 6 messages are treated differently\n"
        "  2: ACTION(DISCARD)\n"
        "    -> ACTION(FWD) FWDQ(&DESTQ)\n"
        "    browse_seq 2, 3\n"
        "  2: ACTION(RETRY), then ACTION(IGNORE)\n"
        "    -> ACTION(RETRY) RETRY(3), then ACTION(FWD) FWDQ(&DESTQ)\n"
        "    browse_seq 1, 5\n"
        "  1: ACTION(IGNORE)\n"
        "    -> ACTION(FWD) FWDQ(&DESTQ)\n"
        "    browse_seq 4\n"
        "new.rules: no message met these rules\n"
        "  line 3: REASON(MQRC_Q_FULL) ACTION(IGNORE)\n"
    )


def test_comparisons_that_the_snapshots_cannot_answer_are_a_warning() -> None:
    take_snapshot("B")
    Path("new.yaml").write_text(
        "table: {rules: [{extensions: {property: a = B}, action: RETRY}, {action: IGNORE}]}",
        encoding="utf-8",
    )

    result = run("old.rules", "new.yaml", "--snapshot", "s1")

    assert result.stderr == (
        "mqdlq: warning: not all snapshots have property usr.a = B, which matches no message"
        " there\n"
    )
    assert "new.yaml: no message met these rules\n  line 1: PROPERTY('usr.a = B')" in result.stdout


def test_differences_are_written_as_json() -> None:
    directory = take_snapshot("B", "C")

    assert as_json("old.rules", "new.rules", "--snapshot", directory) == {
        "same": False,
        "control": [{"keyword": "RETRYINT", "old": "5", "new": None}],
        "rules": [
            {
                "change": "changed",
                "old": {"line": 2, "rule": "DESTQ(A*) ACTION(RETRY)"},
                "new": {"line": 2, "rule": "DESTQ(A*) ACTION(RETRY) RETRY(3)"},
            },
            {
                "change": "removed",
                "old": {"line": 3, "rule": "DESTQ(B) ACTION(DISCARD)"},
                "new": None,
            },
            {
                "change": "added",
                "old": None,
                "new": {"line": 3, "rule": "REASON(MQRC_Q_FULL) ACTION(IGNORE)"},
            },
            {
                "change": "changed",
                "old": {"line": 4, "rule": "ACTION(IGNORE)"},
                "new": {"line": 4, "rule": "ACTION(FWD) FWDQ(&DESTQ)"},
            },
        ],
        "snapshots": ["s1"],
        "messages": 3,
        "different": 2,
        "matrix": [
            {
                "old": "ACTION(DISCARD)",
                "new": "ACTION(FWD) FWDQ(&DESTQ)",
                "messages": 1,
                "samples": [{"snapshot_id": "s1", "browse_seq": 1}],
            },
            {
                "old": "ACTION(IGNORE)",
                "new": "ACTION(FWD) FWDQ(&DESTQ)",
                "messages": 1,
                "samples": [{"snapshot_id": "s1", "browse_seq": 2}],
            },
        ],
        "never_matched": {
            "old": [{"line": 2, "rule": "DESTQ(A*) ACTION(RETRY)"}],
            "new": [
                {"line": 2, "rule": "DESTQ(A*) ACTION(RETRY) RETRY(3)"},
                {"line": 3, "rule": "REASON(MQRC_Q_FULL) ACTION(IGNORE)"},
            ],
        },
    }


def test_rules_that_do_the_same_to_a_message_do_not_treat_it_differently() -> None:
    directory = take_snapshot("B", "C")
    Path("literal.rules").write_text("ACTION(FWD) FWDQ(B)\n", encoding="utf-8")
    Path("field.rules").write_text("DESTQ(X) ACTION(IGNORE)\nACTION(FWD) FWDQ(&DESTQ)\n")

    found = as_json("literal.rules", "field.rules", "--snapshot", directory)

    samples = found["matrix"][0]["samples"]
    assert (found["different"], samples) == (1, [{"snapshot_id": "s1", "browse_seq": 2}])


def test_a_missing_snapshot_and_a_rejected_table_end_with_2(
    tmp_path: Path,
) -> None:
    Path("bad.rules").write_text("ACTION(FWD)\n", encoding="utf-8")

    no_snapshot = run("old.rules", "new.rules", "--snapshot", "s2")
    no_table = run("old.rules", "bad.rules")

    assert (no_snapshot.exit_code, no_snapshot.stderr) == (
        2,
        f"{tmp_path}/lake holds no finished snapshot s2 [MQDLQ-419]\n",
    )
    assert no_table.exit_code == 2
    assert no_table.stderr.startswith("bad.rules:1:1: ACTION(FWD) needs FWDQ")


def test_since_compares_all_snapshots_of_a_period_and_counts_a_message_once() -> None:
    take_snapshot("B", "C")
    take_snapshot("B", "D", snapshot_id="s2", taken_at=NOON + timedelta(hours=1))
    take_snapshot("B", snapshot_id="old", taken_at=NOON - timedelta(days=999))
    days = (datetime.now(UTC) - NOON).days + 2  # noqa: TID251 (the command's own clock)

    found = as_json("old.rules", "new.rules", "--since", f"{max(days, 1)}d")

    assert found["snapshots"] == ["s1", "s2"]
    # Both snapshots have the same stray and the same B, which counts once, as in the newer one.
    assert found["messages"] == 4
    samples = [sample for cell in found["matrix"] for sample in cell["samples"]]
    assert {"snapshot_id": "s2", "browse_seq": 1} in samples
    assert {"snapshot_id": "s1", "browse_seq": 1} not in samples


def test_the_html_page_shows_the_matrix() -> None:
    take_snapshot("B", "C")

    page = run("--format", "html", "old.rules", "new.rules", "--snapshot", "s1").stdout

    assert "2 of 3 messages are treated differently" in page
    assert "<code>ACTION(FWD) FWDQ(&amp;DESTQ)</code>" in page


def test_since_takes_a_number_and_a_unit() -> None:
    result = run("old.rules", "new.rules", "--since", "month")

    assert result.exit_code == 2
    words = " ".join(result.stderr.replace("│", " ").split())
    assert "expected a number and h, d or w, as in 30d; found 'month'" in words


@pytest.mark.spark
def test_spark_finds_the_same_differences() -> None:
    take_snapshot("AB", "B", "B", "C", "AC")
    take_snapshot("B", "D", snapshot_id="s2", taken_at=NOON + timedelta(hours=1))
    arguments = ("old.rules", "new.rules", "--snapshot", "s1", "--snapshot", "s2")

    assert as_json(*arguments, "--spark") == as_json(*arguments, "--no-spark")


def test_tables_of_a_backout_queue_name_their_queue() -> None:
    Path("same.rules").write_text("ACTION(IGNORE)\n", encoding="utf-8")

    done = run("same.rules", "same.rules", "--queue-kind", "backout")

    assert done.exit_code == 2
    assert "the table of a backout queue names no INPUTQ" in done.stderr


class SparkStartsError(Exception):
    """Raised in place of starting Spark."""


def test_spark_compares_if_asked_for_or_above_a_number_of_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(*_: object) -> int:
        raise SparkStartsError

    monkeypatch.setattr(rules_diff, "_submit", start)
    take_snapshot("AB")
    arguments = ("old.rules", "new.rules", "--snapshot", "s1")

    assert run(*arguments).stdout.startswith("old.rules and new.rules differ")
    assert isinstance(run(*arguments, "--spark").exception, SparkStartsError)

    monkeypatch.setattr(rules_diff, "HERE_UP_TO", 1)
    assert isinstance(run(*arguments).exception, SparkStartsError)
    assert run(*arguments, "--no-spark").stdout.startswith("old.rules and new.rules differ")
