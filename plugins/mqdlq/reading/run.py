"""Read one run: its sources in ledger and lake, what its rules did, its account and verdict.

Report and page say the same of a run, because both read it here, by counts of the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import pyarrow as pa

from mqdlq.causes import generalize
from mqdlq.constants import reason_text
from mqdlq.controls.evidence.report import evidence_in_words
from mqdlq.controls.loops.round_trips import return_in_words, return_rows
from mqdlq.controls.ramp.report import ramp_in_words, ramp_rows
from mqdlq.controls.repair.changes import repair_in_words, repair_rows
from mqdlq.errors import LakeError
from mqdlq.failures import Failure
from mqdlq.lake import (
    SnapshotManifest,
    find_plan,
    plan_directory,
    plan_id,
    read_manifest,
    settled_rows,
)
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.ledger.reading.run_messages import AttemptCount, RunCounts
from mqdlq.ledger.tables import Ending, Look, RecordedVerdict, Run, Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Action, AttemptState, Outcome, Trait, Verdict
from mqdlq.reading.report.records import Account, FailedRule, PlanFacts, RuleRow, RunReading
from mqdlq.rules import check
from mqdlq.words import count, moment, numbers

_HOW: Final = ["outcome", "rule", "action", "target_q", "target_q_mgr"]
SNAPSHOT_UNREADABLE: Final = "the snapshot cannot be read"


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as the run's table has it: the line its entry begins on, and its text."""

    line: int
    text: str


NO_RULE: Final = WrittenRule(0, "")
"""Stands for a rule that the run's table does not have."""

Cell = tuple[int, str, str, str]
"""Rule, action and target: the queue, and its queue manager."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The facts a report is made from, except the messages; `rules` are by ordinal.

    `settled` counts the settled messages by ending: as the run booked them or, before it did, as
    the earlier runs did. `manifest` is None if the snapshot cannot be read.
    """

    run: Run | None
    snapshot: TakenSnapshot | None
    plan: PlanFacts | None
    sighting: Sighting | None
    settled: Mapping[Ending, int]
    rules: Mapping[int, WrittenRule]
    manifest: SnapshotManifest | None
    troubles: tuple[str, ...]
    look: Look | None = None
    """The state of the queue when the run looked for work."""
    since: SinceSnapshot = field(default_factory=SinceSnapshot)
    """Later outcomes: a message that a later run settled does not need attention any more."""

    @property
    def settled_at(self) -> datetime | None:
        """When the run settled its messages by its last browse, None if it has not."""
        return self.sighting.at if self.sighting else None

    attempted: tuple[datetime, datetime] | None = None
    """When the first and the last attempt were made; each is recorded before its unit begins."""

    def placed(self, cell: Cell) -> tuple[int, str, str, str, int, str]:
        written = self.rules.get(cell[0], NO_RULE)
        return (*cell, written.line, written.text)

    @property
    def is_for_named(self) -> bool:
        return self.run is not None and bool(self.run.message_keys)


def read_sources(run_id: str, ledger: Ledger, lake_root: str) -> Sources:
    """Read a run; data missing in the lake is reported in `troubles` and raises no error."""
    run = ledger.runs.get(run_id)
    if run is None:
        return Sources(None, None, None, None, {}, {}, None, ())
    snapshot = ledger.snapshots.of_run(run_id)
    manifest, troubles = _manifest(snapshot)
    sighting = ledger.accounts.of_run(run_id)
    settled: Mapping[Ending, int] = ledger.settled.outcomes(run_id)
    if manifest is not None and not settled and not sighting and not run.named:
        settled = _settled_before(manifest, snapshot)
    return Sources(
        run=run,
        snapshot=snapshot,
        plan=_plan(run, snapshot, ledger, lake_root),
        sighting=sighting,
        settled=settled,
        rules=written_rules(run.rules_text),
        manifest=manifest,
        troubles=troubles,
        look=ledger.runs.last_look(run_id),
        attempted=ledger.attempts.between(run_id),
    )


