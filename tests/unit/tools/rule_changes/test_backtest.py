"""Test that a backtest says what a proposed table would have done with stored messages."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.rules import RulesTable, parse
from mqdlq.tools.rule_drafts import backtest, choose_snapshots
from tests.support.evaluation.snapshot_builders import (
    NOON,
    dead_letter,
    no_dead_letter,
    write_rows,
)

TODAY = parse("REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\nACTION(FWD) FWDQ(PARKED)\n")
PROPOSED = parse(
    "REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\n"
    "DESTQ(QUOTES) ACTION(DISCARD)\n"
    "ACTION(FWD) FWDQ(PARKED)\n"
)


def take(tmp_path: Path, name: str, *rows: dict[str, Any], hours: int = 0) -> TakenSnapshot:
    at = NOON + timedelta(hours=hours)
    place = write_rows(str(tmp_path), list(rows), TODAY, snapshot_id=name, taken_at=at)
    return TakenSnapshot(f"run-{name}", name, place, len(rows), at)


def letter(number: int, queue: str, reason: int = 2085) -> dict[str, Any]:
    return dead_letter(number, dlh_dest_q_name=queue, dlh_reason=reason)


def matched(table: RulesTable, taken: list[TakenSnapshot]) -> list[int]:
    found = backtest(TODAY, table, choose_snapshots(taken))
    return [messages for _, messages in found.treatments.matched_new]


def test_the_matrix_has_today_s_action_and_the_new_one(tmp_path: Path) -> None:
    quote, full = letter(1, "QUOTES"), letter(3, "QUOTES", 2053)
    taken = take(tmp_path, "s1", quote, letter(2, "X"), full, no_dead_letter(4))

    found = backtest(TODAY, PROPOSED, choose_snapshots([taken])).treatments

    assert (found.messages, found.different) == (4, 2)
    assert [
        (cell.old, cell.new, cell.messages, [sample.message_key for sample in cell.samples])
        for cell in found.cells
    ] == [
        (
            "ACTION(FWD) FWDQ(PARKED)",
            "ACTION(DISCARD)",
            1,
            [quote["message_key"].hex()],
        ),
        (
            "ACTION(RETRY) RETRY(3), then ACTION(FWD) FWDQ(PARKED)",
            "ACTION(RETRY) RETRY(3), then ACTION(DISCARD)",
            1,
            [full["message_key"].hex()],
        ),
    ]


def test_a_comparison_that_the_snapshots_do_not_have_is_named(tmp_path: Path) -> None:
    changed = parse("PROPERTY('a = B') ACTION(IGNORE)\nACTION(FWD) FWDQ(PARKED)\n", frozen=True)
    chosen = choose_snapshots([take(tmp_path, "s1", letter(1, "X"))])

    assert backtest(TODAY, changed, chosen).unstored == ("property usr.a = B",)
    assert backtest(TODAY, PROPOSED, chosen).unstored == ()


def test_the_messages_of_each_rule_are_counted(tmp_path: Path) -> None:
    taken = take(tmp_path, "s1", letter(1, "QUOTES"), letter(2, "X"), letter(3, "QUOTES", 2053))

    assert matched(PROPOSED, [taken]) == [1, 2, 1]


def test_a_message_of_several_snapshots_counts_once(tmp_path: Path) -> None:
    rows = letter(1, "QUOTES"), letter(2, "QUOTES")
    taken = [take(tmp_path, "s1", *rows), take(tmp_path, "s2", rows[0], hours=1)]

    assert matched(PROPOSED, taken) == [0, 2, 0]


def test_snapshots_beyond_the_bound_are_skipped_the_oldest_first(tmp_path: Path) -> None:
    old = take(tmp_path, "s1", letter(1, "A"), hours=-1)
    new = take(tmp_path, "s2", letter(2, "B"), letter(3, "B"))

    chosen = choose_snapshots([old, new], most=2)

    assert [one.manifest.snapshot_id for one in chosen[0]] == ["s2"]
    assert [(taken.snapshot_id, why) for taken, why in chosen[1]] == [
        ("s1", "with it, there are more than 2 messages")
    ]


def test_a_pruned_a_damaged_and_another_kind_of_snapshot_are_skipped(tmp_path: Path) -> None:
    pruned = take(tmp_path, "pruned", letter(1, "A"))
    shutil.rmtree(pruned.location)
    damaged = take(tmp_path, "damaged", letter(1, "A"), hours=-1)
    manifest = Path(damaged.location, "_MANIFEST.json")
    manifest.write_text("{}", encoding="utf-8")
    usual = take(tmp_path, "usual", letter(1, "A"), hours=-2)

    chosen = choose_snapshots([pruned, damaged, usual], nul_as_blank=True)

    assert chosen[0] == []
    assert [why for _, why in chosen[1]] == [
        "it was pruned",
        f"{manifest}: expected schema_version 1, found None",
        "nul_as_blank was off when it was taken",
    ]


def test_without_snapshots_there_are_no_messages() -> None:
    found = backtest(TODAY, PROPOSED, choose_snapshots([]))

    assert (found.treatments.messages, found.treatments.cells) == (0, ())
