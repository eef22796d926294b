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
from equality import expected, random_rows, random_table
from pyspark.sql import functions as F  # noqa: N812
from snapshot_builders import NOON, write_rows

import lookups
import plan_transforms
from evaluate_rules import Evaluation, evaluate
from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.model import PlannedMessage
from mqdlq.plan import plan_hash
from mqdlq.rules import RulesTable, parse
from snapshot_rows import Snapshot
from strategies import Bounds

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

WHOLE = bool(os.environ.get("MQDLQ_SPARK_EQUALITY"))
"""Whether to prove it at length: with 50 tables and 20,000 messages for each of them."""

TABLES, MESSAGES = (50, 20_000) if WHOLE else (2, 600)

STRATEGIES = {
    "the sample has everything": Bounds(),
    "combinations by Spark": Bounds(sample=64, share=1),
    "values in the driver": Bounds(sample=64, combinations=300),
    "values in the workers": Bounds(sample=64, combinations=8, values=4),
    "bits in Spark": Bounds(sample=64, combinations=300, treatments=1),
}


@cache
def asked_of_the_core(
    seed: int, *, nul_as_blank: bool
) -> tuple[RulesTable, list[dict[str, Any]], list[PlannedMessage]]:
    """Return a random table, random messages, and what the core makes of them."""
    table = random_table(seed, rules=(7, 70, 130)[seed % 3])
    rows = random_rows(seed, MESSAGES)
    return table, rows, list(expected(rows, table, nul_as_blank=nul_as_blank))


@pytest.mark.parametrize("bounds", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("seed", range(TABLES))
def test_a_plan_is_what_the_core_makes_of_each_message(
    tmp_path: Path, bounds: Bounds, seed: int
) -> None:
    nul_as_blank = seed % 2 == 1
    table, rows, wanted = asked_of_the_core(seed, nul_as_blank=nul_as_blank)
    snapshot = write_rows(str(tmp_path), rows, table, nul_as_blank=nul_as_blank)

    plan = evaluate(snapshot, plan=str(tmp_path / "plan"), explain=True, bounds=bounds)

    found = list(lake.planned_messages(str(tmp_path / "plan")))
    assert found == wanted
    assert plan.plan_hash == plan_hash(wanted)


def read_columns(frame: Any) -> set[str]:
    """Name the columns that the scans of a physical plan read from files."""
    physical = frame._jdf.queryExecution().executedPlan().toString()
    schemas = re.findall(r"ReadSchema: struct<([^>]*)>", physical)
    return {field.partition(":")[0] for schema in schemas for field in schema.split(",")}


@pytest.mark.parametrize("bounds", STRATEGIES.values(), ids=STRATEGIES)
def test_only_the_columns_the_rules_look_at_are_read(
    spark: Any, tmp_path: Path, bounds: Bounds
) -> None:
    """The bodies of the messages, which stand in payload/, are not even listed."""
    table = parse("REASON(2053) APPLNAME(A*) ACTION(FWD) FWDQ(&REPLYQ)\n")
    snapshot = write_rows(str(tmp_path), random_rows(1, 400), table)
    Path(snapshot, "payload").mkdir()
    Path(snapshot, "payload", "part-00000.parquet").write_bytes(b"no Parquet, and never opened")

    spark.conf.set("spark.sql.maxMetadataStringLength", 10_000)
    _, rows = Evaluation(spark, [Snapshot.at(snapshot)], table, bounds=bounds).plan_rows()

    assert read_columns(rows) == {
        "browse_seq", "message_key", "class", "dlh_reason", "put_appl_name", "reply_to_q"
    }  # fmt: skip
    assert len(rows.collect()) == 400


@pytest.mark.parametrize("files", [1, 1000])
def test_one_hot_combination_in_however_many_files(tmp_path: Path, files: int) -> None:
    table = random_table(4, 7)
    rows = [{**row, "browse_seq": n} for n, row in enumerate(random_rows(4, 1) * 1000)]
    directory = write_rows(str(tmp_path), rows, table, rows_to_a_group=1000 // files)
    if files > 1:
        whole = Path(directory, "headers", "part-00000.parquet")
        held = pq.read_table(whole)
        for number in range(files):
            pq.write_table(held.slice(number, 1), whole.with_name(f"part-{number:05d}.parquet"))

    plan = evaluate(directory, plan=str(tmp_path / "plan"), bounds=Bounds(sample=100))

    assert plan.plan_hash == plan_hash(expected(rows, table))


@pytest.mark.parametrize("in_order", [True, False])
def test_a_bucket_that_goes_on_in_another_partition_is_hashed_whole(
    spark: Any, tmp_path: Path, *, in_order: bool
) -> None:
    table = random_table(4, 7)
    rows = [{**row, "browse_seq": n} for n, row in enumerate(random_rows(4, 1) * 9000)]
    directory = write_rows(str(tmp_path), rows[:5000], table)
    end = write_rows(str(tmp_path), rows[5000:], table, snapshot_id="end")
    part = Path(end, "headers", "part-00000.parquet")
    part.rename(Path(directory, "headers", "part-00001.parquet"))

    _, planned = Evaluation(spark, [Snapshot.at(directory)], table).plan_rows()

    assert planned.rdd.getNumPartitions() == 2
    found = plan_transforms.plan_hash(planned, in_order=in_order)
    assert found == (plan_hash(expected(rows, table)), 9000)


def test_of_a_message_in_several_snapshots_the_newest_row_counts(tmp_path: Path) -> None:
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


def test_snapshots_of_different_rules_need_to_be_told_which(tmp_path: Path) -> None:
    both = [
        write_rows(str(tmp_path), random_rows(1, 3), random_table(n, 2), snapshot_id=f"s{n}")
        for n in (1, 2)
    ]

    with pytest.raises(LakeError) as caught:
        evaluate(*both, plan=str(tmp_path / "plan"))

    assert str(caught.value) == (
        "the snapshots were taken with 2 different rules tables; name one with --rules"
    )


def test_what_was_chosen_and_why_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = parse("REASON(5) APPLNAME(A*) ACTION(IGNORE)\n")
    rows = [{**row, "put_appl_name": f"A{n}"} for n, row in enumerate(random_rows(1, 400))]
    snapshot = write_rows(str(tmp_path), rows, table)

    evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=Bounds(sample=300, combinations=200))

    assert capsys.readouterr().out.splitlines()[1] == (
        "evaluate_rules: strategy values: 256 combinations in 256 of 400 messages, about 400 in"
        " all; dlh_reason in the driver, put_appl_name in the driver; 2 sets of rules decided in"
        " the driver"
    )


@pytest.mark.parametrize("name", ["combinations by Spark", "values in the driver"])
def test_keys_with_the_same_mark_are_not_taken_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(lookups, "fingerprint", lambda key: F.length(F.hash(*key).cast("string")))
    table, rows = random_table(8, 9), random_rows(8, 400)
    snapshot = write_rows(str(tmp_path), rows, table)

    plan = evaluate(snapshot, plan=str(tmp_path / "plan"), bounds=STRATEGIES[name])

    assert plan.plan_hash == plan_hash(expected(rows, table))