def written_rules(text: str) -> dict[int, WrittenRule]:
    """Return the rules of a table by ordinal, as they are written, without the comments between.

    A text that is not a valid table has none.
    """
    table = check(text, frozen=True).table
    if table is None:
        return {}
    lines = text.splitlines()
    starts = [rule.line for rule in table.rules] + [len(lines) + 1]
    written = {}
    for rule, end in zip(table.rules, starts[1:], strict=True):
        entry = [line.rstrip() for line in lines[rule.line - 1 : end - 1]]
        kept = [line for line in entry if line and not line.startswith("*")]
        written[rule.ordinal] = WrittenRule(rule.line, "\n".join(kept))
    return written


def _settled_before(
    manifest: SnapshotManifest, snapshot: TakenSnapshot | None
) -> Mapping[Ending, int]:
    if snapshot is None or not manifest.settled:
        return {}
    try:
        batches = list(settled_rows(snapshot.location, _HOW))
    except (LakeError, OSError):
        return {}
    rows = pa.Table.from_batches(batches).group_by(_HOW).aggregate([([], "count_all")])
    counts = rows["count_all"].to_pylist()
    return {
        Ending(**row | {"outcome": Outcome(row["outcome"])}): number
        for row, number in zip(rows.select(_HOW).to_pylist(), counts, strict=True)
    }


def _plan(
    run: Run, snapshot: TakenSnapshot | None, ledger: Ledger, lake_root: str
) -> PlanFacts | None:
    """Return the plan the ledger has accepted, else the one that waits in the lake."""
    row = ledger.plans.of_run(run.run_id)
    if row is not None:
        return PlanFacts(row.plan_id, row.plan_hash, row.accepted_at)
    if snapshot is None:
        return None
    identifier = plan_id(snapshot.snapshot_id, run.rules_digest)
    try:
        found = find_plan(plan_directory(lake_root, identifier))
    except (LakeError, OSError):
        return None
    return None if found is None else PlanFacts(identifier, found.plan_hash, None)


def _manifest(snapshot: TakenSnapshot | None) -> tuple[SnapshotManifest | None, tuple[str, ...]]:
    """Return a snapshot's manifest, or what is wrong with it."""
    if snapshot is None:
        return None, ()
    try:
        return read_manifest(snapshot.location), ()
    except (LakeError, OSError, ValueError) as error:  # ValueError: not JSON
        return None, (f"{SNAPSHOT_UNREADABLE}: {error}",)


# What the rules did: outcomes by rule, attempts that all failed, and attempts over time.

_MOST_REASONS: Final = 3

BINS: Final = 60
"""The number of equal periods into which the time of a run is divided."""


def rule_rows(counted: Mapping[Ending, int], sources: Sources) -> tuple[RuleRow, ...]:
    """Order outcomes by rule, action and target as in the table; outcomes without a rule come last.

    `counted` are those of the run's own messages; the settled ones are added.
    """
    counts: Counter[tuple[Cell, Outcome]] = Counter()
    kept = {s: n for s, n in sources.settled.items() if s.outcome is not Outcome.NOT_SELECTED}
    for s, number in (*counted.items(), *kept.items()):
        counts[(s.rule, s.action, s.target_q, s.target_q_mgr), s.outcome] += number
    last = 1 + max((cell[0] for cell, _ in counts), default=0)
    return tuple(
        RuleRow(*sources.placed(cell), outcome, counts[cell, outcome])
        for cell, outcome in sorted(counts, key=lambda key: (key[0][0] or last, key))
    )


