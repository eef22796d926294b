"""Read one run: its sources, what its rules did and planned, its account and its verdict.

Report and page say the same of a run, because both read it here, by counts of the ledger.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from mqdlq import lake
from mqdlq.causes import generalize
from mqdlq.constants import reason_text
from mqdlq.errors import LakeError
from mqdlq.failures import Failure
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.run_messages import AttemptCount, RunCounts
from mqdlq.ledger.tables import Decision, Ending, Look, Run, Sighting, TakenSnapshot
from mqdlq.model import DEPARTED, Action, AttemptState, Outcome, Trait, Verdict
from mqdlq.rules import check
from mqdlq.words import count, moment, numbers

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
class PlanFacts:
    """The plan of a run; `accepted_at` is None where it was evaluated and never accepted."""

    plan_id: str
    plan_hash: str
    accepted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of a run except its messages; all is empty if the ledger has no such run.

    `settled` counts the settled messages by ending: as the run booked them or, before it did, as
    the earlier runs did. `rules` are by ordinal. `manifest` is None if the snapshot cannot be read,
    and `troubles` say what could not. `look` is the queue when the run looked for work. `attempted`
    is when the first and the last attempt were made; each is recorded before its unit begins.
    """

    run: Run | None = None
    snapshot: TakenSnapshot | None = None
    plan: PlanFacts | None = None
    sighting: Sighting | None = None
    settled: Mapping[Ending, int] = field(default_factory=dict)
    rules: Mapping[int, WrittenRule] = field(default_factory=dict)
    manifest: lake.SnapshotManifest | None = None
    troubles: tuple[str, ...] = ()
    look: Look | None = None
    attempted: tuple[datetime, datetime] | None = None

    def placed(self, cell: Cell) -> tuple[int, str, str, str, int, str]:
        written = self.rules.get(cell[0], NO_RULE)
        return (*cell, written.line, written.text)

    @property
    def meant(self) -> str:
        """The messages that the run was for, in words, and how many had left; "" for all."""
        left = self.snapshot.absent if self.snapshot is not None else 0
        said = self.run.meant if self.run is not None else ""
        return f"{said}; {count(left, 'message')} of them had left the queue" if left else said

    @property
    def is_for_named(self) -> bool:
        return self.run is not None and self.run.is_for_some


def read_sources(run_id: str, ledger: Ledger, lake_root: str) -> Sources:
    """Read a run; data missing in the lake is reported in `troubles` and raises no error."""
    run = ledger.runs.get(run_id)
    if run is None:
        return Sources()
    snapshot, manifest = ledger.snapshots.of_run(run_id), None
    troubles: tuple[str, ...] = ()
    if snapshot is not None:
        try:
            manifest = lake.read_manifest(snapshot.location)
        except (LakeError, OSError, ValueError) as error:  # ValueError: not JSON
            troubles = (f"{SNAPSHOT_UNREADABLE}: {error}",)
    sighting = ledger.accounts.of_run(run_id)
    settled: Mapping[Ending, int] = ledger.settled.outcomes(run_id)
    if snapshot and manifest and manifest.settled and not (settled or sighting or run.is_for_some):
        settled = _settled_before(snapshot)
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


def _settled_before(snapshot: TakenSnapshot) -> Mapping[Ending, int]:
    try:
        rows = lake.count_settled(snapshot.location)
    except (LakeError, OSError):
        return {}
    return {Ending.of_row(row): row["count_all"] for row in rows}


def _plan(
    run: Run, snapshot: TakenSnapshot | None, ledger: Ledger, lake_root: str
) -> PlanFacts | None:
    """Return the plan the ledger has accepted, else the one that waits in the lake."""
    row = ledger.plans.of_run(run.run_id)
    if row is not None:
        return PlanFacts(row.plan_id, row.plan_hash, row.accepted_at)
    if snapshot is None:
        return None
    identifier = lake.plan_id(snapshot.snapshot_id, run.rules_digest)
    try:
        found = lake.find_plan(lake.plan_directory(lake_root, identifier))
    except (LakeError, OSError):
        return None
    return None if found is None else PlanFacts(identifier, found.plan_hash, None)


# What the rules did: outcomes by rule, attempts that all failed, and attempts over time.

_MOST_REASONS: Final = 3

BINS: Final = 60
"""The number of equal periods into which the time of a run is divided."""


@dataclass(frozen=True, slots=True)
class RuleTarget(Decision):
    """A rule with its action on a target; `line` and `text` are the table's own."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class RuleRow(RuleTarget):
    """How many messages a rule's action on a target ended in one outcome."""

    outcome: Outcome
    messages: int


