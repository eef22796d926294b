"""All tools of agents in one table, from which listing, schemas, permissions, docs and tests come.

A tool that approves, executes, answers a question, reveals a body, mutes or changes a file is not
here, and cannot be switched on.
"""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqdlq.agents import explaining, looking, proposing
from mqdlq.agents.answers import Answer, Argument, Caller, harmless
from mqdlq.headers import DeadLetterHeader
from mqdlq.model import AuditKind, Declared
from mqdlq.stages.proposals import WITH

Noted = Mapping[str, Any]
"""The fields of an event of the audit, but for its time and who it was."""


class Effect(Declared):
    """What a tool does, and whether a second call changes anything more."""

    LOOK = "look", "reads the ledger and the lake"
    EXPLAIN = "explain", "reads, and computes; diagnose also asks the queue manager by inquiries"
    PROPOSE = "propose", "computes a plan that a person may start; only the audit records it"

    words: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its function with typed arguments and answer, its words, and an example.

    In the example, a value in capitals stands for one of an earlier answer. `needs_acting` says
    that the person must be permitted to start runs of the handler. `noted` returns what the audit
    records of an answer.
    """

    run: Callable[[Any, Caller], Answer]
    title: str
    description: str
    effect: Effect
    example: Mapping[str, Any]
    needs_acting: bool = False
    noted: Callable[[Any, Any], Noted] | None = None

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def arguments(self) -> type[Argument]:
        kind: type[Argument] = typing.get_type_hints(self.run)["asked"]
        return kind

    @property
    def answer(self) -> type[Answer]:
        kind: type[Answer] = typing.get_type_hints(self.run)["return"]
        return kind


def _searched(asked: looking.FindMessages, answer: looking.Messages) -> Noted:
    return {
        "what": AuditKind.AGENT_SEARCHED,
        "handler": asked.handler,
        "messages": len(answer.rows),
        "details": asked.where or "all messages",
    }


def _proposed(asked: proposing.ProposeAction, plan: proposing.Plan) -> Noted:
    words = " ".join(("plan", plan.plan_hash, *plan.marks))
    return {
        "what": AuditKind.PLAN_PROPOSED,
        "handler": asked.handler,
        "messages": plan.messages,
        "why": harmless(asked.why),
        "details": f"{words}{WITH}{asked.model_dump_json(exclude_defaults=True)}",
    }


def _drafted(asked: proposing.DraftRule, _draft: proposing.Draft) -> Noted:
    details = f"a draft of a rule for cause {harmless(asked.cause_id)}"
    return {"what": AuditKind.PLAN_PROPOSED, "handler": asked.handler, "details": details}


DUMP: Final = (
    DeadLetterHeader(2053, "PAYMENTS", "QM1", 546, 819, "MQSTR", put_appl_type=6)
    .encode(encoding=546, ccsid=819)
    .hex()
)
"""A dead letter of 172 bytes as hexadecimal digits."""

_LOOK, _EXPLAIN, _PROPOSE = Effect.LOOK, Effect.EXPLAIN, Effect.PROPOSE

TOOLS: Final = (
    Tool(
        looking.list_handlers,
        "List handlers",
        "The handlers that the person may read, with their queues and newest runs. Begin here.",
        _LOOK,
        {},
    ),
    Tool(
        looking.list_causes,
        "Inbox of causes",
        "Why messages are dead: each cause on all queues, those that need attention first.",
        _LOOK,
        {"handler": "demo", "limit": 5},
    ),
    Tool(
        looking.show_cause,
        "One cause",
        "A cause with its messages on each queue, and what people said of it.",
        _LOOK,
        {"cause_id": "CAUSE_ID"},
    ),
    Tool(
        looking.find_messages,
        "Find messages",
        "Messages by a condition on header fields, from the newest snapshots. The audit records"
        " the search. Bodies are neither searched nor shown.",
        _LOOK,
        {"handler": "demo", "where": "reason=MQRC_PUT_INHIBITED and state=on_queue"},
        noted=_searched,
    ),
    Tool(
        looking.show_message,
        "One message",
        "The header fields of a message, and what happened to it over all runs. No body.",
        _LOOK,
        {"handler": "demo", "message_key": "MESSAGE_KEY"},
    ),
    Tool(
        looking.list_runs,
        "Runs",
        "The runs of a handler, the newest first, and whether one waits for an approval.",
        _LOOK,
        {"handler": "demo", "limit": 3},
    ),
    Tool(
        looking.show_run,
        "Account of a run",
        "The account of a run: every message of its snapshot against its outcomes, and its plan.",
        _LOOK,
        {"run_id": "demo-scheduled__last"},
    ),
    Tool(
        looking.show_report,
        "Report of a run",
        "The report of a run in brief: its account, rules, causes, and what needs attention.",
        _LOOK,
        {"run_id": "demo-scheduled__last"},
    ),
    Tool(
        looking.show_rules,
        "Rules table",
        "The rules table that the next run of a handler would read, and the linter's findings.",
        _LOOK,
        {"handler": "demo"},
    ),
    Tool(
        looking.list_audit,
        "Audit",
        "Who did what and when: runs, approvals, discards, searches, proposals; newest first.",
        _LOOK,
        {"handler": "demo", "limit": 5},
    ),
    Tool(
        proposing.show_plan,
        "Proposed plan",
        "A plan that was proposed, by its hash: who proposed it, and what it would do now.",
        _LOOK,
        {"handler": "demo", "plan_hash": "PLAN_HASH"},
        needs_acting=True,
    ),
    Tool(
        explaining.explain_message,
        "Message by the rules",
        "Which rules of today's table match a message, and why the others do not.",
        _EXPLAIN,
        {"handler": "demo", "message_key": "MESSAGE_KEY"},
    ),
    Tool(
        explaining.explain_reason,
        "Reason code",
        "What a reason code means, who can end it, and what to do.",
        _EXPLAIN,
        {"reason": "MQRC_Q_FULL"},
    ),
    Tool(
        explaining.explain_error,
        "Error id",
        "What an error of mqdlq means, where to look, and what to do.",
        _EXPLAIN,
        {"error_id": "MQDLQ-100"},
    ),
    Tool(
        explaining.diagnose,
        "Diagnosis",
        "What is in the way of a put to the destinations of a handler's causes, now: inquiries of"
        " the queue manager that only read. Nothing is kept.",
        _EXPLAIN,
        {"handler": "demo", "cause_id": "CAUSE_ID"},
        needs_acting=True,
    ),
    Tool(
        explaining.explain_dump,
        "Dump by the rules",
        "Which rules of a handler match the messages of a pasted dump. Paste no customer's data.",
        _EXPLAIN,
        {"handler": "demo", "dump": DUMP},
    ),
    Tool(
        explaining.check_rules,
        "Check of a rules table",
        "Errors of a rules table with lines and corrections, and the linter's findings.",
        _EXPLAIN,
        {"table": "REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\nACTION(IGNORE)\n"},
    ),
    Tool(
        explaining.compare_rules,
        "Comparison of rules tables",
        "What a new table would do otherwise than that of the newest run, with the messages of"
        " past snapshots. No file is written.",
        _EXPLAIN,
        {"handler": "demo", "table": "DESTQ(PAYMENTS) ACTION(RETRY) RETRY(3)\n"},
    ),
    Tool(
        proposing.propose_action,
        "Propose an action",
        "A plan for messages by a condition or by keys: its hash, its counts, what guards will"
        " ask, and the address where a person starts and approves that very plan. Nothing is"
        " started. The audit records the proposal; its person is then not the second person.",
        _PROPOSE,
        {"handler": "demo", "action": "retry_when_fixed", "where": "cause=CAUSE_ID"},
        needs_acting=True,
        noted=_proposed,
    ),
    Tool(
        proposing.draft_rule,
        "Draft a rule",
        "A rule for a cause as text for a pull request, with its place and a backtest on past"
        " snapshots. No file is changed.",
        _PROPOSE,
        {"handler": "demo", "cause_id": "CAUSE_ID"},
        noted=_drafted,
    ),
)

BY_NAME: Final = {tool.name: tool for tool in TOOLS}