def failed_rules(
    tried: Sequence[AttemptCount], rows: Sequence[RuleRow], sources: Sources, ledger: Ledger
) -> tuple[FailedRule, ...]:
    """Return the rules and targets whose attempts all failed and that `rows` do not list."""
    if sources.run is None:
        return ()
    listed = {(row.rule, row.action, row.target_q, row.target_q_mgr) for row in rows}
    reasons: dict[Cell, Counter[int]] = {}
    has_other = set()
    for one in tried:
        cell = (one.rule, one.action, one.target_q, one.target_q_mgr)
        reasons.setdefault(cell, Counter())[one.reason] += one.attempts
        if one.state is not AttemptState.FAILED:
            has_other.add(cell)
    count_tried, run_id = ledger.run_messages.count_tried, sources.run.run_id
    return tuple(
        FailedRule(
            *sources.placed(cell),
            messages=count_tried(run_id, cell[0], *cell[2:]),
            attempts=reasons[cell].total(),
            reasons=dict(reasons[cell].most_common()),
        )
        for cell in sorted(reasons.keys() - has_other - listed)
    )


def failed_in_words(rule: FailedRule) -> str:
    """Return how the attempts of a rule failed: ``all 4 attempts failed: MQRC_Q_FULL (2053)``."""
    made = "its attempt" if rule.attempts == 1 else f"all {rule.attempts:,} attempts"
    why = ", ".join(reason_text(reason) for reason in list(rule.reasons)[:_MOST_REASONS] if reason)
    return f"{made} failed" + (f": {why}" if why else "")


def _over_time(
    tried: Iterable[AttemptCount], span: tuple[datetime, datetime] | None
) -> tuple[AttemptCount, ...]:
    """Add up attempts by rule, target, state and period, lane by lane; each from its beginning.

    `span` is when the first and the last of them were made.
    """
    points: dict[tuple[object, ...], AttemptCount] = {}
    for one in tried:
        start, end = span or (one.at, one.at)
        whole = (end - start).total_seconds() or 1.0
        period = int((one.at - start).total_seconds() / whole * (BINS - 1))
        target_q = generalize(one.target_q)
        key = (one.rule, one.action, target_q, one.target_q_mgr, one.state, one.reason, period)
        point = points.get(key) or replace(one, target_q=target_q, attempts=0)
        at, attempts = min(point.at, one.at), point.attempts + one.attempts
        points[key] = replace(point, at=at, attempts=attempts)
    return tuple(sorted(points.values(), key=lambda p: (p.rule, p.target_q, p.target_q_mgr, p.at)))


# The account of a run, and its verdict.

_ON_THE_QUEUE: Final = Outcome.having(Trait.STAYS)
_PERHAPS_ON_THE_QUEUE: Final = frozenset(Outcome) - _ON_THE_QUEUE - DEPARTED


def is_untouched(sources: Sources, counts: RunCounts) -> bool:
    return not (sources.attempted or counts.booked or sources.sighting)


def account_of(sources: Sources, counts: RunCounts, missing: Sequence[int]) -> Account | None:
    """Make the account; None if there is no snapshot to account for.

    `missing` has the browse_seqs of the run's messages without an outcome. Every message has one
    outcome; those booked as left were met by the last browse, those booked as departed were not. A
    browse that never happened proves nothing and counts as a difference.
    """
    if sources.snapshot is None:
        return None
    booked = counts.outcomes
    for settled, number in sources.settled.items():
        booked[settled.outcome] += number
    total = sources.snapshot.messages
    if sources.is_for_named and not sources.settled and sources.manifest is not None:
        # It broke off before it booked them.
        booked[Outcome.NOT_SELECTED] = total - (counts.listed or len(missing))
    not_selected = booked[Outcome.NOT_SELECTED]
    which = numbers(missing)
    differences = [*_sum_differences(total, booked.total(), which)]
    if total:
        differences.extend(_browse_differences(booked, sources.sighting))
    return Account(
        messages=total,
        outcomes={
            one: booked[one] for one in Outcome if booked[one] and one is not Outcome.NOT_SELECTED
        },
        last_browse=sources.sighting,
        differences=tuple(differences),
        settled=sum(sources.settled.values()) - not_selected if sources.settled else 0,
        not_selected=not_selected,
    )


