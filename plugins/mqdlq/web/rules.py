"""Rules tables of a handler: the text, the findings, and the use of each rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.errors import HomeError, MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.rules import CountedRuns, RuleUse, TablePeriod
from mqdlq.ledger.tables.runs import Run
from mqdlq.model import AttemptState, Outcome
from mqdlq.reading.report.report_sources import written_rules
from mqdlq.rules import Comparison, Diagnostic, Severity, check, compare
from mqdlq.rules.comparing import rule_text
from mqdlq.rules.lint import Level, promote, review
from mqdlq.web.access import HandlerDep
from mqdlq.web.rendering import NotFoundError, render
from mqdlq.web.requests import LedgerDep
from mqdlq.web.threads import PageRoute

# The rules table of a run, with findings at its lines and the use of each rule.

MOST_ATTEMPTED: Final = 100_000
"""The newest runs whose attempts are counted have at most so many messages."""
MOST_BARS: Final = 40
HEIGHT: Final = 20.0
NO_RULES: Final[Mapping[str, Level]] = {}


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a table with its findings; `rule` is the rule that begins on it, 0 if none."""

    number: int
    text: str
    rule: int
    findings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """The messages of a rule in one run, drawn from the bottom of a chart."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class UsedRule:
    """A rule with its use in the counted runs.

    `succeeded` and `failed` count attempts in the newest runs, `reasons` the failed ones by reason
    code. `bars` are the newest runs, oldest first. Rule 0 stands for messages that no rule decided.
    """

    ordinal: int
    line: int
    text: str
    messages: int
    runs: int
    last_at: datetime | None
    outcomes: Mapping[Outcome, int]
    succeeded: int
    failed: int
    reasons: Mapping[int, int]
    bars: tuple[Bar, ...]

    @property
    def is_unused(self) -> bool:
        """Whether no message reached the rule."""
        return not self.messages and not self.succeeded and not self.failed

    @property
    def only_failed(self) -> bool:
        """Whether all its attempts failed."""
        return bool(self.failed) and not self.succeeded


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of two tables: its number in each, 0 in a table that lacks it."""

    old: int
    new: int
    text: str

    @property
    def kind(self) -> str:
        """How the tables differ here: "added", "removed" or "same"."""
        return "same" if self.old and self.new else "added" if self.new else "removed"


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The difference of two tables: of their text, and, if both are valid, of their meaning."""

    lines: tuple[DiffLine, ...]
    meaning: Comparison | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TodaysTable:
    """The table that the next run would read; `error` says why it could not."""

    source: str
    error: str
    diff: TableDiff | None


@dataclass(frozen=True, slots=True)
class RulesPage:
    """A handler's rules. Without a run that has read a table, only `today` is known."""

    run: Run | None
    is_newest: bool
    lines: tuple[NumberedLine, ...]
    findings: int
    rules: tuple[UsedRule, ...]
    counted: CountedRuns | None
    attempted_runs: int
    periods: tuple[TablePeriod, ...]
    chosen: tuple[str, str]
    diff: TableDiff | None
    today: TodaysTable


def show_rules(handler: str, query: Mapping[str, str], ledger: Ledger) -> RulesPage:
    """Return the rules of a run of a handler, by default of the newest run with a table.

    Raises NotFoundError if the handler has no such run.
    """
    newest = ledger.rules_in_use.newest_run(handler)
    run_id = query.get("run_id", "") or newest
    run = ledger.runs.get(run_id) if run_id else None
    if run_id and (run is None or run.handler != handler):
        raise NotFoundError(
            "MQDLQ-988",
            f"The handler {handler} has no run {run_id!r}, so its rules are not known; choose one"
            " from the list of its runs",
        )
    configured, trouble = _configured(handler)
    levels = configured.lint if configured is not None else NO_RULES
    chosen = (query.get("from", ""), query.get("to", ""))
    today = _today(configured, trouble, ledger.runs.get(newest) if newest else None)
    periods = tuple(ledger.rules_in_use.periods(handler))
    if run is None:
        return RulesPage(None, True, (), 0, (), None, 0, periods, chosen, None, today)
    found = promote(
        review(
            run.rules_text, queue=run.queue, queue_manager=run.queue_manager, frozen=True
        ).diagnostics,
        levels,
    )
    rules, attempted = _used_rules(handler, run, ledger)
    return RulesPage(
        run=run,
        is_newest=run_id == newest,
        lines=_numbered(run.rules_text, found),
        findings=len(found),
        rules=rules,
        counted=ledger.rules_in_use.counted(handler, run.rules_digest),
        attempted_runs=attempted,
        periods=periods,
        chosen=chosen,
        diff=_diff_of(handler, chosen, ledger),
        today=today,
    )


def _configured(handler: str) -> tuple[Handler | None, str]:
    try:
        return load_handler(handler), ""
    except (MqDlqError, HomeError) as error:
        return None, error.text


def _today(configured: Handler | None, trouble: str, newest: Run | None) -> TodaysTable:
    if configured is None:
        return TodaysTable("", trouble, None)
    try:
        source, text = configured.rules_text()
    except (MqDlqError, ValueError) as error:
        return TodaysTable(str(configured.rules or ""), getattr(error, "text", str(error)), None)
    if newest is None:
        return TodaysTable(source, "", diff_tables("", text))
    same = text == newest.rules_text
    return TodaysTable(source, "", None if same else diff_tables(newest.rules_text, text))


