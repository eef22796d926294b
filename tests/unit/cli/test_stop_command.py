"""Test `mqdlq stop`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq import directories
from mqdlq.cli import app, stop
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Sighting
from tests.support.run_records import NOON, run_record
from tests.support.world import create_ledger


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    file = tmp_path / "ledger.db"
    monkeypatch.setenv("MQDLQ_LEDGER_URL", f"sqlite:///{file}")
    monkeypatch.setattr(stop, "now", lambda: NOON)
    create_ledger(file)
    with open_ledger(f"sqlite:///{file}") as ledger:
        yield ledger


def mqdlq(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["stop", *arguments])


def test_a_handler_with_one_run_in_progress_names_it(ledger: Ledger) -> None:
    ledger.runs.record(run_record())

    done = mqdlq("demo", "--why", "ticket 4711")

    who = directories.account()
    asked = f"{who} asked the run at 2026-11-21 12:00:00 UTC to stop after its unit: ticket 4711"
    assert (done.exit_code, done.output) == (0, f"demo-1: {asked}\n")
    found = ledger.audit.stop_of("demo-1")
    assert found is not None
    assert (found.who, found.why) == (who, "ticket 4711")


def test_of_several_runs_one_must_be_named(ledger: Ledger) -> None:
    for name in ("demo-1", "demo-2"):
        ledger.runs.record(run_record(run_id=name))

    done = mqdlq("demo")

    assert done.exit_code == 2
    assert "demo-1" in done.output
    assert "demo-2" in done.output
    assert mqdlq("demo-2").exit_code == 0
    assert ledger.audit.stop_of("demo-1") is None


def test_a_run_that_has_ended_is_not_in_progress(ledger: Ledger) -> None:
    ledger.runs.record(run_record())
    ledger.accounts.record("demo-1", Sighting(0, 0, 0, 0, NOON))

    assert mqdlq("demo").exit_code == 2
    named = mqdlq("demo-1")
    assert named.exit_code == 1
    assert "run demo-1 has ended at 2026-11-21 12:00:00 UTC" in named.output
