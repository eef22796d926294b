"""Read everything that a report says of a run into one frozen `Report`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime

from mqdlq.failures import Failure, left_no_word
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.reading.report.commands import with_commands
from mqdlq.reading.report.expiry import count_expired
from mqdlq.reading.report.grouping import gather
from mqdlq.reading.report.needs_attention import GroupedMessages
from mqdlq.reading.report.report_records import Report, Resolution, RunFacts
from mqdlq.reading.report.report_sources import Sources, read_sources
from mqdlq.reading.report.run_reading import read_run
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
    counts = ledger.run_messages.counts(run_id)
    tally = gathered.tally(counts)
    failures = all_failures(stages, failures)
    # A run that failed before it touched anything has nothing to account for.
    has_account = not (failures and is_untouched(sources, tally))
    account = account_of(sources, tally) if has_account else None
    judgement = judge(sources, tally, account, stages, failures)
    reading = read_run(run_id, sources, counts, judgement, account, ledger=ledger)
    attention, unaccounted = gathered.attention, gathered.unaccounted
    if sources.snapshot is not None and account is None:
        unaccounted = GroupedMessages()  # their causes are listed, and none is missing
    listed, missing = attention.rows(), unaccounted.rows()
    return Report(
        **reading.reading(),
        run=_run_facts(run_id, sources, counts.last_at, ledger),
        stages=stages,
        failures=failures,
        troubles=sources.troubles,
        snapshot=sources.snapshot,
        plan=sources.plan,
        causes=gathered.cause_groups(),
        needs_attention=attention.messages,
        attention_groups=with_commands(attention.groups(), sources.run),
        attention_messages=listed,
        without_outcome=unaccounted.messages,
        unaccounted_groups=with_commands(unaccounted.groups(), sources.run),
        unaccounted=missing,
        more=_more(run_id, attention.messages + unaccounted.messages, len(listed) + len(missing)),
        oldest_left=gathered.oldest_left,
        written_at=now,
        resolution=_resolution(gathered.resolution_s),
        expiry=gathered.expiry.result(count_expired(sources, ledger)),
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


def _run_facts(
    run_id: str, sources: Sources, last_outcome: datetime | None, ledger: Ledger
) -> RunFacts:
    run = sources.run
    if run is None:
        return RunFacts(run_id)
    names = {field.name for field in fields(RunFacts)} - {"ended_at"}
    attempted = ledger.attempts.between(run_id)
    ended_at = _last_fact(run.started_at, sources, (last_outcome, attempted and attempted[1]))
    return RunFacts(**{name: getattr(run, name) for name in names}, ended_at=ended_at)


def _last_fact(
    started_at: datetime, sources: Sources, others: Iterable[datetime | None]
) -> datetime:
    snapshot, plan, sighting = sources.snapshot, sources.plan, sources.sighting
    times = (
        snapshot.taken_at if snapshot else None,
        plan.accepted_at if plan else None,
        sighting.at if sighting else None,
        *others,
    )
    return max([started_at, *(at for at in times if at is not None)])
