"""Snapshots with compact rows: other rules, or several snapshots, are asked of settled messages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.applications import compare_rules
from mqdlq.evaluation.differences import Treatments, compare, treatments_in
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.lake import Snapshot
from mqdlq.lake.snapshots import MANIFEST
from mqdlq.lake.storage import remove_directory
from mqdlq.rules import parse
from tests.support.evaluation.snapshot_builders import (
    NOON,
    dead_letter,
    no_dead_letter,
    write_compact,
    write_rows,
)

pytestmark = pytest.mark.spark

OLD = parse("DESTQ(GONE) ACTION(IGNORE)\nDESTQ(PAY) ACTION(RETRY)\nREASON(9) ACTION(RETRY)\n")
NEW = parse("DESTQ(GONE) ACTION(FWD) FWDQ(&REPLYQ)\nDESTQ(PAY) ACTION(RETRY)\n")


def compact_lake(root: Path) -> tuple[str, str]:
    """Write a full snapshot and a later one in which messages of it are settled, twins too."""
    place = str(root / "lake")
    gone = [dead_letter(n, dlh_dest_q_name="GONE", reply_to_q=f"R{n}") for n in (1, 2, 3)]
    stray = no_dead_letter(4)
    first = write_rows(place, [*gone, stray, {**gone[0], "browse_seq": 5}], OLD, snapshot_id="s1")
    second = write_compact(
        place,
        [dead_letter(6, dlh_dest_q_name="PAY"), dead_letter(7, dlh_dest_q_name="GONE")],
        [(1, gone[1], "s1"), (2, gone[0], "s1"), (4, gone[0], "s1"), (5, stray, "s1")],
        OLD,
        snapshot_id="s2",
        taken_at=NOON + timedelta(hours=1),
    )
    return first, second


def compared(*directories: str) -> Treatments:
    """Compare in Python and in this test's Spark session, which must find the same."""
    stored = [Snapshot.at(place) for place in directories]

    def submit(_: Path, arguments: list[str], __: int) -> int:
        return compare_rules.main(arguments)

    here = treatments_in(OLD, NEW, stored, None)
    assert treatments_in(OLD, NEW, stored, submit) == here
    return here


@pytest.mark.usefixtures("spark")
def test_spark_and_python_compare_tables_alike_over_settled_messages(tmp_path: Path) -> None:
    first, second = compact_lake(tmp_path)

    alone = compared(second)
    (cell,) = alone.cells
    places = [("s2", 1), ("s2", 2), ("s2", 4), ("s2", 7)]
    assert (alone.messages, cell.messages) == (6, 4)
    assert [sample[:2] for sample in cell.samples] == places

    together = compared(first, second)
    (cell,) = together.cells
    assert (together.messages, cell.messages) == (7, 5)  # what s1 alone has, and all of s2
    assert [sample[:2] for sample in cell.samples] == [("s1", 3), *places]


@pytest.mark.usefixtures("spark")
def test_changed_rules_are_evaluated_over_settled_messages_too(tmp_path: Path) -> None:
    _, second = compact_lake(tmp_path)
    rules = tmp_path / "new.rules"
    rules.write_text("ACTION(FWD) FWDQ(&REPLYQ)\n", encoding="utf-8")

    own = evaluate(second, plan=str(tmp_path / "plans" / "own"))
    asked = evaluate(second, plan=str(tmp_path / "plans" / "other"), rules=str(rules))

    assert own.dispositions == {"planned": 2, "unmatched": 0, "unprocessable": 0}
    assert asked.dispositions == {"planned": 5, "unmatched": 0, "unprocessable": 1}
    targets = {
        message.browse_seq: message.steps[0].target_q
        for message in lake.planned_messages(str(tmp_path / "plans" / "other"))
        if message.steps
    }
    assert targets == {1: "R2", 2: "R1", 4: "R1", 6: "", 7: ""}


@pytest.mark.usefixtures("spark")
def test_a_missing_full_row_is_one_clear_error(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    held, lost = dead_letter(1, dlh_dest_q_name="GONE"), dead_letter(2, dlh_dest_q_name="GONE")
    first = write_rows(place, [held], OLD, snapshot_id="s1")
    settled = [(1, held, "s1"), (2, lost, "s1")]
    snapshot = Snapshot.at(write_compact(place, [], settled, OLD, snapshot_id="s2"))

    with pytest.raises(LakeError) as error:
        compare([snapshot], OLD, NEW)
    assert str(error.value) == (
        "s1 lacks 1 messages that snapshot s2 refers to; take a full snapshot [MQDLQ-405]"
    )

    remove_directory(first, MANIFEST)
    with pytest.raises(LakeError, match=r"is not a snapshot, as it has no _MANIFEST\.json"):
        compare([snapshot], OLD, NEW)
