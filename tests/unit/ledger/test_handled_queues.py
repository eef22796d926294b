"""Test that the queues of a handler and their newest runs are found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import TakenSnapshot
from mqdlq.model import GIVEN_ACTION
from tests.support.run_records import NOON, run_record


def record(ledger: Ledger, run_id: str, hours: int, **changes: Any) -> None:
    at = NOON + timedelta(hours=hours)
    ledger.runs.record(run_record(run_id=run_id, started_at=at, **changes))
    ledger.snapshots.record(TakenSnapshot(run_id, f"s-{run_id}", f"/lake/{run_id}", 1, at))


def test_queues_are_in_the_order_of_their_last_runs(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        record(ledger, "a", 0, queue="DLQ")
        record(ledger, "b", 2, queue="DLQ")
        record(ledger, "c", 1, queue_manager="QM2")
        record(ledger, "d", 3, handler="other")

        found = ledger.handled_queues.of_handler("demo")

        assert found == [("QM1", "DLQ"), ("QM2", "DLQ")]
        assert ledger.handled_queues.of_handler("nobody") == []


def test_the_newest_run_is_one_for_all_messages_with_the_table(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        record(ledger, "whole", 0, dry_run=True)
        record(ledger, "named", 1, message_keys=("ab" * 32,))
        record(ledger, "given", 2, rules_source=GIVEN_ACTION)
        record(ledger, "backfill", 3, run_type="backfill")
        record(ledger, "elsewhere", 4, queue="OTHER")

        found = ledger.handled_queues.newest_run("demo", "QM1", "DLQ")
        snapshot = ledger.handled_queues.newest_snapshot("demo", "QM1", "DLQ")

        assert found is not None
        assert snapshot is not None
        assert (found.run_id, snapshot.run_id) == ("whole", "whole")
        assert ledger.handled_queues.newest_run("demo", "QM1", "NONE") is None


def test_the_newest_snapshots_of_a_period_are_found_without_pruned_ones(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        for number in range(5):
            record(ledger, str(number), number)
        ledger.snapshots.record_pruned(["s-3"], NOON)

        def found(**period: Any) -> list[str]:
            taken = ledger.handled_queues.snapshots("demo", "QM1", "DLQ", **period)
            return [one.run_id for one in taken]

        assert found(limit=2) == ["4", "2"]
        assert found(limit=9, since=NOON + timedelta(hours=1)) == ["4", "2", "1"]
        assert found(limit=9, until=NOON + timedelta(hours=2)) == ["1", "0"]
