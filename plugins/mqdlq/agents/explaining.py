"""Tools that explain: a message by the rules, a reason, a diagnosis, a dump, a rules table."""

from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from mqdlq.agents.answers import (
    MOST_ROWS,
    Answer,
    Argument,
    Caller,
    CauseId,
    Handler,
    Listing,
    Moment,
    Name,
    RefusedError,
    Rows,
    Text,
    Untrusted,
    harmless,
    part,
    untrusted,
)
from mqdlq.agents.looking import Finding, OneMessage, findings_of, row_of
from mqdlq.causes import advice_on
from mqdlq.constants import reason_text
from mqdlq.diagnosis.subjects import read_subjects
from mqdlq.error_catalogue import entries, without_links
from mqdlq.handlers import load_handler
from mqdlq.lake.filters import FilterError, reason_number
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import MessageClass
from mqdlq.reading.explanations import explained_rules
from mqdlq.rules import RulesError, RulesTable, explain, with_nuls_as_blanks
from mqdlq.rules.lint import review
from mqdlq.stages.diagnosing import MOST_CAUSES, diagnose_causes
from mqdlq.stages.run_options import RunOptions, read_rules
from mqdlq.stages.sense import select_queue_manager
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.tools import rule_drafts
from mqdlq.tools.acting import Sources
from mqdlq.tools.dumps import read_pasted
from mqdlq.tools.pasted_rows import pasted_values

SNAPSHOTS = 5
"""How many of the newest snapshots a backtest reads at most."""
MOST_COMPARED = 20_000
"""How many messages a backtest compares at most."""


class ExplainedRule(Answer):
    """A rule as a message meets it: whether it matches, and otherwise why not."""

    line: int
    text: str
    matches: bool
    is_tried: bool
    untrusted: Untrusted


class Explanation(Answer):
    """The rules as a message meets them, in the order of the table, at most 50."""

    message_key: str
    message_class: str
    rules: list[ExplainedRule]


def explain_message(asked: OneMessage, by: Caller) -> Explanation:
    sources = by.of(asked.handler)
    _, row = row_of(asked, sources)
    handler = load_handler(asked.handler)
    _, _, table = read_rules(handler, RunOptions())
    values = with_nuls_as_blanks(row) if handler.nul_as_blank else row
    return Explanation(
        message_key=row["message_key"].hex(),
        message_class=row["class"],
        rules=_explained(table, MessageClass(row["class"]), values),
    )


def _explained(table: RulesTable, cls: MessageClass, values: Any) -> list[ExplainedRule]:
    if not table.acts_on(cls):
        return []
    return [
        ExplainedRule(untrusted=untrusted(why=one.pop("why")), **one)
        for one in explained_rules(explain(table, values))[:MOST_ROWS]
    ]


class OneReason(Argument):
    """The reason code that is asked for."""

    reason: Annotated[
        Name | int,
        Field(description="A reason code such as 2053, or its name such as MQRC_Q_FULL."),
    ]


class Reason(Answer):
    """What a reason code means, who can end it, and what to do."""

    reason: str
    meaning: str
    kind: str
    advice: str
    retry_succeeds: str


def explain_reason(asked: OneReason, by: Caller) -> Reason:
    del by
    number = reason_number(str(asked.reason).strip())
    if number is None:
        raise FilterError("reason", f"found {harmless(asked.reason)!r}", "2053 or MQRC_Q_FULL")
    known = advice_on(number)
    return Reason.of(
        known,
        reason=reason_text(number),
        kind=known.kind.words,
        retry_succeeds=known.retry_until,
    )


class OneError(Argument):
    """The error that is asked for."""

    error_id: Annotated[Name, Field(description="Such as MQDLQ-100.")]


class Error(Answer):
    """What an error says, where to look, and what to do."""

    error_id: str
    texts: list[str]
    look: str
    do: str


def explain_error(asked: OneError, by: Caller) -> Error:
    del by
    known = entries().get(asked.error_id.upper())
    if known is None:
        text = f"no error has the id {harmless(asked.error_id)!r}; expected one such as MQDLQ-100"
        raise RefusedError("MQDLQ-944", text)
    return Error.of(
        known,
        texts=list(known.texts()),
        look=without_links(known.look),
        do=without_links(known.do),
    )


class Diagnose(Argument):
    """The handler to diagnose, and one of its causes; without it, those with most messages."""

    handler: Handler
    cause_id: CauseId = ""


class Obstacle(Answer):
    """What is in the way of a put to the destination of a cause, now."""

    cause_id: str
    messages: int
    outlook: str
    asked_at: Moment
    inquiries: int
    untrusted: Untrusted


class Diagnoses(Answer):
    """What is in the way of the causes; commands are for a person, and nobody has run them."""

    queue_manager: str
    queue: str
    rows: list[Obstacle]


