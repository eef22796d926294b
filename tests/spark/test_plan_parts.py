"""Parts of a plan, as Spark's workers make them, without Spark."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.evaluation.decisions import MANY, TARGETS_TO_A_RULE, Decisions, columns_needed
from mqdlq.evaluation.plan_parts import (
    PlanPart,
    buckets_are_complete,
    counts_of,
    dispositions_of,
    hash_of,
)
from mqdlq.lake.plans import unfinished_messages
from mqdlq.lake.schema import HEADERS, PLAN
from mqdlq.rules import Pattern, parse
from tests.support.evaluation.equality import expected, random_rows, random_table
from tests.support.plan_hashes import plan_hash

NULLABLE = pa.schema([field.with_nullable(True) for field in HEADERS])


def batches_of(rows: list[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    """Return rows as they come to a worker."""
    named = [{**row, "queue_manager": "QM1", "queue": "DLQ", "snapshot_id": "s1"} for row in rows]
    names = [pa.field(name, pa.string()) for name in ("queue_manager", "queue", "snapshot_id")]
    whole = pa.RecordBatch.from_pylist(named, schema=pa.schema([*NULLABLE, *names]))
    return [whole.slice(start, size) for start in range(0, len(rows), size)]


@pytest.mark.parametrize(("size", "remembered"), [(9, 0), (40, 5), (40, 65_536), (200, 5)])
def test_a_plan_part_is_what_the_core_decides(tmp_path: Path, size: int, remembered: int) -> None:
    table, rows = random_table(5, 70), random_rows(5, 200)
    wanted = list(expected(rows, table))
    plan = str(tmp_path / "plan")
    lake.start_plan(plan)

    receipt = PlanPart(table, plan, explain=True, remembered=remembered)(batches_of(rows, size))

    lake.keep_attempts(plan, [receipt.file])
    assert list(unfinished_messages(plan)) == wanted
    assert hash_of([receipt]) == plan_hash(wanted)
    found = {name: number for name, number in dispositions_of([receipt]).items() if number}
    assert found == Counter(row.disposition.value for row in wanted)
    assert sum(count.messages for count in receipt.counts) == sum(1 for row in wanted if row.steps)


def test_one_of_two_attempts_at_a_part_is_kept(tmp_path: Path) -> None:
    table, rows = random_table(5, 7), random_rows(5, 40)
    plan = str(tmp_path / "plan")
    lake.start_plan(plan)
    part = PlanPart(table, plan)
    lost, counted = (part(batches_of(rows, 40)) for _ in range(2))

    lake.keep_attempts(plan, [counted.file])

    assert lost.file != counted.file
    assert [path.name for path in (tmp_path / "plan").iterdir()] == ["part-00000.parquet"]
    assert lake.count_planned(plan) == 40


def test_a_failed_attempt_at_a_part_leaves_no_file(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan")
    lake.start_plan(plan)
    first, second = batches_of(random_rows(5, 40), 20)

    with pytest.raises(KeyError):
        PlanPart(random_table(5, 7), plan)([first, second.drop_columns(["message_key"])])

    assert list((tmp_path / "plan" / "_attempts").iterdir()) == []


def test_readers_find_the_columns_of_a_plan(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan")
    lake.start_plan(plan)
    receipt = PlanPart(random_table(5, 7), plan)(batches_of(random_rows(5, 40), 20))
    lake.keep_attempts(plan, [receipt.file])

    found = pq.read_schema(f"{plan}/part-00000.parquet")

    kinds = [(field.name, field.type) for field in PLAN]
    assert [(field.name, field.type) for field in found] == kinds


def test_each_distinct_value_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[tuple[Any, Any]] = Counter()
    matches = Pattern.matches

    def counted(pattern: Pattern, value: str | int) -> bool:
        asked[pattern, value] += 1
        return matches(pattern, value)

    monkeypatch.setattr(Pattern, "matches", counted)
    table = parse("DESTQ(A*) REASON(5) ACTION(RETRY)\nDESTQ(*B*) ACTION(IGNORE)\n")
    row = {**random_rows(1, 1)[0], "class": "dead_letter"}
    rows = [{**row, "dlh_dest_q_name": ("AB", "B", "C")[n % 3], "dlh_reason": 5} for n in range(99)]

    decisions = Decisions(table)
    for batch in batches_of(rows, 10):
        decisions.numbers(batch.select(columns_needed(table)))

    assert len(asked) == 4
    assert set(asked.values()) == {1}


def test_the_messages_of_a_rule_with_many_targets_are_counted_as_one_number() -> None:
    """In whatever portions: what the driver takes in does not grow with the messages."""
    table = parse("REASON(1) ACTION(FWD) FWDQ(&REPLYQ)\nACTION(FWD) FWDQ(ONE)\n")
    row = {**random_rows(1, 1)[0], "class": "dead_letter"}
    rows = [
        {**row, "browse_seq": n, "reply_to_q": f"R{n}", "dlh_reason": int(n > 10)}
        for n in range(TARGETS_TO_A_RULE + 50)
    ]
    part = PlanPart(table, remembered=100)
    halves = [part(batches_of(half, 90)) for half in (rows[:500], rows[500:])]
    whole = part(batches_of(rows, 1000))

    for receipts in (halves, [whole]):
        told = [(count.rule, count.target_q, count.messages) for count in counts_of(receipts)]
        assert told == [(1, MANY, TARGETS_TO_A_RULE + 39), (2, "ONE", 11)]


def test_a_bucket_in_two_parts_is_not_complete() -> None:
    receipt = PlanPart(random_table(5, 7))(batches_of(random_rows(5, 40), 20))

    assert pickle.loads(pickle.dumps(receipt)) == receipt  # noqa: S301 (as from a worker)
    assert buckets_are_complete([receipt])
    assert not buckets_are_complete([receipt, receipt])


def test_equal_steps_are_stored_once_for_a_batch(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan")
    lake.start_plan(plan)
    row = {**random_rows(1, 1)[0], "class": "dead_letter"}
    rows = [{**row, "browse_seq": n, "reply_to_q": f"REPLIES.{n % 2}"} for n in range(1000)]

    receipt = PlanPart(parse("ACTION(FWD) FWDQ(&REPLYQ)"), plan)(batches_of(rows, 1000))

    lake.keep_attempts(plan, [receipt.file])
    first, second, third = list(unfinished_messages(plan))[:3]
    assert (first.steps, first.steps[0].target_q) == (third.steps, "REPLIES.0")
    assert second.steps[0].target_q == "REPLIES.1"
    group = pq.read_metadata(f"{plan}/part-00000.parquet").row_group(0)
    assert group.column(PLAN.names.index("steps")).total_uncompressed_size < 1000
