"""Tools that look: causes, messages by header fields, runs and their accounts, rules, the audit."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from mqdlq.agents.answers import (
    MOST_ROWS,
    Answer,
    AnyHandler,
    Argument,
    Caller,
    CauseId,
    Condition,
    Cut,
    Handler,
    Listing,
    MessageKey,
    Moment,
    RefusedError,
    Rows,
    RunId,
    Untrusted,
    ahead,
    cut,
    harmless,
    in_counts,
    part,
    untrusted,
)
from mqdlq.constants import reason_text
from mqdlq.handlers import load_handler
from mqdlq.lake.filters import MessageFilter, parse_where
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.reading.message_facts import UNKNOWN_MESSAGE, KnownSnapshot
from mqdlq.ledger.reading.runs import RunFacts, RunFilter
from mqdlq.ledger.tables import AuditEvent
from mqdlq.reading.find import FoundMessage, Search, find_row, found_message
from mqdlq.reading.inbox import InboxRow, read_inbox
from mqdlq.reading.message import shown_headers, timeline
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.files import read_ended_report
from mqdlq.rules.lint import review
from mqdlq.tools.acting import Sources
from mqdlq.words import place


class Queue(Answer):
    """A queue that runs of a handler have handled."""

    handler: str
    queue_manager: str
    queue: str
    newest_run: str
    may_propose: bool


class Queues(Rows[Queue]):
    """Handlers with the queues that their runs handled."""


def list_handlers(asked: Listing, by: Caller) -> Queues:
    def queues() -> Iterator[Queue]:
        for name in sorted(by.handlers):
            known, may = by.of(name).ledger.handled_queues, by.may_act(name)
            for where in known.of_handler(name) or [("", "")]:
                run = known.newest_run(name, *where) if where[1] else None
                newest = run.run_id if run else ""
                names = dict(zip(("queue_manager", "queue"), where, strict=True))
                yield Queue(handler=name, newest_run=newest, may_propose=may, **names)

    return part(Queues, queues(), asked, lambda one: one)


class ListCauses(Listing):
    """The handler whose causes are asked for."""

    handler: AnyHandler = ""


class CauseRow(Answer):
    """A cause of dead letters on all queues that the person may read, with its messages now."""

    cause_id: str
    reason: str
    state: str
    messages: int
    need_attention: int
    expire_within_a_day: int
    is_arriving: bool
    first_at: Moment
    last_at: Moment
    handlers: list[str]
    queue_managers: list[str]
    address: str
    untrusted: Untrusted


class Causes(Rows[CauseRow]):
    """Causes, those that need attention first."""


def list_causes(asked: ListCauses, by: Caller) -> Causes:
    return part(Causes, _inbox(asked.handler, by), asked, lambda row: _cause(row, by))


def _inbox(handler: str, by: Caller) -> list[InboxRow]:
    sources = by.sources("")
    found = read_inbox(sources.ledger, by.among(handler), sources.clock())
    there = (row for row in found if row.numbers.messages)
    return sorted(
        there, key=lambda row: (-row.numbers.attention, -row.numbers.messages, row.numbers.cause_id)
    )


def _cause(row: InboxRow, by: Caller) -> CauseRow:
    numbers, cause = row.numbers, row.cause
    where = place(cause.dest_q_name, cause.dest_q_mgr_name) if cause.dest_q_name else ""
    return CauseRow.of(
        row,
        numbers,
        reason=reason_text(cause.reason),
        state=row.standing.words,
        need_attention=numbers.attention,
        expire_within_a_day=numbers.expiring,
        address=by.paths.known_cause(cause.cause_id),
        untrusted=untrusted(destination=where, applications=list(row.applications)),
    )


class ShowCause(Argument):
    """The cause that is asked for."""

    cause_id: CauseId


class CausePlace(Answer):
    """The messages of a cause on one queue."""

    handler: str
    queue_manager: str
    queue: str
    messages: int
    need_attention: int


class Said(Answer):
    """What a person said of a cause, and when."""

    at: Moment
    kind: str
    untrusted: Untrusted


class Cause(Answer):
    """A cause with its queues, and what people said of it."""

    cause: CauseRow
    places: list[CausePlace]
    said: list[Said]


def show_cause(asked: ShowCause, by: Caller) -> Cause:
    row = next((one for one in _inbox("", by) if one.cause.cause_id == asked.cause_id), None)
    if row is None or not asked.cause_id:
        raise RefusedError(
            "MQDLQ-999",
            f"No message of the cause {harmless(asked.cause_id)!r} is on a queue that {by.person}"
            " may see; choose a cause from list_causes",
        )
    changes = by.sources("").ledger.cause_changes.of_cause(asked.cause_id)
    places = [
        CausePlace(
            handler=one.handler,
            queue_manager=one.place[0],
            queue=one.place[1],
            messages=one.numbers.messages,
            need_attention=one.numbers.attention,
        )
        for one in row.places
    ]
    said = [
        Said.of(one, kind=one.kind.words, untrusted=untrusted(who=one.who, text=one.value))
        for one in changes[-MOST_ROWS:]
    ]
    return Cause(cause=_cause(row, by), places=places[:MOST_ROWS], said=said)


class FindMessages(Listing):
    """The messages that are asked for."""

    handler: Handler
    where: Condition = ""


class MessageRow(Answer):
    """A message in its newest snapshot, with its last outcome; a body is never shown."""

    handler: str
    message_key: str
    queue_manager: str
    queue: str
    reason: str
    cause_id: str
    since: Moment
    expires_at: Moment
    bytes: int
    outcome: str
    has_left_the_queue: bool
    address: str
    untrusted: Untrusted


class Messages(Rows[MessageRow]):
    """Messages, those of the newest snapshot first."""


def find_messages(asked: FindMessages, by: Caller) -> Messages:
    chosen, sources = filter_of(asked.where), by.of(asked.handler)
    search = Search(chosen, [asked.handler], sources.ledger, sources.lake_root)
    found = search.messages(asked.cursor + asked.limit + 1)
    return part(Messages, found, asked, lambda one: _message(one, by))


def filter_of(where: str) -> MessageFilter:
    """Return the filter that a condition means; raise FilterError for one that is not valid."""
    if not where.strip():
        return MessageFilter()
    given = {name: str(value) for name, value in parse_where(where).parameters().items()}
    return MessageFilter.parse(given)


def _message(one: FoundMessage, by: Caller) -> MessageRow:
    where = place(one.dest_q_name, one.dest_q_mgr_name) if one.dest_q_name else ""
    return MessageRow.of(
        one,
        reason=one.why_dead,
        bytes=one.total_length,
        outcome=one.outcome.words if one.outcome else "",
        has_left_the_queue=one.has_departed,
        address=by.paths.message(one.handler, one.message_key),
        untrusted=untrusted(
            destination=where,
            application=one.put_appl_name,
            user=one.user_identifier,
            format=one.format,
        ),
    )


class OneMessage(Argument):
    """The message that is asked for."""

    handler: Handler
    message_key: MessageKey


class Event(Answer):
    """Something that happened to a message."""

    at: Moment
    kind: str
    run_id: str
    untrusted: Untrusted


class MessageStory(Answer):
    """A message with its header fields, and its events, the last 50."""

    message: MessageRow
    headers: Untrusted
    events: list[Event]


def row_of(asked: OneMessage, sources: Sources) -> tuple[KnownSnapshot, dict[str, Any]]:
    """Return the row of a message with its snapshot; raise RefusedError, MessageKeyError."""
    ledger, handler = sources.ledger, sources.handler
    (key,) = ledger.message_facts.complete([asked.message_key], [handler])
    stored: dict[str, Any] = {"ledger": ledger, "lake_root": sources.lake_root}
    found = find_row(key, handler, columns=HEADERS.names, **stored)
    if found is None:
        raise RefusedError(
            "MQDLQ-941",
            f"The snapshots of handler {handler} do not have the message {key}; it may be pruned,"
            " so search for it by find_messages",
        )
    return found


def show_message(asked: OneMessage, by: Caller) -> MessageStory:
    sources = by.of(asked.handler)
    snapshot, row = row_of(asked, sources)
    ledger, key = sources.ledger, row["message_key"]
    where = (snapshot.queue_manager, snapshot.queue)
    state = ledger.message_facts.states(*where, [key]).get(key, UNKNOWN_MESSAGE)
    shown = found_message(snapshot, row, state)
    history = ledger.message_facts.history(sources.handler, *where, key)
    looks = AuditFilter(message_key=key.hex(), handlers=[sources.handler])
    events = timeline(row, history, ledger.audit_trail.page(looks, limit=MOST_ROWS))
    headers = {
        f"{name}.{field}": value
        for name, fields in shown_headers(row)
        for field, value, _ in fields
        if value
    }
    return MessageStory(
        message=_message(shown, by),
        headers=untrusted(**dict(islice(headers.items(), 2 * MOST_ROWS))),
        events=[
            Event.of(one, untrusted=untrusted(text=one.text, who=one.who))
            for one in events[-MOST_ROWS:]
        ],
    )


class ListRuns(Listing):
    """The handler whose runs are asked for."""

    handler: Handler


class RunRow(Answer):
    """A run in brief; the verdict is that of its report, empty before it."""

    run_id: str
    kind: str
    started_at: Moment
    ended_at: Moment
    verdict: str
    dry_run: bool
    queue_manager: str
    queue: str
    messages: int
    waits_for_approval: bool
    address: str
    untrusted: Untrusted


class Runs(Rows[RunRow]):
    """Runs, the newest first."""


def list_runs(asked: ListRuns, by: Caller) -> Runs:
    lists = by.of(asked.handler).ledger.run_lists
    found = lists.page(asked.handler, RunFilter(), offset=asked.cursor, limit=asked.limit + 1)
    return ahead(Runs, found, asked, lambda one: _run_row(one, asked.handler, by))


def _run_row(one: RunFacts, handler: str, by: Caller) -> RunRow:
    return RunRow.of(
        one,
        messages=one.messages or 0,
        waits_for_approval=one.asked_at is not None,
        address=by.paths.run(handler, one.run_id),
        untrusted=untrusted(started_by=one.started_by, why=one.asked_why),
    )


class OneRun(Argument):
    """The run that is asked for."""

    run_id: RunId


class RunAccount(Answer):
    """The account of a run: every message of its snapshot against its outcomes."""

    run_id: str
    handler: str
    verdict: str
    queue_manager: str
    queue: str
    dry_run: bool
    started_at: Moment
    ended_at: Moment
    plan_hash: str
    messages: int
    outcomes: dict[str, int]
    settled_before: int
    adds_up: bool
    need_attention: int
    address: str
    untrusted: Untrusted


def report_of(run_id: str, by: Caller) -> Report:
    """Return the report of a run that the person may read; raise RefusedError."""
    sources = by.sources("")
    run = sources.ledger.runs.get(run_id)
    if run is None or run.handler not in by.handlers:
        raise RefusedError(
            "MQDLQ-999",
            f"The run {harmless(run_id)!r} does not exist, or {by.person} may not see it; choose"
            " one from list_runs",
        )
    return read_ended_report(
        run_id, ledger=sources.ledger, lake_root=sources.lake_root, now=sources.clock()
    )


def show_run(asked: OneRun, by: Caller) -> RunAccount:
    report = report_of(asked.run_id, by)
    run, account, plan = report.run, report.account, report.sources.plan
    assert run is not None  # `report_of` has found it  # noqa: S101
    return RunAccount.of(
        report,
        run,
        plan_hash=plan.plan_hash if plan else "",
        messages=account.messages if account else 0,
        outcomes=in_counts(account.outcomes) if account else {},
        settled_before=account.settled if account else 0,
        need_attention=report.needs_attention,
        address=by.paths.run(run.handler, run.run_id),
        untrusted=untrusted(
            headline=report.headline,
            why=report.why,
            differences=account.differences if account else (),
            started_by=run.started_by,
        ),
    )


class ReportedRule(Answer):
    """How many messages a rule's action ended in one outcome."""

    line: int
    action: str
    outcome: str
    messages: int
    untrusted: Untrusted


