"""Tools that propose: a plan that a person may start, and a draft of a rule for a pull request."""

from pathlib import PurePath
from typing import Annotated, Final

from pydantic import Field

from mqdlq.agents.answers import (
    MOST_ROWS,
    Answer,
    Argument,
    Caller,
    CauseId,
    Condition,
    Handler,
    MessageKey,
    Moment,
    Name,
    RefusedError,
    RunId,
    Untrusted,
    harmless,
    untrusted,
)
from mqdlq.agents.explaining import Compared, compared, newest, past, table_of
from mqdlq.agents.looking import Finding, filter_of, findings_of
from mqdlq.diagnosis.subjects import read_subjects
from mqdlq.handlers import load_handler
from mqdlq.model import QueueKind
from mqdlq.stages.proposals import WITH, mark_of, proposals_of
from mqdlq.tools import rule_drafts
from mqdlq.tools.acting import Preview, Selection, Verb, build_preview, parse_action
from mqdlq.tools.rule_suggestions import draft_rule as rule_of
from mqdlq.tools.rule_suggestions import parking_queue_of

_ENDS: Final = "Nothing is done until a person starts it at the address."


class ProposeAction(Argument):
    """An action on messages: those of a condition, or those with keys; for restore, of a run."""

    handler: Handler
    action: Annotated[Name, Field(description=f"One of {', '.join(Verb)}.")]
    where: Condition = ""
    message_keys: Annotated[tuple[MessageKey, ...], Field(max_length=MOST_ROWS)] = ()
    discarded_by: Annotated[RunId, Field(description="For restore: the run that discarded.")] = ""
    to_queue: Annotated[Name, Field(description="For forward and restore.")] = ""
    to_queue_manager: Name = ""
    keep_header: Annotated[bool, Field(description="Keep the dead-letter header.")] = True
    why: Annotated[Name, Field(description="Why, for the person who decides.")] = ""


class Part(Answer):
    """How many messages have something in common, which is text of messages."""

    messages: int
    untrusted: Untrusted


class Plan(Answer):
    """A plan as a person will see it, by its hash; nothing is done, and nothing is started."""

    plan_hash: str
    handler: str
    queue: str
    action: str
    effect: str
    undo: str
    messages: int
    bytes: int
    expire_within_a_day: int
    by_cause: list[Part]
    by_target: list[Part]
    left_out: list[Part]
    can_be_started: bool
    needs_a_reason: bool
    needs_a_second_person: bool
    guards_will_ask: list[Untrusted]
    how_long: str
    what_is_next: str
    address: str
    marks: list[str]


def propose_action(asked: ProposeAction, by: Caller) -> Plan:
    return _plan(preview_of(asked, by), by)


def preview_of(asked: ProposeAction, by: Caller) -> Preview:
    """Return what an action would do now; raise RefusedError for one that is not clear."""
    sources = by.of(asked.handler)
    ways = [asked.where.strip(), asked.message_keys, asked.discarded_by.strip()]
    if sum(map(bool, ways)) != 1:
        text = "name messages by one of where, message_keys and discarded_by"
        raise RefusedError("MQDLQ-943", text)
    wanted = parse_action(
        {
            "action": asked.action,
            "to_queue": asked.to_queue,
            "to_queue_manager": asked.to_queue_manager,
            "header": "yes" if asked.keep_header else "no",
        }
    )
    if wanted is None or (asked.discarded_by and wanted.verb is not Verb.RESTORE):
        raise RefusedError("MQDLQ-943", f"name an action of {', '.join(Verb)}; a run for restore")
    selection = Selection(
        asked.message_keys,
        asked.discarded_by.strip(),
        filter_of(asked.where) if asked.where.strip() else None,
    )
    return build_preview(selection, wanted, load_handler(asked.handler), sources)


def _plan(preview: Preview, by: Caller) -> Plan:
    given = preview.selection.parameters() | preview.asked.parameters()
    shown = given | {"proposed": preview.digest}
    verb = preview.asked.verb
    return Plan.of(
        preview,
        plan_hash=preview.digest,
        queue=preview.where,
        action=verb.words,
        effect=verb.effect,
        undo=verb.undo,
        bytes=preview.size,
        expire_within_a_day=preview.soon_expired,
        by_cause=_parts(preview.counts("cause"), "cause"),
        by_target=_parts(_targets(preview), "target"),
        left_out=_parts(preview.obstacles, "why"),
        can_be_started=preview.can_start,
        needs_a_reason=preview.needs_reason,
        needs_a_second_person=preview.second_person,
        guards_will_ask=[untrusted(question=one) for one in preview.guards[:MOST_ROWS]],
        how_long=preview.pace,
        what_is_next=_ENDS,
        address=by.paths.act(preview.handler, shown),
        marks=sorted(_marks(preview)),
    )


