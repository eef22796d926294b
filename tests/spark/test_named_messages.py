"""The plan of a run for named messages covers these alone, whatever Spark's strategy."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.messages import Bounds, Strategy
from mqdlq.lake.schema import CHOSEN, FileDigest
from mqdlq.model import Action, Disposition, PlannedMessage, PutAuthority, Step
from mqdlq.rules import parse
from tests.spark.test_evaluate_rules import RULES, by_python, odd_rows
from tests.support.evaluation.snapshot_builders import dead_letter, no_dead_letter, write_rows
from tests.support.plan_hashes import plan_hash

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

OF_EACH_STRATEGY = pytest.mark.parametrize("strategy", Strategy)
AS_IT_IS = Step(1, 1, Action.FWD, "PARKED", "", True, PutAuthority.DEF, 1)


def hexes(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(row["message_key"].hex() for row in rows)


@OF_EACH_STRATEGY
def test_named_messages_are_planned_as_in_the_whole_plan(
    tmp_path: Path, strategy: Strategy
) -> None:
    rows = [{**row, "browse_seq": 500 * number} for number, row in enumerate(odd_rows())]
    named = [*rows[::7], next(row for row in rows if row["class"] != "dead_letter")]
    snapshot = write_rows(
        str(tmp_path), rows, parse(RULES), rows_to_a_group=9, message_keys=hexes(named)
    )

    description = evaluate(
        snapshot, plan=str(tmp_path / "plan"), bounds=Bounds(strategy=strategy, rows_to_a_task=20)
    )

    keys = {row["message_key"] for row in named}
    wanted = [row for row in by_python(rows, RULES) if row.message_key in keys]
    assert 1 < len(wanted) < len(rows)
    assert list(lake.planned_messages(str(tmp_path / "plan"))) == wanted
    assert (description.messages, description.plan_hash) == (len(wanted), plan_hash(wanted))
    assert sum(description.dispositions.values()) == len(wanted)


@OF_EACH_STRATEGY
def test_a_given_action_is_planned_for_every_class_of_message(
    tmp_path: Path, strategy: Strategy
) -> None:
    rows = [dead_letter(0), no_dead_letter(1), dead_letter(2)]
    action = parse("ACTION(FWD) FWDQ(PARKED) HEADER(NO)")
    snapshot = write_rows(
        str(tmp_path), rows, action, message_keys=hexes(rows[:2]), has_given_action=True
    )

    description = evaluate(
        snapshot, plan=str(tmp_path / "plan"), explain=True, bounds=Bounds(strategy=strategy)
    )

    assert list(lake.planned_messages(str(tmp_path / "plan"))) == [
        planned(rows[0], replace(AS_IT_IS, header=False)),
        planned(rows[1], AS_IT_IS),  # there is no MQDLH to be removed
    ]
    assert [count.messages for count in description.counts] == [2]


def planned(row: dict[str, Any], step: Step) -> PlannedMessage:
    return PlannedMessage(
        row["browse_seq"],
        row["message_key"],
        "QM1",
        "DLQ",
        Disposition.PLANNED,
        (step,),
        winning_rule=1,
    )


def test_a_table_that_reads_like_an_action_is_evaluated_as_a_table(tmp_path: Path) -> None:
    rows = [no_dead_letter(1)]
    table = parse("ACTION(FWD) FWDQ(PARKED)")
    snapshot = write_rows(str(tmp_path), rows, table, message_keys=hexes(rows))

    evaluate(snapshot, plan=str(tmp_path / "plan"))

    (found,) = lake.planned_messages(str(tmp_path / "plan"))
    assert (found.disposition, found.steps) == (Disposition.UNPROCESSABLE, ())


def test_changed_rules_are_evaluated_over_all_messages(tmp_path: Path) -> None:
    rows = [dead_letter(0), no_dead_letter(1)]
    (tmp_path / "new.rules").write_text("ACTION(DISCARD)\n")
    snapshot = write_rows(
        str(tmp_path),
        rows,
        parse("ACTION(FWD) FWDQ(PARKED)"),
        message_keys=hexes(rows[1:]),
        has_given_action=True,
    )

    description = evaluate(snapshot, plan=str(tmp_path / "plan"), rules=str(tmp_path / "new.rules"))

    assert description.dispositions == {"planned": 1, "unmatched": 0, "unprocessable": 1}


def test_a_lost_row_is_an_error_even_if_it_is_not_named(tmp_path: Path) -> None:
    rows = [dead_letter(0), dead_letter(1)]
    snapshot = write_rows(str(tmp_path), rows, parse(RULES), message_keys=hexes(rows[:1]))
    manifest = Path(snapshot, "_MANIFEST.json")
    manifest.write_text(manifest.read_text().replace('"messages": 2', '"messages": 3'))

    with pytest.raises(LakeError) as caught:
        evaluate(snapshot, plan=str(tmp_path / "plan"))

    assert str(caught.value) == (
        "snapshot s1 holds 2 messages, its manifest says 3; take a new snapshot [MQDLQ-408]"
    )


def choose(snapshot: Path, browse_seqs: list[int]) -> None:
    """Write the messages that the run of a snapshot is for, and the digests of its files."""
    headers, chosen = (snapshot / name / "part-00000.parquet" for name in ("headers", "chosen"))
    chosen.parent.mkdir()
    pq.write_table(pa.table([browse_seqs], schema=CHOSEN), chosen)
    files = {
        f"{file.parent.name}/{file.name}": FileDigest(
            file.stat().st_size, (sha256(file.read_bytes()).hexdigest(),)
        )
        for file in (headers, chosen)
    }
    manifest = replace(lake.read_manifest(str(snapshot)), files=files)
    (snapshot / "_MANIFEST.json").write_text(manifest.to_json())


@OF_EACH_STRATEGY
def test_chosen_messages_are_planned_as_in_the_whole_plan(
    tmp_path: Path, strategy: Strategy
) -> None:
    rows = [{**row, "browse_seq": number} for number, row in enumerate(odd_rows(), start=1)]
    chosen = [row for row in rows if row["browse_seq"] % 3]
    snapshot = write_rows(str(tmp_path), rows, parse(RULES), rows_to_a_group=9)
    choose(Path(snapshot), [row["browse_seq"] for row in chosen])

    evaluate(
        snapshot, plan=str(tmp_path / "plan"), bounds=Bounds(strategy=strategy, rows_to_a_task=20)
    )

    numbers = {row["browse_seq"] for row in chosen}
    wanted = [row for row in by_python(rows, RULES) if row.browse_seq in numbers]
    assert list(lake.planned_messages(str(tmp_path / "plan"))) == wanted
