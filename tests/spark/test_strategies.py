"""Every strategy finds what the core's matcher finds, whatever the data look like."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.decisions import columns_needed
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.evaluation.messages import (
    Bounds,
    Messages,
    Strategy,
    groups_in_order,
    partitioned_by_bucket,
    stretch_rows,
    stretches,
)
from mqdlq.lake import Snapshot
from mqdlq.lake.files import BLOCK
from mqdlq.model import PlannedMessage
from mqdlq.rules import RulesTable, parse, print_table
from tests.support.evaluation.equality import expected, random_rows, random_table
from tests.support.evaluation.snapshot_builders import (
    NOON,
    dead_letter,
    take_snapshot,
    write_rows,
)
from tests.support.plan_hashes import plan_hash

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

WHOLE = bool(os.environ.get("MQDLQ_SPARK_EQUALITY"))
"""Whether to prove it at length: with 50 tables and 20,000 messages for each of them."""

TABLES, MESSAGES = (50, 20_000) if WHOLE else (2, 600)

STRATEGIES = {
    "driver": Bounds(strategy=Strategy.DRIVER),
    "row groups": Bounds(strategy=Strategy.ROW_GROUPS),
    "row groups, many tasks, little memory": Bounds(
        strategy=Strategy.ROW_GROUPS, rows_to_a_task=100, remembered=8
    ),
    "rows": Bounds(strategy=Strategy.ROWS),
}


@cache
def asked_of_the_core(
    seed: int, *, nul_as_blank: bool
) -> tuple[RulesTable, list[dict[str, Any]], list[PlannedMessage]]:
    """Return a random table, random messages, and what the core makes of them."""
    table = random_table(seed, (7, 70, 130)[seed % 3], extensions=seed % 2 == 1)
    rows = random_rows(seed, MESSAGES)
    return table, rows, list(expected(rows, table, nul_as_blank=nul_as_blank))


@pytest.mark.parametrize("bounds", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("seed", range(TABLES))
def test_every_strategy_makes_the_plan_that_the_core_makes(
    tmp_path: Path, bounds: Bounds, seed: int
) -> None:
    nul_as_blank = seed % 2 == 1
    table, rows, wanted = asked_of_the_core(seed, nul_as_blank=nul_as_blank)
    snapshot = write_rows(str(tmp_path), rows, table, nul_as_blank=nul_as_blank)

    plan = evaluate(snapshot, plan=str(tmp_path / "plan"), explain=True, bounds=bounds)

    found = list(lake.planned_messages(str(tmp_path / "plan")))
    assert found == wanted
    assert plan.plan_hash == plan_hash(wanted)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_block_that_was_altered_is_not_evaluated(tmp_path: Path, strategy: Strategy) -> None:
    """The driver reads the footer, in the second block; workers read the rows of the first."""
    unique = {"message_key": 32, "msg_id": 24, "correl_id": 2400}  # many bytes in few rows
    rows = (
        {**dead_letter(1), "browse_seq": n, **{k: os.urandom(v) for k, v in unique.items()}}
        for n in range(2_000)
    )
    snapshot = take_snapshot(str(tmp_path), rows, "ACTION(RETRY)\n")
    part = Path(snapshot, "headers", "part-00000.parquet")
    assert part.stat().st_size > BLOCK
    data = bytearray(part.read_bytes())
    data[BLOCK // 2] ^= 1
    part.write_bytes(data)

    with pytest.raises(LakeError) as refused:
        evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=Bounds(strategy=strategy))

    assert str(refused.value) == (
        f"{part} was altered or damaged: its bytes 0 to {BLOCK} were changed; put the file back"
        " from a backup of the lake, or start a new run, which takes a new snapshot [MQDLQ-470]"
    )


def spoil(part: Path, but: set[str]) -> None:
    """Overwrite all columns of a Parquet file but these with bytes that no reader accepts."""
    metadata = pq.read_metadata(part)
    with part.open("r+b") as file:
        for number in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                column = metadata.row_group(number).column(place)
                if column.path_in_schema.partition(".")[0] not in but:
                    file.seek(column.dictionary_page_offset or column.data_page_offset)
                    file.write(b"\xff" * column.total_compressed_size)


@pytest.mark.parametrize("bounds", STRATEGIES.values(), ids=STRATEGIES)
def test_only_the_columns_the_rules_look_at_are_read(tmp_path: Path, bounds: Bounds) -> None:
    """Not a byte of another column, nor of the bodies in payload/, which are not Parquet here."""
    table = parse("REASON(2053) APPLNAME(A*) ACTION(FWD) FWDQ(&REPLYQ)\n")
    rows = random_rows(1, 400)
    snapshot = write_rows(str(tmp_path), rows, table)
    looked_at = {
        "browse_seq", "message_key", "class", "dlh_reason", "put_appl_name", "reply_to_q"
    }  # fmt: skip
    spoil(Path(snapshot, "headers", "part-00000.parquet"), but=looked_at)
    Path(snapshot, "payload").mkdir()
    Path(snapshot, "payload", "part-00000.parquet").write_bytes(b"no Parquet, and never opened")

    plan = evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=bounds)

    assert plan.plan_hash == plan_hash(expected(rows, table))


def test_sparks_physical_plan_scans_only_the_columns_of_the_rules(
    spark: Any, tmp_path: Path
) -> None:
    table = parse("REASON(2053) APPLNAME(A*) ACTION(FWD) FWDQ(&REPLYQ)\n")
    snapshot = Snapshot.at(write_rows(str(tmp_path), random_rows(1, 9), table))
    spark.conf.set("spark.sql.maxMetadataStringLength", 10_000)

    rows = partitioned_by_bucket(Messages("tests", [snapshot], columns_needed(table)).rows())

    physical = rows._jdf.queryExecution().executedPlan().toString()
    scanned = re.findall(r"ReadSchema: struct<([^>]*)>", physical)
    assert [sorted(field.partition(":")[0] for field in scan.split(",")) for scan in scanned] == [
        ["browse_seq", "class", "dlh_reason", "message_key", "put_appl_name", "reply_to_q"]
    ]


@pytest.mark.parametrize("files", [1, 100])
def test_a_frequent_combination_may_spread_over_many_files(tmp_path: Path, files: int) -> None:
    table = random_table(4, 7)
    rows = [{**row, "browse_seq": n} for n, row in enumerate(random_rows(4, 1) * 1000)]
    directory = write_rows(str(tmp_path), rows, table, rows_to_a_group=1000 // files)
    if files > 1:
        whole = Path(directory, "headers", "part-00000.parquet")
        held = pq.read_table(whole)
        for number in range(files):
            part = held.slice(number * len(held) // files, len(held) // files)
            pq.write_table(part, whole.with_name(f"part-{number:05d}.parquet"))

    plan = evaluate(directory, plan=str(tmp_path / "plan"), bounds=Bounds())

    assert plan.plan_hash == plan_hash(expected(rows, table))


def test_unordered_messages_are_sorted_by_browse_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither row groups that overlap nor rows out of order in one are taken as they come."""
    table = random_table(4, 7)
    rows = random_rows(4, 9000)
    within = Bounds(strategy=Strategy.ROW_GROUPS)
    wanted = plan_hash(expected(rows, table))
    for name, group in {"overlap": 256, "within": 9000}.items():
        mixed = rows[1::2] + rows[::2]
        snapshot = write_rows(str(tmp_path), mixed, table, snapshot_id=name, rows_to_a_group=group)

        plan = evaluate(snapshot, plan=str(tmp_path / f"plan-{name}"), bounds=within)

        assert plan.plan_hash == wanted
        found = list(lake.planned_messages(str(tmp_path / f"plan-{name}")))
        assert [row.browse_seq for row in found] == [row["browse_seq"] for row in rows]
    said = [line for line in capsys.readouterr().out.splitlines() if "strategy" in line]
    assert said == [
        "evaluate_rules: strategy rows: the snapshot's row groups are not in order",
        "evaluate_rules: strategy row groups: 9000 messages in 1 row groups in order",
        "evaluate_rules: strategy rows: the messages are not in browse order",
    ]