def _parts(counted: list[tuple[str, int]], name: str) -> list[Part]:
    return [Part(messages=n, untrusted=untrusted(**{name: x})) for x, n in counted[:MOST_ROWS]]


def _targets(preview: Preview) -> list[tuple[str, int]]:
    asked = preview.asked
    if asked.to_queue:
        return [(f"{asked.to_queue} @ {asked.to_queue_manager}".rstrip(" @"), preview.messages)]
    return preview.counts("destination") if asked.verb.puts else []


def _marks(preview: Preview) -> set[str]:
    """Return the marks of the run that a person may start, and of a try with its oldest message."""
    tries = (True, False) if preview.can_start else ()
    confs = [preview.conf(dry_run=False, why="", only_one=one) for one in tries]
    return {
        mark_of(one.get("message_keys", ()), one.get("where", ""), one.get("as_of", ""))
        for one in confs
    }


class OnePlan(Argument):
    """The plan that is asked for."""

    handler: Handler
    plan_hash: Annotated[Name, Field(description="The hash of a proposed plan.")]


class Proposal(Answer):
    """Whose agent proposed a plan, when and why."""

    at: Moment
    untrusted: Untrusted


class ProposedPlan(Answer):
    """A proposed plan: who proposed it, and what its action would do now.

    If `is_still_that_plan` is false, the messages have changed, and nobody can start it.
    """

    proposals: list[Proposal]
    is_still_that_plan: bool
    now: Plan


def show_plan(asked: OnePlan, by: Caller) -> ProposedPlan:
    sources = by.of(asked.handler)
    found = proposals_of(asked.handler, asked.plan_hash.strip(), sources.ledger)
    if not found:
        raise RefusedError(
            "MQDLQ-999",
            f"No agent has proposed a plan {harmless(asked.plan_hash)!r} for handler"
            f" {asked.handler}; take the hash from list_audit",
        )
    given = found[0].details.partition(WITH)[2]
    now = _plan(preview_of(ProposeAction.model_validate_json(given), by), by)
    proposals = [Proposal.of(one, untrusted=untrusted(who=one.who, why=one.why)) for one in found]
    is_same = now.plan_hash == asked.plan_hash.strip()
    return ProposedPlan(proposals=proposals[:MOST_ROWS], is_still_that_plan=is_same, now=now)


class DraftRule(Argument):
    """A cause to draft a rule for, or the text of the rules to add."""

    handler: Handler
    cause_id: CauseId
    rule: Annotated[str, Field(max_length=4_000, description="The rules; empty: a draft.")] = ""


class Draft(Answer):
    """A rule for a pull request: its lines, its place, the difference, and a backtest.

    No file is changed, and no run has the rule before a person has put it into the table.
    """

    file: str
    first_line: int
    untrusted: Untrusted
    findings: list[Finding]
    backtest: Compared


def draft_rule(asked: DraftRule, by: Caller) -> Draft:
    sources = by.of(asked.handler)
    run, taken = newest(sources)
    today = table_of(run, run.rules_text)
    found = read_subjects(taken.location, run.queue, cause_id=asked.cause_id.lower())
    cause, subject = next(iter(found.items()), (None, None))
    if cause is None or subject is None or not asked.cause_id:
        raise RefusedError(
            "MQDLQ-999",
            f"The newest snapshot of handler {asked.handler} has no message of the cause"
            f" {harmless(asked.cause_id)!r}; choose a cause from list_causes",
        )
    if run.queue_kind is QueueKind.BACKOUT or not cause.is_of_dead_letters:
        raise RefusedError("MQDLQ-958", "no rule can match these messages; act on them by keys")
    name = f"{asked.handler}.yaml" if today.extensions else PurePath(run.rules_source).name
    place = (run.queue_manager, run.queue)
    table = rule_drafts.TableInUse(
        name, run.rules_text, today, *place, nul_as_blank=run.nul_as_blank
    )
    text = asked.rule.strip() or rule_of(cause, subject.messages, parking_queue_of(today))
    chosen = past(run, sources)
    proposal = rule_drafts.propose(table, text, chosen[0])
    return Draft(
        file=name,
        first_line=proposal.first,
        untrusted=untrusted(
            rule=proposal.added_text.splitlines(),
            difference=[] if today.extensions else proposal.diff.splitlines(),
        ),
        findings=findings_of(proposal.new_findings),
        backtest=compared(rule_drafts.backtest(today, proposal.table, chosen)),
    )
