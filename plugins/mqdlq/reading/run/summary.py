"""Summarize a run from the counts of the ledger, without reading its messages one by one.

The account and the verdict are made by the functions of the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mqdlq.controls.loops.report import ReturnRow, return_rows
from mqdlq.controls.ramp.report import RampRow, ramp_rows
from mqdlq.controls.repair.report import RepairRow, repair_rows
from mqdlq.errors import LakeError
from mqdlq.failures import Failure
from mqdlq.ledger import EvidenceCheck, LearnedCount, Ledger, RunCounts, TriedCount
from mqdlq.model import Action, AttemptState, Outcome, Trait, Verdict
from mqdlq.reading.filters import RowFilter
from mqdlq.reading.report.grouping import Timeline
from mqdlq.reading.report.report_files import failures_behind
from mqdlq.reading.report.report_records import (
    Account,
    FailedRule,
    RuleRow,
    TimelinePoint,
)
from mqdlq.reading.report.report_sources import NO_RULE, Sources, read_sources
from mqdlq.reading.report.rule_counts import rule_rows
from mqdlq.reading.report.verdict import Tally, account_of, judge
from mqdlq.reading.run.message_list import SnapshotMessages


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The verdict of a run, its account, and the counts behind them.

    With `is_reported`, verdict, headline and reason are those of the run's last report, which
    knows the states of its tasks; otherwise they follow from the ledger only. `failures` say when
    and why tasks failed: those behind the verdict, all of them without a report.
    """

    sources: Sources
    verdict: Verdict
    headline: str
    why: str
    failures: tuple[tuple[datetime, Failure], ...]
    is_reported: bool
    account: Account | None
    attention: int
    rules: tuple[RuleRow, ...]
    failed_rules: tuple[FailedRule, ...]
    timeline: tuple[TimelinePoint, ...]
    attempts: Mapping[AttemptState, int]
    learned: tuple[LearnedCount, ...]
    ramps: tuple[RampRow, ...]
    evidence: tuple[EvidenceCheck, ...]
    returns: tuple[ReturnRow, ...]
    repairs: tuple[RepairRow, ...]


def summarize_run(run_id: str, ledger: Ledger, lake_root: str) -> RunSummary:
    """Summarize a run that the ledger has; data missing in the lake is reported as troubles."""
    sources = read_sources(run_id, ledger, lake_root)
    counts = ledger.run_messages.counts(run_id)
    tally = _tally(sources, counts, _without_outcome(sources, counts, ledger))
    reported = ledger.accounts.verdict_of(run_id)
    behind = failures_behind(reported, ledger.runs.failures(run_id))
    has_account = reported is None or reported.adds_up is not None
    account = account_of(sources, tally) if has_account else None
    verdict, headline, why = judge(sources, tally, account, {})
    if reported is not None:
        verdict, headline, why = Verdict(reported.verdict), reported.headline, reported.why
    booked = {
        (how.rule, how.action, how.target_q, how.target_q_mgr, how.outcome): number
        for how, number in counts.booked.items()
    }
    rules = rule_rows(booked, sources)
    tried = ledger.run_messages.tried(run_id)
    return RunSummary(
        sources=sources,
        verdict=verdict,
        headline=headline,
        why=why,
        failures=tuple(behind),
        is_reported=reported is not None,
        account=account,
        attention=tally.attention,
        rules=rules,
        failed_rules=_failed(run_id, tried, rules, sources, ledger),
        timeline=_timeline(tried),
        attempts=_by_state(tried),
        learned=tuple(ledger.outcomes.learned_counts(run_id)),
        ramps=ramp_rows(sources.run, ledger, sources.settled_at),
        evidence=tuple(ledger.evidence.of_run(run_id)),
        returns=return_rows(sources.run, ledger),
        repairs=repair_rows(sources.run, ledger),
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
    booked: Counter[Outcome] = Counter()
    for how, number in counts.booked.items():
        booked[how.outcome] += number
    settled: Counter[Outcome] = Counter()
    for how, number in sources.settled.items():
        settled[how.outcome] += number
    open_ones = Outcome.having(Trait.NEEDS_ATTENTION)
    attention = sum(booked[one] - counts.known_since[one] + settled[one] for one in open_ones)
    named = sources.run.message_keys if sources.run is not None else ()
    full = sources.manifest.counts.full if sources.manifest is not None else counts.listed
    return Tally(
        booked=booked,
        missing=missing,
        full_rows=(counts.listed or len(missing)) if named else full,
        attention=attention - counts.only_dry_run.total(),
        only_dry_run=counts.only_dry_run,
    )


def _timeline(tried: Sequence[TriedCount]) -> tuple[TimelinePoint, ...]:
    if not tried:
        return ()
    timeline = Timeline((min(one.at for one in tried), max(one.at for one in tried)))
    for one in tried:
        timeline.add(one, one.attempts)
    return timeline.points()


def _by_state(tried: Sequence[TriedCount]) -> dict[AttemptState, int]:
    states: Counter[AttemptState] = Counter()
    for one in tried:
        states[one.state] += one.attempts
    return {state: states[state] for state in AttemptState if states[state]}


def _failed(
    run_id: str,
    tried: Sequence[TriedCount],
    rows: Sequence[RuleRow],
    sources: Sources,
    ledger: Ledger,
) -> tuple[FailedRule, ...]:
    """Return the rules and targets whose attempts all failed and that `rows` do not list."""
    listed = {(row.rule, row.action, row.target_q, row.target_q_mgr) for row in rows}
    reasons: dict[tuple[int, str, str, str], Counter[int]] = {}
    has_other = set()
    for one in tried:
        key = (one.rule, one.action.value, one.target_q, one.target_q_mgr)
        reasons.setdefault(key, Counter())[one.mqrc] += one.attempts
        if one.state is not AttemptState.FAILED:
            has_other.add(key)
    found = []
    for key in sorted(reasons.keys() - has_other - listed):
        rule, action, target_q, target_q_mgr = key
        written = sources.rules.get(rule, NO_RULE)
        found.append(
            FailedRule(
                rule=rule,
                line=written.line,
                text=written.text,
                action=Action(action),
                target_q=target_q,
                target_q_mgr=target_q_mgr,
                messages=ledger.run_messages.count_tried(run_id, rule, target_q, target_q_mgr),
                attempts=reasons[key].total(),
                reasons=dict(reasons[key].most_common()),
            )
        )
    return tuple(found)
