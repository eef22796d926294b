"""Write Markdown for Airflow: the words of a run's note, and the page of an approval.

Airflow renders both as Markdown, and makes links of addresses in plain text, escaped or not. In a
code span nothing is a link, an image or HTML, so text that may come from messages is in one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mqdlq.causes import COLUMNS, CauseCounter
from mqdlq.controls.repair import read_repair
from mqdlq.controls.repair.changes import describe_changes, find_all_changes
from mqdlq.failures import Failure
from mqdlq.lake import PlanDescription, plan_directory, planned_messages, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Run
from mqdlq.model import Action, PlannedMessage, Step, Verdict
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report.building import Report
from mqdlq.reading.run import NO_RULE, WrittenRule, written_rules
from mqdlq.reading.standings import Quiet
from mqdlq.words import count, moment, place, span, target, visible

MOST: Final = 200
_ADDRESS: Final = re.compile(r"(?i)//|www\.|[^\s@]@[^\s@]|[^\x20-\x7e]")
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]()#<>&~|!])")


def code(text: str, most: int = MOST) -> str:
    r"""Return text from a message as a code span of at most so many characters.

    A vertical bar, which would end the cell of a table, is written as an escape.

    >>> print(code("A`|<b>"))
    ``A`\x7c<b>``
    """
    shown = visible(text).replace("|", "\\x7c")
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    # A backtick or a blank at an end needs a blank, which a reader of Markdown removes.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def plain(text: str) -> str:
    r"""Return our own words, in which no character is markup.

    Words with a name that looks like an address become a code span, because no escape keeps Airflow
    from making a link of it.

    >>> print(plain("5 messages [new]"))
    5 messages \[new\]
    """
    if _ADDRESS.search(text):
        return code(text)
    return _ACTIVE.sub(r"\\\1", text)


def link(words: str, address: str) -> str:
    """Return a link; the address is one of our own, in which names are percent-encoded."""
    return f"[{plain(words)}]({address.replace('(', '%28').replace(')', '%29')})"


# The words that a run's note in Airflow shows, in Markdown.

_MOST_WHY: Final = 300
_LOUD: Final = Quiet()


def failure_note(failure: Failure) -> str:
    """Return why a task failed and what to do, for the note of a run without a report."""
    following = f" Next: {_code(failure.next_step)}" if failure.next_step else ""
    return f"Why: {_code(failure.summary)}{following}"


def _code(text: str) -> str:
    return code(" ".join(text.split()), _MOST_WHY)


def run_note(report: Report, paths: Paths | None = None, quiet: Quiet = _LOUD) -> Mapping[str, str]:
    """Return the words of the `note` of the run, and of the mark on its task report.

    With `paths` the note ends with links to the report and to the run on the operator's page.

    `attention` is "" for a run that needs no attention: Airflow marks notes in its grid, so only
    other runs have a mark there. Muted causes need none. Text that may come from messages or from
    MQ is in a code span.
    """
    words = f"{report.verdict.words}. {plain(report.headline)}"
    if report.why:
        words += f" Why: {_code(report.why)}"
    if report.next_steps:
        words += f" Next: {_code(report.next_steps)}"
    if quiet.words:
        words += f" {quiet.words}"
    if paths is not None and report.run is not None:
        of = (report.run.handler, report.run_id)
        report_link = link("Report", paths.run_report(*of))
        words += f" {report_link}, {link('run in Dead letters', paths.run(*of))}."
    number = report.needs_attention - quiet.attention
    has_mark = report.verdict is Verdict.ATTENTION and number > 0
    attention = f"{count(number, 'message')} to act on." if has_mark else ""
    return {"note": words, "attention": attention}


# The page that a person reads before approving a plan; its length is limited.

MOST_RULES: Final = 12
MOST_CAUSES: Final = 5
MOST_REPAIRS: Final = 20
MOST_TARGETS: Final = 5
MOST_MESSAGES: Final = 3
"""How many entries of a kind the page has; it counts the others."""
_MOST_OF_A_RULE: Final = 400
_COLUMNS: Final = (*COLUMNS, "browse_seq", "message_key", "put_appl_name")


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The handler's settings that the page shows, and the time.

    `within` is the time limit for an answer, `keep_archive_for` how long archive copies are kept
    (None: without limit), `paths` lead to the operator's page.
    """

    within: timedelta
    keep_archive_for: timedelta | None
    paths: Paths
    now: datetime


@dataclass(slots=True)
class _PlannedRule:
    """The messages whose first step is one rule."""

    step: Step
    targets: Counter[str] = field(default_factory=Counter)
    causes: CauseCounter = field(default_factory=CauseCounter)
    samples: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    later_discards: int = 0

    def add(self, planned: PlannedMessage, row: dict[str, Any]) -> None:
        self.messages += 1
        first, *later = planned.steps
        name = target(first.target_q, first.target_q_mgr)
        self.targets[name if name in self.targets or len(self.targets) < MANY else OTHERS] += 1
        self.later_discards += any(step.action is Action.DISCARD for step in later)
        self.causes.add_row(row)
        if len(self.samples) < MOST_MESSAGES:
            self.samples.append(row)


MANY: Final = 1_000
OTHERS: Final = "other targets"


def write_review_page(
    run: Run,
    plan: PlanDescription,
    coverage: str,
    asked: Iterable[str],
    settings: ReviewSettings,
    *,
    ledger: Ledger,
    lake_root: str,
) -> str:
    """Return the questions and, by rule, what the plan does to which messages, as Markdown.

    `asked` are the questions, `coverage` says which messages the plan covers, both of the review of
    this plan. Each rule has its text, the causes of its messages and a few of them. No body and no
    user id is on the page.
    """
    parts = ["\n".join(f"- {plain(one)}" for one in asked)]
    see = link("See the plan", settings.paths.run(run.handler, run.run_id))
    parts.append(f"All messages: {plain(coverage)}. {see}.")
    if run.repair:
        parts.append("\n".join(_repairs(run, plan.plan_id, settings, ledger, lake_root)))
    rules = _read_rules(run, plan.plan_id, ledger, lake_root)
    texts = written_rules(run.rules_text)
    for rule in rules[:MOST_RULES]:
        parts.extend(_rule(run, rule, texts.get(rule.step.rule, NO_RULE), settings))
    if len(rules) > MOST_RULES:
        rest = sum(rule.messages for rule in rules[MOST_RULES:])
        parts.append(f"And {count(len(rules) - MOST_RULES, 'rule')} more: {count(rest, 'message')}")
    parts.append(
        f"Exactly this plan is carried out if you approve: plan `{plan.plan_id}`, hash"
        f" `{plan.plan_hash}`.\n\nNo answer within {settings.within} means reject.\n"
    )
    return "\n\n".join(parts)


def _repairs(
    run: Run, plan_id: str, settings: ReviewSettings, ledger: Ledger, lake_root: str
) -> Iterator[str]:
    planned = planned_messages(plan_directory(lake_root, plan_id))
    steps = {one.browse_seq: one.steps for one in planned}
    counted = Counter(
        describe_changes(one) for one in find_all_changes(run, steps, ledger).values()
    )
    yield "### Repair"
    kept = settings.keep_archive_for
    until = "without a time limit" if kept is None else f"until {moment(settings.now + kept)}"
    repair = read_repair(run.repair)
    stays = "" if repair and repair.body_sha256 else "The body of each message stays as it is. "
    yield f"{stays}The archive keeps the originals {until}.\n"
    for words, messages in counted.most_common(MOST_REPAIRS):
        yield f"- {code(words, _MOST_OF_A_RULE)}: {count(messages, 'message')}"
    if rest := sum(counted.values()) - sum(n for _, n in counted.most_common(MOST_REPAIRS)):
        yield f"- other changes: {count(rest, 'message')}; the run's page has each message"


def _read_rules(run: Run, plan_id: str, ledger: Ledger, lake_root: str) -> list[_PlannedRule]:
    """Return the rules in the order of the table, from the plan and its snapshot, read once."""
    snapshot = ledger.snapshots.of_run(run.run_id)
    rows = snapshot_rows(snapshot.location, _COLUMNS) if snapshot is not None else iter(())
    row = next(rows, None)
    rules: dict[tuple[int, Action], _PlannedRule] = {}
    for planned in planned_messages(plan_directory(lake_root, plan_id)):
        while row is not None and row["browse_seq"] < planned.browse_seq:
            row = next(rows, None)
        if not planned.steps or row is None or row["browse_seq"] != planned.browse_seq:
            continue
        first = planned.steps[0]
        rules.setdefault((first.rule, first.action), _PlannedRule(first)).add(planned, row)
    return [rules[key] for key in sorted(rules)]


def _rule(
    run: Run, rule: _PlannedRule, written: WrittenRule, settings: ReviewSettings
) -> Iterator[str]:
    step = rule.step
    which = "The given action" if run.has_given_action else f"Line {step.rule_line}"
    yield f"### {which}: {step.action}, {count(rule.messages, 'message')}"
    yield code(" ".join(written.text.split()), _MOST_OF_A_RULE)
    named = {name: number for name, number in rule.targets.most_common() if name}
    if named:
        shown = [f"{code(name)} ({n:,})" for name, n in list(named.items())[:MOST_TARGETS]]
        more = len(named) - len(shown)
        yield f"To {', '.join(shown)}{f' and {more:,} more' if more else ''}."
    yield from _irreversible(rule, settings)
    yield "\n".join(_causes(rule))
    yield "\n".join(_samples(rule, settings.now))


def _irreversible(rule: _PlannedRule, settings: ReviewSettings) -> Iterator[str]:
    if rule.step.action is Action.DISCARD:
        discards = f"**Discards {count(rule.messages, 'message')}**"
    elif rule.later_discards:
        later = count(rule.later_discards, "message")
        discards = f"If these attempts fail, a later rule **discards {later}**"
    else:
        if rule.step.action is not Action.IGNORE:
            yield "A message that was put on a queue can be read there: it does not come back."
        return
    kept = settings.keep_archive_for
    until = "without a time limit" if kept is None else f"until {moment(settings.now + kept)}"
    yield f"{discards}: each is archived first, and can be restored {until}."


def _causes(rule: _PlannedRule) -> Iterator[str]:
    counted = rule.causes.counted()
    for one in counted[:MOST_CAUSES]:
        cause = one.cause
        where = place(cause.dest_q_name, cause.dest_q_mgr_name) if cause.dest_q_name else ""
        words = plain(cause.reason_text or cause.meaning)
        yield f"- {words}{f' for {code(where)}' if where else ''}: {count(one.messages, 'message')}"
    if len(counted) > MOST_CAUSES:
        rest = sum(one.messages for one in counted[MOST_CAUSES:])
        yield f"- {count(len(counted) - MOST_CAUSES, 'cause')} more: {count(rest, 'message')}"


def _samples(rule: _PlannedRule, now: datetime) -> Iterator[str]:
    yield "| message_key | application | destination | age |"
    yield "|---|---|---|---|"
    for row in rule.samples:
        since = row["dead_lettered_at"] or row["put_at"]
        age = span((now - since).total_seconds()) if since is not None else ""
        to = place(row["dlh_dest_q_name"] or "", row["dlh_dest_q_mgr_name"] or "")
        cells = (f"`{row['message_key'].hex()}`", code(row["put_appl_name"] or ""), code(to), age)
        yield f"| {' | '.join(cells)} |"
    if rule.messages > len(rule.samples):
        yield f"\nand {count(rule.messages - len(rule.samples), 'message')} more"
