"""Read everything that a report says of a run into one frozen `Report`.

All messages are counted and grouped while they are read once.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from mqdlq.causes import CauseCounter, CountedCause, find_cause
from mqdlq.failures import Failure, left_no_word
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.model import DEPARTED, MessageClass
from mqdlq.reading.report.commands import with_commands
from mqdlq.reading.report.expiry import ExpiryForecast, Horizon, count_expired, find_horizon
from mqdlq.reading.report.needs_attention import GroupedMessages, message_row, needs_attention
from mqdlq.reading.report.records import CauseGroup, MessageRow, Report, Resolution
from mqdlq.reading.run import Sources, account_of, is_untouched, judge, read_run, read_sources
from mqdlq.reading.run_messages import Message, UnreadableError, messages_of
from mqdlq.words import count

STAGES: Final = ("sense", "snapshot", "evaluate", "approve", "execute", "retry")


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
    failures = all_failures(stages, failures)
    # A run that failed before it touched anything has nothing to account for.
    has_account = not (failures and is_untouched(sources, counts))
    attention, unaccounted = gathered.attention, gathered.unaccounted
    account = account_of(sources, counts, unaccounted.browse_seqs) if has_account else None
    judgement = judge(sources, counts, account, stages, failures, attention=attention.messages)
    reading = read_run(run_id, sources, counts, judgement, account, ledger=ledger)
    if sources.snapshot is not None and account is None:
        unaccounted = GroupedMessages()  # their causes are listed, and none is missing
    listed, missing = attention.rows(), unaccounted.rows()
    return Report(
        **reading.reading(),
        run_id=run_id,
        run=sources.run,
        ended_at=_last_fact(sources, counts.last_at),
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
    return {name: str(stages[name] or "none") for name in sorted(stages, key=_place_in_the_run)}


def _place_in_the_run(stage: str) -> tuple[int, str]:
    return (STAGES.index(stage) if stage in STAGES else len(STAGES), stage)


def _last_fact(sources: Sources, last_outcome: datetime | None) -> datetime | None:
    run, snapshot, plan, sighting = sources.run, sources.snapshot, sources.plan, sources.sighting
    times = (
        run.started_at if run else None,
        snapshot.taken_at if snapshot else None,
        plan.accepted_at if plan else None,
        sighting.at if sighting else None,
        sources.attempted[1] if sources.attempted else None,
        last_outcome,
    )
    return max((at for at in times if at is not None), default=None)


# The messages, counted and grouped one by one.


def _cause_group(counted: CountedCause) -> CauseGroup:
    cause = counted.cause
    return CauseGroup(
        cause_id=cause.cause_id,
        reason=cause.reason,
        reason_text=cause.reason_text,
        meaning=cause.meaning,
        kind=cause.kind.value,
        dest_q_name=cause.dest_q_name,
        dest_q_mgr_name=cause.dest_q_mgr_name,
        queues=counted.queues or 0,
        messages=counted.messages,
        outcomes=dict(counted.outcomes),
        first_at=counted.first_at,
        last_at=counted.last_at,
    )


class Gathered:
    """The messages of a run, counted and grouped one by one; handled messages are not kept.

    `full_rows` counts the snapshot's full rows. `attention` has the messages that need attention,
    `unaccounted` the messages without an outcome.
    `resolution_s` has the seconds from arrival to departure of each message that departed.
    """

    def __init__(self, horizon: Horizon | None = None) -> None:
        """Take in nothing yet; `horizon` is that of the forecast of expiry."""
        self.expiry = ExpiryForecast(horizon)
        self.causes = CauseCounter()
        self.attention = GroupedMessages()
        self.unaccounted = GroupedMessages()
        self.resolution_s = array("d")
        self.full_rows = 0
        self.oldest_left: datetime | None = None

    def add(self, message: Message, sources: Sources) -> None:
        fact = message.outcome
        self.full_rows += message.cls is not None and not message.is_settled
        if message.cls is MessageClass.DEAD_LETTER:
            names = (message.dest_q_name, message.dest_q_mgr_name)
            cause = find_cause(message.cls, message.reason, *names)
            self.causes.add(cause, names[0], message.since, fact.outcome if fact else None)
        if not (message.is_known_since or (fact is not None and fact.outcome in DEPARTED)):
            self._keep_times(message)
        if needs_attention(message):
            self.attention.add(message_row(message, sources))
        if message.was_left_before:
            return
        if fact is None:
            self.unaccounted.add(message_row(message, sources))
        elif fact.outcome in DEPARTED and message.since is not None:
            self.resolution_s.append((fact.at - message.since).total_seconds())

    def _keep_times(self, message: Message) -> None:
        """Take in a message that remains on the queue."""
        self.expiry.add(message)
        if message.since is not None:
            self.oldest_left = min(self.oldest_left or message.since, message.since)

    def cause_groups(self) -> tuple[CauseGroup, ...]:
        """Return the dead letters by cause, the largest group first, other destinations last."""
        return tuple(_cause_group(counted) for counted in self.causes.counted())


def gather(sources: Sources, ledger: Ledger) -> tuple[Sources, Gathered]:
    """Read all messages of a run once; data missing in the lake is reported in `troubles`."""
    horizon = find_horizon(sources, ledger)
    may = {"lake": True, "settled": True}
    while True:
        gathered = Gathered(horizon)
        try:
            for message in _as_of_today(messages_of(sources, ledger, **may), sources):
                gathered.add(message, sources)
        except UnreadableError as error:
            may["settled" if error.is_of_settled else "lake"] = False
            if not error.is_of_settled:
                sources = replace(sources, manifest=None)
            sources = replace(sources, troubles=(*sources.troubles, str(error)))
        else:
            break
    has_all = not sources.is_for_named  # else the messages that are not named are left out
    if has_all and sources.manifest is not None and sources.snapshot is not None:
        held, recorded = gathered.full_rows + sources.manifest.settled, sources.snapshot.messages
        if held != recorded:
            trouble = f"the snapshot holds {held} messages, the ledger says {recorded}"
            sources = replace(sources, troubles=(*sources.troubles, trouble))
    return sources, gathered


def _as_of_today(messages: Iterator[Message], sources: Sources) -> Iterator[Message]:
    """Mark the messages that later runs settled, and leave out those without an outcome."""
    if not sources.since.by_key:
        yield from messages
        return
    since = sources.since.reader()
    for message in messages:
        later = since.take(bytes.fromhex(message.message_key))
        if later is None or later.needs_attention:
            yield message
        elif message.outcome is not None:
            yield replace(message, is_known_since=True)


def rows_needing_attention(sources: Sources, ledger: Ledger) -> Iterator[MessageRow]:
    """Yield every message that needs attention or has no outcome, one after another.

    Raises UnreadableError where the snapshot cannot be read to its end.
    """
    for message in messages_of(sources, ledger):
        if message.outcome is None or needs_attention(message):
            yield message_row(message, sources)