class Trouble(Answer):
    """Messages that need attention for the same trouble; the first key stands for all."""

    messages: int
    outcome: str
    reason: str
    cause_id: str
    message_key: str
    untrusted: Untrusted


class ReportedCause(Answer):
    """A cause in the snapshot of a run."""

    cause_id: str
    reason: str
    messages: int
    untrusted: Untrusted


class RunReport(Answer):
    """A report in brief: at most 50 rules, causes and troubles, the largest first."""

    account: RunAccount
    rules: list[ReportedRule]
    causes: list[ReportedCause]
    troubles: list[Trouble]
    failures: list[str]


def show_report(asked: OneRun, by: Caller) -> RunReport:
    report = report_of(asked.run_id, by)
    return RunReport(
        account=show_run(asked, by),
        rules=[
            ReportedRule.of(
                one,
                action=one.action or "",
                untrusted=untrusted(target=one.target_q and place(one.target_q, one.target_q_mgr)),
            )
            for one in report.rules[:MOST_ROWS]
        ],
        causes=[
            ReportedCause.of(
                *(one, one.cause),
                reason=reason_text(one.cause.reason),
                untrusted=untrusted(destination=one.cause.dest_q_name),
            )
            for one in report.causes[:MOST_ROWS]
        ],
        troubles=[
            Trouble.of(
                *(one, one.first),
                outcome=str(one.first.outcome or ""),
                reason=one.first.reason_text,
                untrusted=untrusted(why=one.first.why, destination=one.first.dest_q_name),
            )
            for one in report.attention_groups[:MOST_ROWS]
        ],
        failures=[f"{one.task} {one.error_id}".strip() for one in report.failures[:MOST_ROWS]],
    )