@dataclass(frozen=True, slots=True)
class FailedRule(RuleTarget):
    """A rule that no outcome belongs to, because all its attempts on a target failed.

    `reasons` counts the attempts by the reason code of their failure, 0 if there is none.
    """

    messages: int
    attempts: int
    reasons: Mapping[int, int]


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
) -> Iterator[FailedRule]:
    """Yield the rules and targets whose attempts all failed and that `rows` do not list."""
    if sources.run is None:
        return
    listed = {(row.rule, row.action, row.target_q, row.target_q_mgr) for row in rows}
    reasons: dict[Cell, Counter[int]] = {}
    for one in tried:
        cell = (one.rule, one.action, one.target_q, one.target_q_mgr)
        reasons.setdefault(cell, Counter())[one.reason] += one.attempts
        if one.state is not AttemptState.FAILED:
            listed.add(cell)
    for cell in sorted(reasons.keys() - listed):
        yield FailedRule(
            *sources.placed(cell),
            messages=ledger.run_messages.count_tried(sources.run.run_id, cell[0], *cell[2:]),
            attempts=reasons[cell].total(),
            reasons=dict(reasons[cell].most_common()),
        )


def failed_in_words(rule: FailedRule) -> str:
    """Return how the attempts of a rule failed: ``all 4 attempts failed: MQRC_Q_FULL (2053)``."""
    made = "its attempt" if rule.attempts == 1 else f"all {rule.attempts:,} attempts"
    why = ", ".join(reason_text(reason) for reason in list(rule.reasons)[:_MOST_REASONS] if reason)
    return f"{made} failed" + (f": {why}" if why else "")


def over_time(
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


# The plan of a run by rule, action and target, beside the run before and the outcomes.

MANY_TARGETS: Final = "*"
"""The target in a plan's description if a rule has too many targets to count each."""
MOST_CHANGES: Final = 5


@dataclass(frozen=True, slots=True)
class MatrixRow(RuleTarget):
    """A rule's action on a target: planned messages, and what became of messages.

    `planned` counts the messages whose first step this is. `before` is that number in the run
    before, None if there is no such run or its plan cannot be read. `outcomes` counts the messages
    that this rule decided in the end: a message whose first step failed is in the row of a later
    rule.
    """

    planned: int
    before: int | None
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)

    @property
    def has_many_targets(self) -> bool:
        return self.target_q == MANY_TARGETS

    @property
    def change(self) -> int:
        return 0 if self.before is None else self.planned - self.before


@dataclass(frozen=True, slots=True)
class PlanMatrix:
    """The plan of a run; `description` is None without a readable plan, and `trouble` says why.

    `rows` are in table order; `discards` are the ones among them that discard. `changes` are the
    largest changes against the plan of the run `before`, "" if there is none.
    """

    description: lake.PlanDescription | None
    trouble: str
    rows: tuple[MatrixRow, ...]
    before: str
    changes: tuple[MatrixRow, ...]

    @property
    def discards(self) -> tuple[MatrixRow, ...]:
        return tuple(row for row in self.rows if row.action == Action.DISCARD)


def plan_matrix(
    sources: Sources, ruled: Sequence[RuleRow], ledger: Ledger, lake_root: str
) -> PlanMatrix:
    """Return the matrix of a run's plan; without a plan, only what the rules did, `ruled`."""
    description, trouble = _description(sources, lake_root)
    before, planned_before = _run_before(sources, ledger)
    planned = _planned(description) if description is not None else {}
    outcomes: dict[Cell, dict[Outcome, int]] = {}
    for row in ruled:
        if row.rule:
            cell = (row.rule, row.action, row.target_q, row.target_q_mgr)
            outcomes.setdefault(cell, {})[row.outcome] = row.messages
    rows = []
    for cell in sorted(planned.keys() | outcomes.keys()):
        was = None
        if planned_before is not None:  # a rule is the same if its text is
            was = planned_before.pop((_one_line(sources.rules.get(cell[0], NO_RULE)), *cell[1:]), 0)
        found = (planned.get(cell, 0), was, outcomes.get(cell, {}))
        rows.append(MatrixRow(*sources.placed(cell), *found))
    changed = [row for row in rows if row.change]
    still = {_one_line(written): ordinal for ordinal, written in sources.rules.items()}
    for (text, action, target_q, target_q_mgr), number in (planned_before or {}).items():
        rule = still.get(text, 0)  # 0: this run's table lacks the rule
        line = sources.rules.get(rule, NO_RULE).line
        changed.append(MatrixRow(rule, action, target_q, target_q_mgr, line, text, 0, number))
    changed.sort(key=lambda row: (-abs(row.change), row.rule, row.target_q))
    return PlanMatrix(
        description=description,
        trouble=trouble,
        rows=tuple(rows),
        before=before,
        changes=tuple(changed[:MOST_CHANGES]) if description is not None else (),
    )