def test_a_bucket_that_spans_two_files_is_evaluated_in_one_task(tmp_path: Path) -> None:
    table = random_table(4, 7)
    rows = [{**row, "browse_seq": n} for n, row in enumerate(random_rows(4, 1) * 9000)]
    directory = write_rows(str(tmp_path), rows[:5000], table, rows_to_a_group=1000)
    end = write_rows(str(tmp_path), rows[5000:], table, snapshot_id="end", rows_to_a_group=1000)
    part = Path(end, "headers", "part-00000.parquet")
    part.rename(Path(directory, "headers", "part-00001.parquet"))
    groups = groups_in_order(Snapshot.at(directory).headers)
    assert groups is not None

    cut = stretches(groups, rows=1500)

    assert [(start, end) for start, end, _ in cut] == [(0, 4096), (4096, 9000)]
    read = [
        [seq for batch in stretch_rows(each, ["browse_seq"], {}) for seq in batch[0].to_pylist()]
        for each in cut
    ]
    assert read == [list(range(start, end)) for start, end, _ in cut]


def test_the_newest_row_of_a_message_counts_among_several_snapshots(tmp_path: Path) -> None:
    """As a backfill evaluates them: many snapshots at once, by rules of today."""
    rules = tmp_path / "today.rules"
    rules.write_text("REASON(1) ACTION(RETRY)\nREASON(2) ACTION(FWD) FWDQ(OTHER)\n")
    rows = random_rows(5, 30)
    for row in rows:
        row |= {"class": "dead_letter", "dlh_reason": 1}
    later = [{**row, "dlh_reason": 2} for row in rows[10:]]
    old, new = (
        write_rows(
            str(tmp_path), held, random_table(1, 2), snapshot_id=name, taken_at=NOON + timedelta(n)
        )
        for n, (name, held) in enumerate({"s1": rows, "s2": later}.items())
    )

    plan = evaluate(new, old, plan=str(tmp_path / "plan"), rules=str(rules))

    assert plan.snapshot_ids == ("s2", "s1")
    retried = sum(count.messages for count in plan.counts if count.action == "RETRY")
    assert (retried, plan.messages) == (10, 30)
    merged = [*rows[:10], *later]
    assert plan.plan_hash == plan_hash(expected(merged, parse(rules.read_text())))


