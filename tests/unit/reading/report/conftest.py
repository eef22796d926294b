from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from mqdlq.ledger import Ledger
from mqdlq.reading.report.building import Report, read_report
from mqdlq.reading.report.files import ReportFiles, write_report
from tests.unit.reading.report.ended_runs import ALL_WELL, START, EndedRun, failures, ledger_in

WRITTEN_AT = START + timedelta(seconds=50)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """Open a new ledger in its own state directory."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def lake_root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def report_of(ledger: Ledger, lake_root: str) -> Callable[..., Report]:
    """Record a run and read its report."""

    def read(run: EndedRun, stages: Mapping[str, str] = ALL_WELL, error: str = "") -> Report:
        run_id = run.record(ledger, lake_root)
        return read_report(
            run_id,
            ledger=ledger,
            lake_root=lake_root,
            stages=stages,
            failures=failures(stages, error),
            now=WRITTEN_AT,
        )

    return read


@pytest.fixture
def files_of(ledger: Ledger, lake_root: str) -> Callable[..., ReportFiles]:
    """Record a run, unless it was never recorded, and write its report."""

    def write(
        run: EndedRun,
        stages: Mapping[str, str] = ALL_WELL,
        error: str = "",
        *,
        recorded: bool = True,
    ) -> ReportFiles:
        if recorded:
            run.record(ledger, lake_root)
        return write_report(
            run.run_id,
            ledger=ledger,
            lake_root=lake_root,
            stages=stages,
            clock=lambda: WRITTEN_AT,
            failures=failures(stages, error),
        )

    return write