def _numbered(text: str, found: Sequence[Diagnostic]) -> tuple[NumberedLine, ...]:
    by_line: dict[int, list[Diagnostic]] = defaultdict(list)
    for diagnostic in found:
        by_line[diagnostic.line].append(diagnostic)
    starts = {written.line: ordinal for ordinal, written in written_rules(text).items()}
    return tuple(
        NumberedLine(number, line.rstrip("\r"), starts.get(number, 0), tuple(by_line[number]))
        for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1)
    )


def _used_rules(handler: str, run: Run, ledger: Ledger) -> tuple[tuple[UsedRule, ...], int]:
    """Return the rules of a run's table with their use, and how many runs' attempts count."""
    uses = ledger.rules_in_use.uses(handler, run.rules_digest)
    newest = ledger.rules_in_use.newest_runs(handler, run.rules_digest, MOST_ATTEMPTED)
    succeeded: Counter[int] = Counter()
    reasons: dict[int, Counter[int]] = defaultdict(Counter)
    for one in ledger.rules_in_use.attempts(newest):
        if one.state is AttemptState.CONFIRMED:
            succeeded[one.rule] += one.attempts
        else:
            reasons[one.rule][one.mqrc] += one.attempts
    by_rule: dict[int, list[RuleUse]] = defaultdict(list)
    for use in uses:
        by_rule[use.rule].append(use)
    shown = list(dict.fromkeys((use.started_at, use.run_id) for use in uses))[-MOST_BARS:]
    written = written_rules(run.rules_text)
    found = []
    for ordinal in [*written, *([0] if by_rule[0] else [])]:
        outcomes: Counter[Outcome] = Counter()
        for use in by_rule[ordinal]:
            outcomes[use.outcome] += use.messages
        rule = written.get(ordinal)
        found.append(
            UsedRule(
                ordinal=ordinal,
                line=rule.line if rule is not None else 0,
                text=rule.text if rule is not None else "",
                messages=outcomes.total(),
                runs=len({use.run_id for use in by_rule[ordinal]}),
                last_at=max((use.started_at for use in by_rule[ordinal]), default=None),
                outcomes={one: outcomes[one] for one in Outcome if outcomes[one]},
                succeeded=succeeded[ordinal],
                failed=reasons[ordinal].total(),
                reasons=dict(reasons[ordinal].most_common()),
                bars=_bars(by_rule[ordinal], shown),
            )
        )
    return tuple(found), len(newest)


def _bars(uses: Sequence[RuleUse], shown: Sequence[tuple[datetime, str]]) -> tuple[Bar, ...]:
    counted: Counter[str] = Counter()
    for use in uses:
        counted[use.run_id] += use.messages
    tallest = max((counted[run_id] for _, run_id in shown), default=0)
    step = 1000 / MOST_BARS
    bars = []
    for place, (at, run_id) in enumerate(shown):
        if number := counted[run_id]:
            height = max(1.0, HEIGHT * number / tallest)
            title = f"{at:%Y-%m-%d %H:%M}: {number:,}"
            x, y = round(place * step, 2), round(HEIGHT - height, 2)
            bars.append(Bar(x, y, round(step * 0.8, 2), round(height, 2), title))
    return tuple(bars)


def _diff_of(handler: str, chosen: tuple[str, str], ledger: Ledger) -> TableDiff | None:
    if not all(chosen):
        return None
    texts = []
    for digest in chosen:
        run = ledger.runs.get(ledger.rules_in_use.newest_run(handler, digest))
        if run is None:
            raise NotFoundError(
                "MQDLQ-989",
                f"No run of the handler {handler} has read a rules table {digest!r}; choose one"
                " from the list of its tables",
            )
        texts.append(run.rules_text)
    return diff_tables(*texts)


def diff_tables(old: str, new: str) -> TableDiff:
    """Return the difference of two tables' texts, line by line, and of their meaning."""
    before, after = old.splitlines(), new.splitlines()
    lines: list[DiffLine] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            lines += [DiffLine(i + n + 1, k + n + 1, before[i + n]) for n in range(j - i)]
        else:
            lines += [DiffLine(n + 1, 0, before[n]) for n in range(i, j)]
            lines += [DiffLine(0, n + 1, after[n]) for n in range(k, m)]
    tables = [check(text, frozen=True).table for text in (old, new)]
    meaning = compare(tables[0], tables[1]) if tables[0] and tables[1] else None
    return TableDiff(tuple(lines), meaning, tuple(_changes(meaning)) if meaning else ())


def _changes(meaning: Comparison) -> list[str]:
    """Return the differences in meaning, a line for each."""
    found = [
        f"{keyword}: {old or 'default'} -> {new or 'default'}"
        for keyword, old, new in meaning.control
    ]
    for change in meaning.rules:
        rules = [rule for rule in (change.old, change.new) if rule]
        texts = list(dict.fromkeys(rule_text(rule) for rule in rules))
        place = " -> ".join(str(rule.line) for rule in rules)
        found.append(f"{change.change}, line {place}: {' -> '.join(texts)}")
    return found


def is_error(diagnostic: Diagnostic) -> bool:
    """Whether a finding rejects the table."""
    return diagnostic.severity is Severity.ERROR


# Route: the rules of a handler.

router: Final = APIRouter(route_class=PageRoute)


@router.get("/dags/{dag_id}/rules")
def rules(request: Request, handler: HandlerDep, ledger: LedgerDep) -> HTMLResponse:
    """Show the rules of a run of this handler, and what each rule did."""
    page = show_rules(handler.name, request.query_params, ledger)
    return render(request, "rules/rules.html", page=page, chart_height=HEIGHT, is_error=is_error)