def test_snapshots_of_different_rules_need_an_explicit_table(tmp_path: Path) -> None:
    both = [
        write_rows(str(tmp_path), random_rows(1, 3), random_table(n, 2), snapshot_id=f"s{n}")
        for n in (1, 2)
    ]

    with pytest.raises(LakeError) as caught:
        evaluate(*both, plan=str(tmp_path / "plan"))

    assert str(caught.value) == (
        "the snapshots were taken with 2 different rules tables; name one with --rules [MQDLQ-401]"
    )


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(), "driver: 400 messages are few"),
        (Bounds(in_driver=100), "row groups: 400 messages in 2 row groups in order"),
        (Bounds(strategy=Strategy.ROWS), "rows: as was asked for"),
    ],
)
def test_the_evaluation_reports_its_strategy_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bounds: Bounds, said: str
) -> None:
    snapshot = write_rows(str(tmp_path), random_rows(1, 400), parse("ACTION(IGNORE)\n"))

    evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=bounds)

    assert capsys.readouterr().out.splitlines()[1] == f"evaluate_rules: strategy {said}"


def test_two_queues_may_have_snapshots_of_the_same_name(tmp_path: Path) -> None:
    """Also where a queue's name holds what paths cannot."""
    table = parse("REASON(1) ACTION(RETRY)\nREASON(2) ACTION(IGNORE)\n")
    rules = tmp_path / "both.rules"
    rules.write_text(print_table(table))
    own = {"A/B%C": 1, "D E": 2}
    snapshots = [
        write_rows(
            str(tmp_path),
            [{**row, "class": "dead_letter", "dlh_reason": reason} for row in random_rows(3, 5)],
            table,
            queue=queue,
        )
        for queue, reason in own.items()
    ]

    evaluate(*snapshots, plan=str(tmp_path / "plan"), rules=str(rules))

    found = [
        (row.queue, row.steps[0].rule) for row in lake.planned_messages(str(tmp_path / "plan"))
    ]
    assert sorted(found) == [("A/B%C", 1)] * 5 + [("D E", 2)] * 5
