"""The history: what all snapshots, plans and outcomes tell together."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.causes import find_cause
from mqdlq.evaluation.applications.dlq_history import main
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.history import write_history
from mqdlq.reading.outcome_files import OUTCOMES
from mqdlq.rules import parse
from tests.support.evaluation.snapshot_builders import (
    NOON,
    dead_letter,
    no_dead_letter,
    write_compact,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

TABLE = parse("REASON(2053) ACTION(RETRY)\nREASON(2085) ACTION(IGNORE)\nREASON(9) ACTION(RETRY)\n")
FULL = {"dlh_reason": 2053, "dlh_dest_q_name": "PAY", "put_appl_name": "app"}
UNKNOWN = {"dlh_reason": 2085, "dlh_dest_q_name": "GONE", "put_appl_name": "app"}


def lake_of(root: Path, *snapshots: list[dict[str, Any]]) -> str:
    """Write a snapshot of these rows for each hour, with its plan."""
    place = str(root / "lake")
    for number, rows in enumerate(snapshots):
        taken_at = NOON + timedelta(hours=number)
        name = f"s{number}"
        directory = write_rows(place, rows, TABLE, snapshot_id=name, taken_at=taken_at)
        evaluate(directory, plan=lake.plan_directory(place, f"p{number}"))
    return place


def write_outcomes(history: Path, *outcomes: tuple[bytes, str]) -> None:
    """Write what became of messages two hours after noon, as the export does."""
    history.mkdir()
    rows = [
        {
            "run_id": "r", "queue_manager": "QM1", "queue": "DLQ", "message_key": key,
            "residence": 0, "rules_digest": TABLE.digest, "dry_run": False, "rule": 1,
            "action": "RETRY", "outcome": outcome, "at": NOON + timedelta(hours=2),
        }
        for key, outcome in outcomes
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=OUTCOMES), history / "outcomes.parquet")


def history_of(root: str, history: Path, name: str) -> list[dict[str, Any]]:
    """Write the history of a lake, and return one of its tables."""
    write_history(root, str(history))
    rows: list[dict[str, Any]] = pq.read_table(history / name).to_pylist()
    return rows


def test_the_history_counts_each_message_once_and_separates_new_from_returned(
    tmp_path: Path,
) -> None:
    full, unknown = dead_letter(1, **FULL), dead_letter(2, **UNKNOWN)
    new = dead_letter(3, dlh_reason=2035, dlh_dest_q_name="X", put_appl_name="app")
    root = lake_of(tmp_path, [full, unknown, no_dead_letter(9)], [full], [full, unknown, new])
    history = tmp_path / "history"
    write_outcomes(history, (full["message_key"], "delivered"))
    later = NOON + timedelta(hours=9)  # by a backfill, which saw nothing
    write_rows(root, [unknown], TABLE, snapshot_id="b", taken_at=later, put_together_from=("s0",))

    causes = history_of(root, history, "causes")

    states = {cause["dest_q_name"]: cause["state"] for cause in causes}
    assert states == {"PAY": "known", "GONE": "returned", "X": "new"}
    (paid,) = [cause for cause in causes if cause["dest_q_name"] == "PAY"]
    assert paid["messages"] == 1
    # Dead-lettered at 11:00, delivered at 14:00; last seen at 14:00 too.
    assert (paid["resolved"], paid["resolution_median_s"]) == (1, 3 * 3600)
    first, last = NOON - timedelta(hours=1), NOON + timedelta(hours=2)
    assert (paid["first_seen"], paid["last_seen"], paid["oldest_s"]) == (first, last, 3 * 3600)
    assert pq.read_table(history / "arrivals").to_pylist() == [
        {"queue_manager": "QM1", "queue": "DLQ", "hour": first, "messages": 3}
    ]


def test_queues_with_generated_names_are_one_destination_in_the_history(tmp_path: Path) -> None:
    names = [f"AMQ.{number:016X}" for number in range(3)]
    gone = [
        dead_letter(number, **{**UNKNOWN, "dlh_dest_q_name": name})
        for number, name in enumerate(names, start=1)
    ]

    causes = history_of(lake_of(tmp_path, gone), tmp_path / "history", "causes")

    cause_id = find_cause("dead_letter", 2085, "AMQ.*", "").cause_id
    told = [(one["dest_q_name"], one["messages"], one["cause_id"]) for one in causes]
    assert told == [("AMQ.*", 3, cause_id)]


def test_the_history_counts_settled_messages_in_the_backlog(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    known, twin = dead_letter(1, **UNKNOWN), dead_letter(2, **UNKNOWN)
    twin_again = {**twin, "browse_seq": 3}
    write_rows(root, [known, twin, twin_again], TABLE, snapshot_id="s0")
    for number in (1, 2):
        write_compact(
            root,
            [dead_letter(9, **FULL)] if number == 2 else [],
            [(4, known, "s0"), (5, twin, "s0"), (6, twin, "s0")],
            TABLE,
            snapshot_id=f"s{number}",
            taken_at=NOON + timedelta(hours=number),
        )

    causes = history_of(root, tmp_path / "history", "causes")

    told = {cause["dest_q_name"]: cause for cause in causes}
    states = {name: (cause["state"], cause["messages_now"]) for name, cause in told.items()}
    assert states == {"GONE": ("known", 3), "PAY": ("new", 1)}
    assert told["GONE"]["last_seen"] == NOON + timedelta(hours=2)
    assert told["GONE"]["oldest_s"] == 3 * 3600


def test_the_history_counts_how_often_each_rule_matched_and_settled(tmp_path: Path) -> None:
    letters = [dead_letter(number, **FULL) for number in range(4)]
    root = lake_of(tmp_path, [*letters, dead_letter(5, **UNKNOWN)])
    history = tmp_path / "history"
    keys = [letter["message_key"] for letter in letters]
    write_outcomes(history, *((key, "delivered") for key in keys[:3]), (keys[3], "exhausted"))

    rules = history_of(root, history, "rules")

    told = [(rule["met"], rule["never_matched"], rule["success_rate"]) for rule in rules]
    assert told == [(4, False, 0.75), (1, False, None), (0, True, None)]


def test_the_history_is_written_as_parquet_and_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = lake_of(tmp_path, [dead_letter(1, **FULL)])

    codes = [main(["--lake", root, "--history", str(tmp_path / "history")]) for _ in range(2)]

    assert codes == [0, 0]
    assert "dlq_history: 1 snapshots, 1 messages, 1 causes\n" in capfd.readouterr().out
    causes = pq.read_table(tmp_path / "history" / "causes")
    assert causes.num_rows == 1  # the second history replaces the first


def test_the_history_of_an_empty_lake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--lake", str(tmp_path), "--history", str(tmp_path / "history")]) == 1
    assert capsys.readouterr().err == (
        f"dlq_history: {tmp_path} holds no finished snapshot [MQDLQ-413]\n"
    )