def _planned(description: lake.PlanDescription) -> dict[Cell, int]:
    found: Counter[Cell] = Counter()
    for step in description.counts:
        found[step.rule, step.action, step.target_q, step.target_q_mgr] += step.messages
    return dict(found)


def _description(sources: Sources, lake_root: str) -> tuple[lake.PlanDescription | None, str]:
    if sources.plan is None:
        return None, "no plan was made"
    try:
        found = lake.find_plan(lake.plan_directory(lake_root, sources.plan.plan_id))
    except (LakeError, OSError) as error:
        return None, f"the plan {sources.plan.plan_id} cannot be read: {error}"
    if found is None:
        return None, f"the lake no longer has the plan {sources.plan.plan_id}"
    return found, ""


def _run_before(
    sources: Sources, ledger: Ledger
) -> tuple[str, dict[tuple[str, str, str, str], int] | None]:
    """Return the run before and its planned messages by text, action and target.

    The messages are None if there is no such run, or its plan cannot be read.
    """
    found = ledger.plans.before(sources.run) if sources.run is not None else None
    if found is None:
        return "", None
    run_id, location = found
    run = ledger.runs.get(run_id)
    try:
        description = lake.find_plan(location)
    except (LakeError, OSError):
        description = None
    if run is None or description is None:
        return run_id, None
    rules = written_rules(run.rules_text)
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for (rule, *how), number in _planned(description).items():
        counted[_one_line(rules.get(rule, NO_RULE)), how[0], how[1], how[2]] += number
    return run_id, dict(counted)


def _one_line(written: WrittenRule) -> str:
    return " ".join(written.text.replace("+\n", " ").split())


# The account of a run, and its verdict.