def _sum_differences(total: int, booked: int, missing: str) -> Iterator[str]:
    if booked < total:
        which = f": messages {missing}" if missing else ""
        have = "has" if total - booked == 1 else "have"
        yield f"{total - booked:,} of {count(total, 'message')} {have} no outcome{which}"
    if booked > total:
        yield f"{count(booked, 'outcome')} for {count(total, 'message')}"


def _browse_differences(booked: Counter[Outcome], sighting: Sighting | None) -> Iterator[str]:
    if sighting is None:
        yield "the queue was not browsed again, so nothing is proven"
        return
    if sighting.returned:
        are = (
            "message booked as departed is"
            if sighting.returned == 1
            else ("messages booked as departed are")
        )
        yield f"{sighting.returned:,} {are} on the queue"
    expected = sum(booked[outcome] for outcome in _ON_THE_QUEUE)
    at_most = expected + sum(booked[outcome] for outcome in _PERHAPS_ON_THE_QUEUE)
    if not expected <= sighting.seen <= at_most:
        yield (
            f"{count(expected, 'message')} booked as left on the queue, "
            f"but the last browse saw {sighting.seen:,}"
        )


Judgement = tuple[Verdict, str, str]
"""Verdict, headline, and why a run failed ("" where it did not)."""


def judge(
    sources: Sources,
    counts: RunCounts,
    account: Account | None,
    stages: Mapping[str, str],
    failures: Sequence[Failure] = (),
    *,
    attention: int,
) -> Judgement:
    """Judge a run by its stages, its account, and how many messages need attention.

    Only a run whose stages did not fail and whose account adds up is not failed. Where `stages`
    are not known and no last browse closed the account, it is unfinished.
    """
    failed = [failure.task for failure in failures]
    faults = [failure.summary for failure in failures]
    is_open = not faults and not stages and sources.sighting is None
    if sources.run is None:
        headline = f"The run failed{_at(failed)}; nothing was touched."
        return Verdict.FAILED, headline, "; ".join(faults or ["the ledger has no such run"])
    if not faults and not sources.troubles and _is_empty(sources, stages):
        is_settled = sources.snapshot is None and sources.look is not None and sources.look.depth
        return Verdict.SETTLED if is_settled else Verdict.EMPTY, _empty(sources), ""
    if account is None:
        headline = _without_account(sources, failed, is_open)
        faults = [*(faults or ["no snapshot was taken"]), *sources.troubles]
    else:
        headline = _headline(sources, counts, attention, account, failed)
        faults = [*faults, *account.differences, *sources.troubles]
    return _verdict(faults, is_open, attention), headline, "; ".join(faults)


def _is_empty(sources: Sources, stages: Mapping[str, str]) -> bool:
    if sources.snapshot is None:
        saw_no_work = sources.look is not None and not sources.look.is_work
        return saw_no_work or stages.get("snapshot") == "skipped"
    return not sources.snapshot.messages


def _verdict(faults: list[str], is_open: bool, attention: int) -> Verdict:
    if faults:
        return Verdict.UNFINISHED if is_open else Verdict.FAILED
    return Verdict.ATTENTION if attention else Verdict.OK


def _without_account(sources: Sources, failed: list[str], is_open: bool) -> str:
    if sources.snapshot is not None and sources.run is not None:
        messages = count(len(sources.run.message_keys) or sources.snapshot.messages, "message")
        return f"The run ended{_at(failed)}: none of {messages} was acted on; nothing was touched."
    if is_open:
        return "No snapshot was taken: the queue was empty, or the run did not get that far."
    return f"The run ended{_at(failed)} before it took a snapshot; nothing was touched."


def _headline(
    sources: Sources, counts: RunCounts, attention: int, account: Account, failed: list[str]
) -> str:
    parts = ", ".join(_parts(sources, counts, attention, account))
    sum_ = "adds up" if account.adds_up else "does not add up"
    stages = f" The run failed{_at(failed)}." if failed else ""
    number = count(account.selected, "message")
    of = f" of {account.messages:,} selected" if account.not_selected else ""
    return f"{number}{of}: {parts}. The account {sum_}.{stages}"


