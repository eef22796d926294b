"""Act on messages: preview an action, start its run, and answer the question of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl
from uuid import uuid4

import httpx
from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import Approval, AuditEvent, Run
from mqdlq.model import AuditKind
from mqdlq.reading.filters import FilterError, MessageFilter
from mqdlq.stages.approve import SECOND_PERSON, find_fault_of_approver
from mqdlq.tools.acting import (
    MOST,
    ActionError,
    AskedAction,
    Preview,
    Selection,
    Sources,
    Verb,
    build_preview,
    parse_action,
)
from mqdlq.web.access import AskedHandler, HandlerDep, Person, acting_handler
from mqdlq.web.airflow_api import answer_question, read_question, text_of_refusal, trigger
from mqdlq.web.rendering import InvalidRequestError, NotFoundError, paths_of, render
from mqdlq.web.requests import LedgerDep, SourcesDep
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)
RESTORE: Final = "restore"

# Parse the address and the form of an action.

FIELDS: Final = frozenset(
    {"action", "to_queue", "to_queue_manager", "header", "repair_format", "repair_ccsid", "run"}
)
CONFIRMATION: Final = frozenset({"token", "digest", "previewed", "why", "start"})
"""The fields that only the second form has, which starts the run."""

_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_RUN: Final = re.compile(r"[A-Za-z0-9_.-]{1,250}")

Pairs = Sequence[tuple[str, str]]


async def posted(request: Request) -> Pairs:
    """Return the fields of a posted form."""
    return parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True)


PostedForm = Annotated[Pairs, Depends(posted)]


def _invalid(error: MqDlqError) -> InvalidRequestError:
    """Return an error of a field as the answer of a page."""
    return InvalidRequestError(error.error_id, error.text)


def parse_form(pairs: Pairs) -> tuple[Selection, AskedAction | None]:
    """Parse the selected messages, and the action, None if it is not chosen yet.

    Raises InvalidRequestError.
    """
    try:
        return _parse(pairs)
    except (FilterError, ActionError) as error:
        raise _invalid(error) from error


def _parse(pairs: Pairs) -> tuple[Selection, AskedAction | None]:
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
    return Selection(keys, run_id, None if chosen.is_empty else chosen), asked


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

    @classmethod
    def parse(cls, pairs: Pairs) -> Confirmation:
        """Parse the fields of the second form; raises InvalidRequestError."""
        given = {name: value for name, value in pairs if name in CONFIRMATION}
        token, start = given.get("token", ""), given.get("start")
        if not _TOKEN.fullmatch(token) or start not in {"dry", "real"}:
            fault = "the form is not complete"
            raise _invalid(ActionError("token", fault, "the form of a preview"))
        previewed = frozenset(given.get("previewed", "").split())
        why = given.get("why", "").strip()
        return cls(token, given.get("digest", ""), previewed, why, start == "dry")

    @property
    def dag_run_id(self) -> str:
        """The id of the run in Airflow."""
        return f"page-dry-run__{self.token}" if self.is_dry_run else f"page__{self.token}"


# Preview an action on messages, and start its run.


@router.get("/dags/{dag_id}/act", dependencies=[Depends(acting_handler)])
def preview_action(request: Request, sources: SourcesDep) -> Response:
    """Show the selected messages, and what an action would do to which of them."""
    selection, asked = parse_form(request.query_params.multi_items())
    preview = None if selection.is_empty else _preview(selection, asked, sources)
    return _show(request, selection, asked, preview)


@router.post("/dags/{dag_id}/act", dependencies=[Depends(acting_handler)])
def start_action(request: Request, sources: SourcesDep, pairs: PostedForm) -> Response:
    """Start the run of an action, if its messages are still those of the preview.

    Airflow starts it for the person who sent the form. A form that is sent twice starts one run.
    """
    (selection, asked), given = parse_form(pairs), Confirmation.parse(pairs)
    if asked is None or selection.is_empty:
        raise _invalid(ActionError("action", "the form has no action or no messages", "both"))
    run_filters = {RESTORE: "yes"} if asked.verb is Verb.RESTORE else {}
    leads_to = paths_of(request).started(sources.handler, given.dag_run_id, run_filters)
    if _is_known(sources, asked, given):
        return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)
    preview = _preview(selection, asked, sources)
    if preview.digest != given.digest:
        return _show(request, selection, asked, preview, given, HTTPStatus.CONFLICT)
    if not preview.can_start or (preview.needs_reason and not (given.why or given.is_dry_run)):
        return _show(request, selection, asked, preview, given, HTTPStatus.UNPROCESSABLE_ENTITY)
    conf = preview.conf(dry_run=given.is_dry_run, why=given.why)
    answer = trigger(request, preview.dag_id, given.dag_run_id, conf)
    # Airflow has a run with this id already: the form was sent twice.
    if answer.is_error and answer.status_code != HTTPStatus.CONFLICT:
        return _refused(request, answer, "No run was started.", f"start a run of {preview.dag_id}")
    return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)


@router.get("/dags/{dag_id}/act/runs/{dag_run_id}")
def show_started(
    request: Request, handler: HandlerDep, ledger: LedgerDep, dag_run_id: str, restore: str = ""
) -> Response:
    """Lead to the page of a started run, once its first task has recorded it."""
    restoration = None
    if restore:
        restoration = ledger.restorations.get(ledger_run_id(RESTORE, dag_run_id))
        if restoration is not None and restoration.handler != handler.name:
            raise NotFoundError("MQDLQ-982", f"Restoration {dag_run_id} is of another handler")
    else:
        run = ledger.runs.get(ledger_run_id(handler.name, dag_run_id))
        if run is not None and run.handler == handler.name:
            return RedirectResponse(
                paths_of(request).run(handler.name, run.run_id), HTTPStatus.SEE_OTHER
            )
    states = ledger.restorations.states(restoration.restoration_id) if restoration else {}
    return render(
        request,
        "acting/started.html",
        dag_run_id=dag_run_id,
        airflow_name=RESTORE if restore else handler.name,
        restoration=restoration,
        states=[state.state for state in states.values()],
        is_paused=_is_paused(f"mq_dlq_{RESTORE}" if restore else handler.dag_id),
    )


def _is_paused(dag_id: str) -> bool:
    dag = DagModel.get_dagmodel(dag_id)
    return bool(dag and dag.is_paused)


def _preview(selection: Selection, asked: AskedAction | None, sources: Sources) -> Preview:
    action = asked or AskedAction(Verb.LEAVE)  # it moves nothing, so that nothing is left out
    return build_preview(selection, action, _configuration(sources.handler), sources)


def _configuration(name: str) -> Handler | None:
    """Return the handler's configuration, None if the api-server does not have its file."""
    try:
        return load_handler(name)
    except HandlerError:
        return None