def newest(sources: Sources) -> tuple[Run, TakenSnapshot]:
    """Return the newest run and snapshot of the queue that a handler handled last."""
    known, handler = sources.ledger.handled_queues, sources.handler
    for where in known.of_handler(handler):
        run, taken = known.newest_run(handler, *where), known.newest_snapshot(handler, *where)
        if run is not None and taken is not None:
            return run, taken
    text = f"no run of handler {handler} has a snapshot; a person can start its DAG as a dry run"
    raise RefusedError("MQDLQ-964", text)


def diagnose(asked: Diagnose, by: Caller) -> Diagnoses:
    sources = by.of(asked.handler)
    run, taken = newest(sources)
    found = read_subjects(taken.location, run.queue, cause_id=asked.cause_id.lower())
    subjects = dict(islice(found.items(), MOST_CAUSES))
    settings = by.settings(load_handler(asked.handler).connection)
    there = select_queue_manager(settings, run.queue_manager)
    diagnosed = diagnose_causes(there, subjects, sources.clock) if subjects else {}
    rows = [
        Obstacle.of(
            *(cause, subjects[cause]),
            outlook=one.outlook.words,
            asked_at=one.at,
            inquiries=len(one.inquiries),
            untrusted=untrusted(
                destination=cause.dest_q_name,
                findings=[each.text for each in one.findings],
                commands_for_a_person=[line for each in one.findings for line in each.commands],
            ),
        )
        for cause, one in diagnosed.items()
    ]
    return Diagnoses(queue_manager=run.queue_manager, queue=run.queue, rows=rows)


class ExplainDump(Listing):
    """A pasted dump, and the handler whose rules its messages meet."""

    handler: Handler
    dump: Annotated[
        Text,
        Field(description="The output of amqsbcg or dmpmqmsg, or hexadecimal digits of a message."),
    ]


class Pasted(Answer):
    """A message of a dump, its class, and the rules as it meets them."""

    line: int
    message_class: str
    total_bytes: int
    rules: list[ExplainedRule]


class Dump(Rows[Pasted]):
    """The messages of a dump."""


def explain_dump(asked: ExplainDump, by: Caller) -> Dump:
    by.of(asked.handler)
    handler = load_handler(asked.handler)
    _, _, table = read_rules(handler, RunOptions())
    matches = PropertyMatches(table)

    def pasted(numbered: tuple[int, Any]) -> Pasted:
        number, one = numbered
        cls, values = pasted_values(number, one, matches)
        if handler.nul_as_blank:
            values = with_nuls_as_blanks(values)
        return Pasted(
            line=one.line,
            message_class=cls,
            total_bytes=one.total_length,
            rules=_explained(table, cls, values),
        )

    return part(Dump, enumerate(read_pasted(asked.dump), start=1), asked, pasted)


class CheckRules(Argument):
    """The text of a rules table."""

    table: Annotated[Text, Field(description="The text of a rules table, or of some rules.")]


class Checked(Answer):
    """Whether a table is valid, and what its check and the linter found, at most 50 findings."""

    is_valid: bool
    rules: int
    findings: list[Finding]


def check_rules(asked: CheckRules, by: Caller) -> Checked:
    del by
    found = review(asked.table, "table")
    return Checked(
        is_valid=found.table is not None,
        rules=len(found.table.rules) if found.table else 0,
        findings=findings_of(found.diagnostics),
    )


class CompareRules(Argument):
    """A handler, and the text of a table to compare with the one of its newest run."""

    handler: Handler
    table: Annotated[Text, Field(description="The text of the whole new table.")]


class Treatment(Answer):
    """Messages that the two tables treat differently."""

    messages: int
    untrusted: Untrusted


class Compared(Answer):
    """What two tables do with the messages of past snapshots; the most frequent changes."""

    messages: int
    different: int
    snapshots: list[str]
    skipped_snapshots: int
    changes: list[Treatment]


def compare_rules(asked: CompareRules, by: Caller) -> Compared:
    sources = by.of(asked.handler)
    run, _ = newest(sources)
    today = table_of(run, run.rules_text)
    return compared(rule_drafts.backtest(today, table_of(run, asked.table), past(run, sources)))


def table_of(run: Run, text: str) -> RulesTable:
    """Return a table for the queue of a run; raise RulesError."""
    found = review(text, "table", run.queue_kind, frozen=True)
    if found.table is None:
        raise RulesError(found.diagnostics)
    return found.table


def past(run: Run, sources: Sources) -> rule_drafts.ChosenSnapshots:
    """Return the newest snapshots of a run's queue, for a backtest."""
    where = (run.handler, run.queue_manager, run.queue)
    taken = sources.ledger.handled_queues.snapshots(*where, limit=SNAPSHOTS)
    return rule_drafts.choose_snapshots(taken, nul_as_blank=run.nul_as_blank, most=MOST_COMPARED)


def compared(tested: rule_drafts.Backtest) -> Compared:
    found = tested.treatments
    return Compared.of(
        found,
        snapshots=[one.manifest.snapshot_id for one in tested.used],
        skipped_snapshots=len(tested.skipped),
        changes=[
            Treatment(messages=one.messages, untrusted=untrusted(before=one.old, after=one.new))
            for one in found.cells[:MOST_ROWS]
        ],
    )
