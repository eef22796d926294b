"""Read everything that a report says of a run into one frozen `Report`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from mqdlq.controls.loops.report import return_rows
from mqdlq.controls.ramp.report import ramp_rows
from mqdlq.controls.repair.report import repair_rows
from mqdlq.failures import Failure, left_no_word
from mqdlq.ledger import Ledger, SinceSnapshot
from mqdlq.model import AttemptState
from mqdlq.reading.report.commands import with_commands
from mqdlq.reading.report.expiry import count_expired
from mqdlq.reading.report.grouping import Gathered, gather
from mqdlq.reading.report.needs_attention import GroupedMessages
from mqdlq.reading.report.report_records import Report, Resolution, RunFacts
from mqdlq.reading.report.report_sources import Sources, read_sources
from mqdlq.reading.report.rule_counts import rule_rows
from mqdlq.reading.report.verdict import account_of, is_untouched, judge
from mqdlq.words import count

STAGES = ("sense", "snapshot", "evaluate", "approve", "execute", "retry")


def read_report(
    run_id: str,
    *,
    ledger: Ledger,
    lake_root: str,
    stages: Mapping[str, str],
    failures: Sequence[Failure] = (),
    now: datetime,
    since: SinceSnapshot | None = None,
) -> Report:
    """Read everything there is to say of a run; a run nobody recorded has a report too.

    With `since`, the messages that need attention are those of today: later runs settled others.

    `lake_root` is where a plan is looked for that was never accepted.

    `stages` are the states of the stages before the report, as Airflow names them ("success",
    "failed", "upstream_failed", "skipped"); `failures` say why stages failed. A failed stage
    without a failure has left no word, and one that did not run because of it needs none.
    """
    stages = ordered(stages)
    sources = read_sources(run_id, ledger, lake_root)
    sources, gathered = gather(replace(sources, since=since or SinceSnapshot()), ledger)
    tally = gathered.tally()
    failures = all_failures(stages, failures)
    # A run that failed before it touched anything has nothing to account for.
    has_account = not (failures and is_untouched(sources, tally))
    account = account_of(sources, tally) if has_account else None
    verdict, headline, why = judge(sources, tally, account, stages, failures)
    attention, unaccounted = gathered.attention, gathered.unaccounted
    if sources.snapshot is not None and account is None:
        unaccounted = GroupedMessages()  # their causes are listed, and none is missing
    rules = rule_rows(gathered.rules, sources)
    listed, missing, states = attention.rows(), unaccounted.rows(), gathered.attempts
    return Report(
        verdict=verdict,
        headline=headline,
        why=why,
        run=_run_facts(run_id, sources, gathered),
        stages=stages,
        failures=failures,
        troubles=sources.troubles,
        snapshot=sources.snapshot,
        plan=sources.plan,
        account=account,
        rules=rules,
        failed_rules=gathered.rule_attempts.failed(rules, sources),
        causes=gathered.cause_groups(),
        needs_attention=attention.messages,
        attention_groups=with_commands(attention.groups(), sources.run),
        attention_messages=listed,
        without_outcome=unaccounted.messages,
        unaccounted_groups=with_commands(unaccounted.groups(), sources.run),
        unaccounted=missing,
        more=_more(run_id, attention.messages + unaccounted.messages, len(listed) + len(missing)),
        learned=tuple(ledger.outcomes.learned_counts(run_id)),
        oldest_left=gathered.oldest_left,
        timeline=gathered.timeline.points(),
        attempts={state: states[state] for state in AttemptState if states[state]},
        written_at=now,
        resolution=_resolution(gathered.resolution_s),
        expiry=gathered.expiry.result(count_expired(sources, ledger)),
        ramps=ramp_rows(sources.run, ledger, sources.settled_at),
        evidence=tuple(ledger.evidence.of_run(run_id)),
        returns=return_rows(sources.run, ledger),
        repairs=repair_rows(sources.run, ledger),
    )


def all_failures(stages: Mapping[str, str], failures: Sequence[Failure]) -> tuple[Failure, ...]:
    """Return why each failed stage failed, in the order of the run; `failures` are those known."""
    known = {failure.task: failure for failure in failures}
    states = ("failed", "upstream_failed")
    found = ([name for name in stages if stages[name] == state] for state in states)
    failed = next(filter(None, found), [])
    rest = [failure for failure in failures if failure.task not in stages]
    return (*(known.get(name) or left_no_word(name) for name in failed), *rest)


def _resolution(seconds: Sequence[float]) -> Resolution | None:
    """Return the median and the ninetieth percentile, each the time of one message."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Resolution(*(ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.9)))


def _more(run_id: str, messages: int, listed: int) -> str:
    """Say how many messages are counted and grouped, but not listed in full, and what lists all."""
    if listed >= messages:
        return ""
    rest = count(messages - listed, "message")
    return (
        f"{rest} more of {messages:,} {'is' if messages - listed == 1 else 'are'} counted here but"
        f" not listed: `mqdlq report {run_id} --needs-attention` lists all of them."
    )


def ordered(stages: Mapping[str, str]) -> dict[str, str]:
    """Return the states of stages in the order of a run."""
    return {name: str(stages[name] or "none") for name in sorted(stages, key=_place_in_the_run)}


def _place_in_the_run(stage: str) -> tuple[int, str]:
    return (STAGES.index(stage) if stage in STAGES else len(STAGES), stage)


def _run_facts(run_id: str, sources: Sources, gathered: Gathered) -> RunFacts:
    run = sources.run
    if run is None:
        return RunFacts(run_id)
    return RunFacts(
        run_id=run_id,
        handler=run.handler,
        dag_run_id=run.dag_run_id,
        run_type=run.run_type,
        dry_run=run.dry_run,
        queue_manager=run.queue_manager,
        queue=run.queue,
        rules_source=run.rules_source,
        rules_digest=run.rules_digest,
        retry_interval_s=run.retry_interval_s,
        wait_s=run.wait_s,
        started_by=run.started_by,
        why=run.why,
        started_at=run.started_at,
        ended_at=_last_fact(run.started_at, sources, gathered),
        message_keys=run.message_keys,
    )


def _last_fact(started_at: datetime, sources: Sources, gathered: Gathered) -> datetime:
    times = [started_at]
    times.extend([sources.snapshot.taken_at] if sources.snapshot else [])
    times.extend([sources.plan.accepted_at] if sources.plan and sources.plan.accepted_at else [])
    times.extend([sources.sighting.at] if sources.sighting else [])
    times.extend([gathered.last_at] if gathered.last_at else [])
    return max(times)
