from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from mqdlq.ledger import Ledger
from mqdlq.reading.outcome_files import OUTCOMES, export_outcomes
from tests.unit.reading.report.ended_runs import EndedRun, delivered, left_by_rule


def test_every_outcome_of_every_run_is_exported_with_its_message(
    ledger: Ledger, lake_root: str, tmp_path: Path
) -> None:
    run_id = EndedRun([delivered(), left_by_rule()]).record(ledger, lake_root)

    count = export_outcomes(ledger, str(tmp_path / "history"))

    table = pq.read_table(tmp_path / "history" / "outcomes.parquet")
    rows = table.to_pylist()
    assert (count, table.schema) == (2, OUTCOMES)
    assert {(row["run_id"], row["outcome"]) for row in rows} == {
        (run_id, "delivered"),
        (run_id, "left_by_rule"),
    }
    assert {len(row["message_key"]) for row in rows} == {32}


def test_each_export_replaces_the_one_before(ledger: Ledger, tmp_path: Path) -> None:
    for _ in range(2):
        export_outcomes(ledger, str(tmp_path))

    assert pq.read_table(tmp_path / "outcomes.parquet").num_rows == 0