class OneHandler(Argument):
    """The handler that is asked for."""

    handler: Handler


class Finding(Answer):
    """A finding about a rules table, at a line."""

    line: int
    severity: str
    code: str
    untrusted: Untrusted


class Rules(Answer):
    """The rules table that the next run would read, with what the linter finds in it."""

    handler: str
    source: str
    table: Cut
    findings: list[Finding]


def show_rules(asked: OneHandler, by: Caller) -> Rules:
    by.of(asked.handler)
    handler = load_handler(asked.handler)
    source, text = handler.rules_text()
    found = review(text, source, handler.queue_kind, frozen=True).diagnostics
    return Rules(
        handler=asked.handler,
        source=source.rpartition("/")[2],
        table=cut(text),
        findings=findings_of(found),
    )


def findings_of(found: Any) -> list[Finding]:
    return [Finding.of(one, untrusted=untrusted(message=one.message)) for one in found[:MOST_ROWS]]


class ListAudit(Listing):
    """The handler whose audit is asked for."""

    handler: AnyHandler = ""


class AuditRow(Answer):
    """An event of the audit: who did what, when."""

    at: Moment
    what: str
    handler: str
    run_id: str
    message_key: str
    messages: int
    untrusted: Untrusted


class Events(Rows[AuditRow]):
    """Events of the audit, the newest first."""


def list_audit(asked: ListAudit, by: Caller) -> Events:
    wanted = AuditFilter(handlers=by.among(asked.handler), handler=asked.handler)
    trail = by.sources("").ledger.audit_trail
    found = trail.page(wanted, offset=asked.cursor, limit=asked.limit + 1)
    return ahead(Events, found, asked, _event)


def _event(one: AuditEvent) -> AuditRow:
    said = untrusted(who=one.who, why=one.why, details=one.details)
    return AuditRow.of(one, what=one.what.words, untrusted=said)