_ON_THE_QUEUE: Final = Outcome.having(Trait.STAYS)
_PERHAPS_ON_THE_QUEUE: Final = frozenset(Outcome) - _ON_THE_QUEUE - DEPARTED


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a run: the messages of the snapshot against the outcomes.

    `differences` say in words what does not add up. An account without differences adds up.
    `settled` messages kept the outcome of an earlier run.
    `not_selected` messages are not among the outcomes: the run was for named messages, and these
    were not named.
    """

    messages: int
    outcomes: Mapping[Outcome, int]
    last_browse: Sighting | None
    differences: tuple[str, ...]
    settled: int = 0
    not_selected: int = 0

    @property
    def selected(self) -> int:
        return self.messages - self.not_selected

    @property
    def booked(self) -> int:
        return sum(self.outcomes.values()) + self.not_selected

    @property
    def adds_up(self) -> bool:
        """Whether every message is accounted for, and the queue agrees."""
        return not self.differences


def account_of(sources: Sources, counts: RunCounts, missing: Sequence[int]) -> Account | None:
    """Make the account; None if there is no snapshot to account for.

    `missing` has the browse_seqs of the run's messages without an outcome. Every message has one
    outcome; those booked as left were met by the last browse, those booked as departed were not. A
    browse that never happened proves nothing and counts as a difference.
    """
    if sources.snapshot is None:
        return None
    booked = booked_outcomes(sources, counts)
    total = sources.snapshot.messages
    if sources.is_for_named and not sources.settled and sources.manifest is not None:
        # It broke off before it booked them.
        booked[Outcome.NOT_SELECTED] = total - (counts.listed or len(missing))
    not_selected = booked[Outcome.NOT_SELECTED]
    differences = [*_sum_differences(total, booked.total(), numbers(missing))]
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


def booked_outcomes(sources: Sources, counts: RunCounts) -> Counter[Outcome]:
    booked = counts.outcomes
    for how, number in sources.settled.items():
        booked[how.outcome] += number
    return booked


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
        messages = "message" if sighting.returned == 1 else "messages"
        are = "is" if sighting.returned == 1 else "are"
        yield f"{sighting.returned:,} {messages} booked as departed {are} on the queue"
    expected = sum(booked[outcome] for outcome in _ON_THE_QUEUE)
    at_most = expected + sum(booked[outcome] for outcome in _PERHAPS_ON_THE_QUEUE)
    if not expected <= sighting.seen <= at_most:
        yield (
            f"{count(expected, 'message')} booked as left on the queue, "
            f"but the last browse saw {sighting.seen:,}"
        )


def judge(
    sources: Sources,
    counts: RunCounts,
    account: Account | None,
    *,
    stages: Mapping[str, str],
    failures: Sequence[Failure],
    attention: int,
) -> tuple[Verdict, str, str]:
    """Judge a run by its stages, its account, and how many messages need attention.

    Returns verdict, headline, and why the run failed ("" where it did not). Only a run whose stages
    did not fail and whose account adds up is not failed. Where `stages` are not known and no last
    browse closed the account, it is unfinished.
    """
    at = f" at {failures[0].task}" if failures else ""
    faults = [failure.summary for failure in failures]
    is_open = not faults and not stages and sources.sighting is None
    if sources.run is None:
        why = "; ".join(faults or ["the ledger has no such run"])
        return Verdict.FAILED, f"The run failed{at}; nothing was touched.", why
    if not faults and not sources.troubles and _is_empty(sources, stages):
        is_settled = sources.snapshot is None and sources.look is not None and sources.look.depth
        verdict = Verdict.SETTLED if is_settled else Verdict.EMPTY
        return verdict, _empty(sources, sources.run), ""
    if account is None:
        headline = _without_account(sources, sources.run, at, is_open)
        faults = [*(faults or ["no snapshot was taken"]), *sources.troubles]
    else:
        number = count(account.selected, "message")
        of = f" of {account.messages:,} selected" if account.not_selected else ""
        parts = ", ".join(_parts(sources.run, counts, attention, account))
        sum_ = "adds up" if account.adds_up else "does not add up"
        failed = f" The run failed{at}." if failures else ""
        headline = f"{number}{of}: {parts}. The account {sum_}.{failed}"
        faults = [*faults, *account.differences, *sources.troubles]
    if faults:
        verdict = Verdict.UNFINISHED if is_open else Verdict.FAILED
    else:
        verdict = Verdict.ATTENTION if attention else Verdict.OK
    return verdict, headline, "; ".join(faults)


def _is_empty(sources: Sources, stages: Mapping[str, str]) -> bool:
    if sources.snapshot is None:
        saw_no_work = sources.look is not None and not sources.look.is_work
        return saw_no_work or stages.get("snapshot") == "skipped"
    return not sources.snapshot.messages


def _empty(sources: Sources, run: Run) -> str:
    look, snapshot = sources.look, sources.snapshot
    if look is not None and look.why and not look.is_work:
        return look.why
    depth, at = 0, snapshot.taken_at if snapshot is not None else run.started_at
    if snapshot is None and look is not None:
        depth, at = look.depth, look.at
    if depth:
        settled = f"{count(depth, 'message')} on the queue, all settled by earlier runs"
        return f"Nothing new: {settled}; last checked {moment(at)}."
    return f"Queue empty, last checked {moment(at)}."


def _without_account(sources: Sources, run: Run, at: str, is_open: bool) -> str:
    if sources.snapshot is not None:
        number = len(run.message_keys) or sources.snapshot.messages
        messages = run.meant if run.condition else count(number, "message")
        return f"The run ended{at}: none of {messages} was acted on; nothing was touched."
    if is_open:
        return "No snapshot yet: the queue was empty, or the run did not get that far."
    return f"The run ended{at} before it took a snapshot; nothing was touched."


def _parts(run: Run, counts: RunCounts, attention: int, account: Account) -> Iterator[str]:
    """Yield the parts of the sum that an operator cares about; they add up to the snapshot."""
    handled = sum(n for outcome, n in account.outcomes.items() if Trait.SUCCEEDED in outcome.traits)
    if handled or not run.dry_run:
        yield f"{handled:,} handled"
    if attention:
        yield f"{attention:,} {'needs' if attention == 1 else 'need'} attention"
    if run.dry_run:
        left = counts.only_dry_run[Action.IGNORE]
        yield f"{counts.only_dry_run.total() - left:,} would be acted on"
        if left:
            yield f"{left:,} would be left by rule"
    for outcome, number in account.outcomes.items():
        if not outcome.traits & (Trait.SUCCEEDED | Trait.NEEDS_ATTENTION):
            yield f"{number:,} {outcome.words}"
    if account.booked < account.messages:
        yield f"{account.messages - account.booked:,} without an outcome"
