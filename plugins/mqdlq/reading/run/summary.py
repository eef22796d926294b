"""Summarize a run from the counts of the ledger, without reading its messages one by one.

The account and the verdict are made by the functions of the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mqdlq.errors import LakeError
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.run_messages import RunCounts
from mqdlq.model import Outcome, Trait, Verdict
from mqdlq.reading.filters import RowFilter
from mqdlq.reading.report.report_files import failures_behind
from mqdlq.reading.report.report_records import RunReading
from mqdlq.reading.report.report_sources import Sources, read_sources
from mqdlq.reading.report.run_reading import read_run
from mqdlq.reading.report.verdict import Tally, account_of, judge
from mqdlq.reading.run.message_list import SnapshotMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(RunReading):
    """A run as its page shows it.

    With `is_reported`, verdict, headline and reason are those of the run's last report, which
    knows the states of its tasks; otherwise they follow from the ledger only. `failures` say when
    and why tasks failed: those behind the verdict, all of them without a report.
    """

    sources: Sources
    failures: tuple[tuple[datetime, Failure], ...]
    is_reported: bool
    attention: int


def summarize_run(run_id: str, ledger: Ledger, lake_root: str) -> RunSummary:
    """Summarize a run that the ledger has; data missing in the lake is reported as troubles."""
    sources = read_sources(run_id, ledger, lake_root)
    counts = ledger.run_messages.counts(run_id)
    tally = _tally(sources, counts, _without_outcome(sources, counts, ledger))
    reported = ledger.accounts.verdict_of(run_id)
    has_account = reported is None or reported.adds_up is not None
    account = account_of(sources, tally) if has_account else None
    judgement = judge(sources, tally, account, {})
    if reported is not None:
        judgement = Verdict(reported.verdict), reported.headline, reported.why
    reading = read_run(run_id, sources, counts, judgement, account, ledger=ledger)
    return RunSummary(
        **reading.reading(),
        sources=sources,
        failures=tuple(failures_behind(reported, ledger.runs.failures(run_id))),
        is_reported=reported is not None,
        attention=tally.attention,
    )


def _without_outcome(sources: Sources, counts: RunCounts, ledger: Ledger) -> Sequence[int]:
    """Return the browse_seqs of the messages without an outcome, as far as they can be read."""
    if sources.run is None or sources.snapshot is None:
        return ()
    if counts.listed:
        return ledger.run_messages.unbooked(sources.run.run_id) if counts.unbooked else ()
    if sources.manifest is None:
        return ()
    try:
        snapshot = SnapshotMessages(sources.snapshot.location, sources.manifest)
        return snapshot.full_rows(RowFilter(), sources.run.named)
    except (LakeError, OSError):
        return ()


def _tally(sources: Sources, counts: RunCounts, missing: Sequence[int]) -> Tally:
    booked = counts.outcomes
    settled: Counter[Outcome] = Counter()
    for how, number in sources.settled.items():
        settled[how.outcome] += number
    open_ones = Outcome.having(Trait.NEEDS_ATTENTION)
    attention = sum(booked[one] - counts.known_since[one] + settled[one] for one in open_ones)
    named = sources.run.message_keys if sources.run is not None else ()
    full = sources.manifest.full if sources.manifest is not None else counts.listed
    return Tally(
        booked=booked,
        missing=missing,
        full_rows=(counts.listed or len(missing)) if named else full,
        attention=attention - counts.only_dry_run.total(),
        only_dry_run=counts.only_dry_run,
    )
