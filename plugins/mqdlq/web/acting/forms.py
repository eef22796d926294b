"""The open question of a run, as the person who asks may answer it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl
from uuid import uuid4

from fastapi import Depends, Request

from mqdlq.errors import MqDlqError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables.retention import AuditEvent
from mqdlq.ledger.tables.runs import Approval, Run
from mqdlq.model import AuditKind
from mqdlq.reading.filters import FilterError, MessageFilter
from mqdlq.stages.approve import SECOND_PERSON, find_fault_of_approver
from mqdlq.tools.acting import MOST, ActionError, AskedAction, Selection, Verb, parse_action
from mqdlq.web.access import AskedHandler, Person
from mqdlq.web.acting.airflow_api import AskedInAirflow, GivenAnswer
from mqdlq.web.rendering import InvalidRequestError


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """The question whether a run may carry out its plan.

    `closed` is why Airflow does not let the person answer, "" if it does. `fault` is why the person
    must not approve, "" if nothing speaks against it; rejecting is open to everyone who may answer.
    `refusals` are the approvals that were refused, oldest first. `answer` is the answer that
    Airflow has and the run's task has not read yet.
    """

    run: Run
    approval: Approval
    closed: str
    fault: str
    refusals: tuple[AuditEvent, ...]
    answer: GivenAnswer | None


def open_question(
    run: Run,
    approval: Approval,
    handler: AskedHandler,
    person: Person,
    ledger: Ledger,
    *,
    asked: AskedInAirflow,
) -> OpenQuestion:
    """Return the open question of a run for a person; `asked` is the question in Airflow."""
    is_guarded = SECOND_PERSON in approval.guards
    refused = AuditFilter(run_id=run.run_id, what=AuditKind.SECOND_PERSON_REFUSED)
    return OpenQuestion(
        run=run,
        approval=approval,
        closed=_why_closed(handler, person, asked.approvers),
        fault=find_fault_of_approver(run, person.names) if is_guarded else "",
        refusals=tuple(reversed(ledger.audit_trail.page(refused))) if is_guarded else (),
        answer=asked.answer,
    )


def _why_closed(handler: AskedHandler, person: Person, approvers: tuple[str, ...]) -> str:
    if not person.may_answer(handler.dag_id):
        return "ask for permission to answer required actions of this DAG in Airflow"
    if approvers and not person.is_among(approvers):
        return f"the handler's approvers may: {', '.join(approvers)}"
    return ""


# Parse the address and the form of an action.

FIELDS: Final = frozenset(
    {
        "action",
        "to_queue",
        "to_queue_manager",
        "header",
        "repair_format",
        "repair_ccsid",
        "run",
    }
)
CONFIRMATION: Final = frozenset({"token", "digest", "previewed", "why", "start"})
"""The fields that only the second form has, which starts the run."""

_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_RUN: Final = re.compile(r"[A-Za-z0-9_.-]{1,250}")

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ActForm:
    """The messages and the action that a person asks for, None if it is not chosen yet."""

    selection: Selection
    asked: AskedAction | None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The second form: what the person saw in the preview, and why they act.

    `token` is new with each preview, so that a form that is sent twice starts one run.
    """

    token: str
    digest: str
    previewed: frozenset[str]
    why: str
    is_dry_run: bool

    @property
    def dag_run_id(self) -> str:
        """The id of the run in Airflow."""
        return f"page-dry-run__{self.token}" if self.is_dry_run else f"page__{self.token}"


def new_token() -> str:
    """Return a token for a form."""
    return uuid4().hex


async def posted(request: Request) -> Pairs:
    """Return the fields of a posted form."""
    return parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True)


PostedForm = Annotated[Pairs, Depends(posted)]


def invalid(error: MqDlqError) -> InvalidRequestError:
    """Return an error of a field as the answer of a page."""
    return InvalidRequestError(error.error_id, error.text)


def parse_form(pairs: Pairs) -> ActForm:
    """Parse a selection and an action; raises InvalidRequestError."""
    try:
        return _parse(pairs)
    except (FilterError, ActionError) as error:
        raise invalid(error) from error


def _parse(pairs: Pairs) -> ActForm:
    given = {name: value for name, value in pairs if name in FIELDS}
    asked = parse_action(given)
    run_id = given.get("run", "").strip()
    if run_id and not _RUN.fullmatch(run_id):
        raise ActionError("run", f"found {run_id[:60]!r}", "the id of a run")
    if run_id and asked is None:
        asked = AskedAction(Verb.RESTORE)
    if run_id and asked and asked.verb is not Verb.RESTORE:
        raise ActionError("run", "it is for the action restore only", "no run")
    keys = _keys(pairs)
    others = FIELDS | CONFIRMATION | {"message_key"}
    chosen = MessageFilter.parse(pairs, others)
    if not chosen.is_empty and (keys or run_id):
        raise ActionError("message_key", "there is a filter, too", "keys, a run, or a filter")
    selection = Selection(keys, run_id, None if chosen.is_empty else chosen)
    return ActForm(selection, asked)


def _keys(pairs: Pairs) -> tuple[str, ...]:
    given = [value.strip().lower() for name, value in pairs if name == "message_key"]
    keys = tuple(dict.fromkeys(key for key in given if key))
    for key in keys:
        if not _KEY.fullmatch(key):
            expected = "64 hexadecimal digits, or the first of them"
            raise ActionError("message_key", f"found {key[:70]!r}", expected)
    if len(keys) > MOST:
        raise ActionError("message_key", f"there are {len(keys)}", f"at most {MOST}")
    return keys


def parse_confirmation(pairs: Pairs) -> Confirmation:
    """Parse the fields of the second form; raises InvalidRequestError."""
    given = {name: value for name, value in pairs if name in CONFIRMATION}
    if not _TOKEN.fullmatch(given.get("token", "")) or given.get("start") not in {"dry", "real"}:
        raise invalid(ActionError("token", "the form is not complete", "the form of a preview"))
    previewed = frozenset(given.get("previewed", "").split())
    return Confirmation(
        token=given["token"],
        digest=given.get("digest", ""),
        previewed=previewed,
        why=given.get("why", "").strip(),
        is_dry_run=given["start"] == "dry",
    )