def _is_known(sources: Sources, asked: AskedAction, given: Confirmation) -> bool:
    """Whether the form was sent before: the messages may have moved since, by its own run."""
    ledger = sources.ledger
    if asked.verb is Verb.RESTORE:
        return ledger.restorations.get(ledger_run_id(RESTORE, given.dag_run_id)) is not None
    return ledger.runs.get(ledger_run_id(sources.handler, given.dag_run_id)) is not None


def _show(  # noqa: PLR0917 (what the page shows, and how it came to it)
    request: Request,
    selection: Selection,
    asked: AskedAction | None,
    preview: Preview | None,
    given: Confirmation | None = None,
    status: int = HTTPStatus.OK,
) -> Response:
    """Show a preview, or again if the run of the form `given` is not started for this status."""
    now = {one.message_key for one in preview.ready} if preview else set()
    before = given.previewed if given else frozenset()
    is_changed = status == HTTPStatus.CONFLICT
    return render(
        request,
        "acting/act.html",
        status,
        selected=_pairs(selection.parameters()),
        asked=asked,
        action_fields=_pairs(asked.parameters() if asked else {}),
        verbs=list(Verb),
        most=MOST,
        preview=preview,
        token=uuid4().hex,
        previewed=" ".join(sorted(now)),
        is_changed=is_changed,
        added=sorted(now - before) if is_changed else [],
        gone=sorted(before - now) if is_changed else [],
        is_paused=preview is not None and _is_paused(preview.dag_id),
        why=given.why if given else "",
        lacks_reason=status == HTTPStatus.UNPROCESSABLE_ENTITY and preview and preview.can_start,
    )


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, one)
        for name, value in parameters.items()
        for one in (value if isinstance(value, list) else [value])
    ]


def _refused(request: Request, answer: httpx.Response, what: str, need: str) -> Response:
    """Show why Airflow refuses, in its words, and what to do."""
    return render(
        request,
        "acting/refused.html",
        answer.status_code,
        answered=answer.status_code,
        text=text_of_refusal(answer),
        what=what,
        is_forbidden=answer.status_code == HTTPStatus.FORBIDDEN,
        need=need,
    )


# The open question of a run.


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
    answer: Approval | None


def open_question(  # noqa: PLR0917 (a question, and the person who reads it)
    request: Request,
    run: Run,
    asked: Approval,
    handler: AskedHandler,
    person: Person,
    ledger: Ledger,
) -> OpenQuestion:
    """Return the open question of a run for a person."""
    approvers, answer = read_question(request, handler.dag_id, run.dag_run_id, asked)
    is_guarded = SECOND_PERSON in asked.guards
    refused = AuditFilter(run_id=run.run_id, what=AuditKind.SECOND_PERSON_REFUSED)
    return OpenQuestion(
        run=run,
        approval=asked,
        closed=_why_closed(handler, person, approvers),
        fault=find_fault_of_approver(run, person.names) if is_guarded else "",
        refusals=tuple(reversed(ledger.audit_trail.page(refused))) if is_guarded else (),
        answer=answer,
    )


def _why_closed(handler: AskedHandler, person: Person, approvers: tuple[str, ...]) -> str:
    if not person.may_answer(handler.dag_id):
        return "ask for permission to answer required actions of this DAG in Airflow"
    if approvers and not person.is_among(approvers):
        return f"the handler's approvers may: {', '.join(approvers)}"
    return ""


@router.post("/dags/{dag_id}/runs/{run_id}/approval")
def answer_approval(
    request: Request, handler: HandlerDep, ledger: LedgerDep, run_id: str, pairs: PostedForm
) -> Response:
    """Answer the open question of a run through Airflow, as the person who sent the form.

    Airflow accepts one answer; the run's task decides whether the person may give it.
    """
    run = ledger.runs.get(run_id)
    if run is None or run.handler != handler.name:
        raise NotFoundError(
            "MQDLQ-983", f"Run {run_id} is not a run of {handler.name}; choose one from its runs"
        )
    given = dict(pairs)
    if given.get("decision") not in {"approve", "reject"}:
        raise _invalid(ActionError("decision", "it is missing", "approve or reject"))
    answer = answer_question(
        request,
        handler.dag_id,
        run.dag_run_id,
        is_approved=given["decision"] == "approve",
        comment=given.get("comment", "").strip(),
    )
    if answer.is_error:
        return _refused(request, answer, "Your answer was not accepted.", f"answer for {run_id}")
    return RedirectResponse(paths_of(request).run(handler.name, run_id), HTTPStatus.SEE_OTHER)