def _parts(sources: Sources, counts: RunCounts, attention: int, account: Account) -> Iterator[str]:
    """Yield the parts of the sum that an operator cares about; they add up to the snapshot."""
    handled = sum(n for outcome, n in account.outcomes.items() if Trait.SUCCEEDED in outcome.traits)
    is_dry_run = sources.run is not None and sources.run.dry_run
    if handled or not is_dry_run:
        yield f"{handled:,} handled"
    if attention:
        yield f"{attention:,} {'needs' if attention == 1 else 'need'} attention"
    if is_dry_run:
        left = counts.only_dry_run[Action.IGNORE]
        yield f"{counts.only_dry_run.total() - left:,} would be acted on"
        if left:
            yield f"{left:,} would be left by rule"
    for outcome, number in account.outcomes.items():
        if not outcome.traits & (Trait.SUCCEEDED | Trait.NEEDS_ATTENTION):
            yield f"{number:,} {outcome.words}"
    if account.booked < account.messages:
        yield f"{account.messages - account.booked:,} without an outcome"


def _empty(sources: Sources) -> str:
    assert sources.run is not None  # noqa: S101 (the caller has looked)
    if sources.snapshot is None and sources.look is not None:
        depth, at = sources.look.depth, sources.look.at
    else:
        depth = 0
        at = sources.snapshot.taken_at if sources.snapshot else sources.run.started_at
    if sources.look is not None and sources.look.why and not sources.look.is_work:
        return sources.look.why
    if depth:
        settled = f"{count(depth, 'message')} on the queue, all settled by earlier runs"
        return f"Nothing new: {settled}; last checked {moment(at)}."
    return f"Queue empty, last checked {moment(at)}."


def _at(failed: list[str]) -> str:
    return f" at {failed[0]}" if failed else ""


def failures_behind(
    recorded: RecordedVerdict | None, failures: Iterable[tuple[datetime, Failure]]
) -> list[tuple[datetime, Failure]]:
    """Return the failures that the recorded verdict names; all of them without a verdict.

    A task that failed and then succeeded is not behind it.
    """
    return [(at, one) for at, one in failures if recorded is None or one.summary in recorded.why]


def read_run(
    run_id: str,
    sources: Sources,
    counts: RunCounts,
    judgement: Judgement,
    account: Account | None,
    *,
    ledger: Ledger,
) -> RunReading:
    """Read what report and page say alike of a run; no message is read one by one."""
    verdict, headline, why = judgement
    tried = ledger.run_messages.tried(run_id)
    rules = rule_rows(counts.booked, sources)
    states: Counter[AttemptState] = Counter()
    for one in tried:
        states[one.state] += one.attempts
    return RunReading(
        verdict=verdict,
        headline=headline,
        why=why,
        account=account,
        rules=rules,
        failed_rules=failed_rules(tried, rules, sources, ledger),
        learned=tuple(ledger.outcomes.learned_counts(run_id)),
        timeline=_over_time(tried, sources.attempted),
        attempts={state: states[state] for state in AttemptState if states[state]},
        ramps=ramp_rows(sources.run, ledger, sources.settled_at),
        returns=return_rows(sources.run, ledger),
        repairs=repair_rows(sources.run, ledger),
        evidence=tuple(ledger.evidence.of_run(run_id)),
    )


def control_lines(run: RunReading) -> list[tuple[str, list[str]]]:
    """Return what a report says of the controls of a run: the title and lines of each section."""
    return [
        ("Came back", [return_in_words(row) for row in run.returns]),
        ("Ramps and breakers", [ramp_in_words(row) for row in run.ramps]),
        ("Repairs", [repair_in_words(row) for row in run.repairs]),
        ("Evidence", [evidence_in_words(one) for one in run.evidence]),
    ]
