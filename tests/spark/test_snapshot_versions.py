"""Spark reads snapshots as documented, and evaluates those of the first release."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.directories import PROJECT
from mqdlq.evaluation.evaluate import evaluate
from mqdlq.lake.schema import HEADERS
from tests.support.evaluation.snapshot_builders import dead_letter, take_snapshot

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

VERSION_1 = PROJECT / "tests" / "corpus" / "snapshots" / "version-1"


def test_a_snapshot_of_the_first_version_is_still_evaluated(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / "s1"
    shutil.copytree(VERSION_1, snapshot)

    plan = evaluate(str(snapshot), plan=lake.plan_directory(str(tmp_path), "old"))

    assert plan.dispositions == {"planned": 2, "unmatched": 1, "unprocessable": 1}
    assert [(count.action, count.target_q) for count in plan.counts] == [
        ("RETRY", "ORDERS"),
        ("FWD", "REPLIES"),
    ]


def test_settled_messages_of_the_first_version_are_still_evaluated(tmp_path: Path) -> None:
    for name in ("version-1", "version-1-settled"):
        shutil.copytree(VERSION_1.with_name(name), tmp_path / "QM" / "Q" / name)
    rules = tmp_path / "new.rules"
    rules.write_text("DESTQ(GONE) ACTION(RETRY)\n", encoding="utf-8")

    plan = evaluate(
        str(tmp_path / "QM" / "Q" / "version-1-settled"),
        plan=lake.plan_directory(str(tmp_path), "new"),
        rules=str(rules),
    )

    assert plan.dispositions == {"planned": 0, "unmatched": 3, "unprocessable": 1}


def test_spark_reads_the_documented_columns(spark: Any, tmp_path: Path) -> None:
    directory = take_snapshot(str(tmp_path), [dead_letter(1, expiry=600)], "ACTION(RETRY)\n")

    found = spark.read.parquet(f"{directory}/headers")

    assert found.columns == HEADERS.names
    kinds = dict(found.dtypes)
    assert [kinds[name] for name in ("browse_seq", "msg_id", "expires_at", "header_chain")] == [
        "bigint",
        "binary",
        "timestamp",
        "array<string>",
    ]
    assert found.first()["class"] == "dead_letter"
