"""Act on messages: preview an action, start its run, and answer the question of a run."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote
from uuid import uuid4

import anyio.from_thread
import httpx
from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends, File, Request, UploadFile
from fastapi.responses import RedirectResponse, Response

from mqdlq.airflow.operators.base import REPORT
from mqdlq.airflow.operators.stages import APPROVED, COMMENT, REJECTED
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.controls.repair import LONGEST_BODY, NO_BODIES, Repair, read_repair
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.lake.filters import MessageFilter
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import Approval, Run
from mqdlq.model import AuditKind, Outcome, Trait
from mqdlq.reading.page_paths import Paths, dag_of
from mqdlq.reading.report.building import STAGES
from mqdlq.stages.approve import SECOND_PERSON, find_fault_of_approver
from mqdlq.stages.proposals import proposals_of
from mqdlq.tools.acting import (
    MOST,
    RESTORE,
    ActionError,
    AskedAction,
    Preview,
    Selection,
    Sources,
    Verb,
    build_preview,
    has_come_back,
    parse_action,
)
from mqdlq.tools.replacing import store_replacement
from mqdlq.web.rendering import NotFoundError
from mqdlq.web.requests import HandlerView, View, acting_handler, may_reveal
from mqdlq.web.serving import PageRoute
from mqdlq.words import moment

router: Final = APIRouter(route_class=PageRoute)

# Parse the address and the form of an action.

FIELDS: Final = frozenset(
    (
        *("action", "to_queue", "to_queue_manager", "header", "run", "as_of", "tried", "proposed"),
        *("repair_format", "repair_ccsid", "repair_body", "repair_body_length"),
    )
)
CONFIRMATION: Final = frozenset({"token", "digest", "previewed", "why", "start"})
"""The fields that only the second form has, which starts the run."""

_KINDS: Final = {"dry": "-dry-run", "real": "", "one": "-one"}
"""How the second form starts a run, and the id of such a run."""

_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_RUN: Final = re.compile(r"[A-Za-z0-9_.-]{1,250}")

Pairs = Sequence[tuple[str, str]]


async def posted(request: Request) -> Pairs:
    return parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True)


PostedForm = Annotated[Pairs, Depends(posted)]


def _parsed(pairs: Pairs) -> tuple[Selection, AskedAction | None]:
    """Parse the selected messages, and the action, None if it is not chosen yet.

    Raises FilterError and ActionError.
    """
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
    if chosen.is_empty:
        return Selection(keys, run_id), asked
    as_of, tried = (given.get(name, "").strip() for name in ("as_of", "tried"))
    if tried and not _RUN.fullmatch(tried):
        raise ActionError("tried", f"found {tried[:60]!r}", "the id of a run")
    return Selection((), "", chosen, as_of, tried), asked


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


def _confirmed(pairs: Pairs) -> dict[str, str]:
    """Return the fields of the second form: what the person saw in the preview, and why they act.

    `token` is new with each preview, so that a form that is sent twice starts one run.
    """
    given = dict.fromkeys(CONFIRMATION, "")
    given |= {name: value for name, value in pairs if name in CONFIRMATION}
    if not _TOKEN.fullmatch(given["token"]) or given["start"] not in {"dry", "real", "one"}:
        raise ActionError("token", "the form is not complete", "the form of a preview")
    return given


# Preview an action on messages, and start its run.


@router.get(Paths.act, dependencies=[Depends(acting_handler)])
def preview_action(view: HandlerView) -> Response:
    selection, asked = _parsed(view.given)
    preview = None if selection.is_empty else _preview(selection, asked, view)
    return _show(view, selection, asked, preview)


@router.post(Paths.replacement, dependencies=[Depends(acting_handler), Depends(may_reveal)])
def upload_replacement(
    view: HandlerView, message_key: str, body: Annotated[UploadFile, File()]
) -> Response:
    """Store a body for a message, and lead to the preview of the repair with it.

    The query has the action, as that of the preview does.
    """
    configured = load_handler(view.handler)
    if not configured.repair.body:
        raise ActionError("body", NO_BODIES, "a handler that allows it")
    data = body.file.read(LONGEST_BODY + 1)
    stored = store_replacement(data, message_key, view.person.name, view)
    asked = parse_action(dict(view.given))
    if asked is None or not asked.verb.puts:
        raise ActionError("action", "it puts no message", "retry or forward")
    repair = replace(asked.repair or Repair(), **stored)
    asked = replace(asked, repair=repair)
    leads_to = view.paths.act(view.handler, _address(Selection((message_key,)), asked))
    return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)


@router.post(Paths.act, dependencies=[Depends(acting_handler)])
def start_action(view: HandlerView, pairs: PostedForm) -> Response:
    """Start the run of an action, if its messages are still those of the preview.

    Airflow starts it for the person who sent the form. A form that is sent twice starts one run.
    """
    (selection, asked), given = _parsed(pairs), _confirmed(pairs)
    if asked is None or selection.is_empty:
        raise ActionError("action", "the form has no action or no messages", "both")
    is_restore, is_dry_run, why = asked.verb is Verb.RESTORE, given["start"] == "dry", given["why"]
    is_try = given["start"] == "one"
    dag_run_id = f"page{_KINDS[given['start']]}__{given['token']}"
    run_filters = {RESTORE: "yes"} if is_restore else {}
    leads_to = view.paths.started(view.handler, dag_run_id, run_filters)
    if is_try:
        leads_to = view.paths.act(
            view.handler, _address(replace(selection, tried=dag_run_id), asked)
        )
    # The messages of a form that was sent before may have moved since, by its own run.
    run_id = ledger_run_id(RESTORE if is_restore else view.handler, dag_run_id)
    known = view.ledger.restorations if is_restore else view.ledger.runs
    if known.get(run_id) is not None:
        return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)
    preview = _preview(selection, asked, view)
    if preview.digest != given["digest"] or _proposed(pairs) not in {"", preview.digest}:
        return _show(view, selection, asked, preview, given, HTTPStatus.CONFLICT)
    tried = _tried(view, preview) if given["start"] == "real" else None
    why = why.strip() or (tried.run.why if tried and tried.run else "")
    lacks_reason = preview.needs_reason and not (why or is_dry_run)
    if lacks_reason or not preview.can_start or (tried and tried.why_not):
        return _show(view, selection, asked, preview, given, HTTPStatus.UNPROCESSABLE_ENTITY)
    conf = preview.conf(dry_run=is_dry_run, why=why, only_one=is_try)
    body = {"dag_run_id": dag_run_id, "logical_date": None, "conf": conf}
    answer = _call(view, "POST", _runs_of(preview.dag_id), body)
    # A conflict: Airflow has a run with this id already, as the form was sent twice.
    if answer.is_error and answer.status_code != HTTPStatus.CONFLICT:
        return _refused(view, answer, "No run was started.", f"start a run of {preview.dag_id}")
    return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)


@router.get(Paths.started)
def show_started(view: HandlerView, dag_run_id: str, restore: str = "") -> Response:
    """Lead to the page of a started run, once its first task has recorded it."""
    ledger, handler, restoration = view.ledger, view.handler, None
    if restore:
        restoration = ledger.restorations.get(ledger_run_id(RESTORE, dag_run_id))
        if restoration is not None and restoration.handler != handler:
            raise NotFoundError("MQDLQ-982", f"Restoration {dag_run_id} is of another handler")
    else:
        run_id = ledger_run_id(handler, dag_run_id)
        run = ledger.runs.get(run_id)
        if run is not None and run.handler == handler:
            return _lead_to(view, view.paths.run(handler, run.run_id))
        if ledger.run_lists.refused_handler(run_id) == handler:
            return _lead_to(view, view.paths.run(handler, run_id))
    states = ledger.restorations.states(restoration.restoration_id) if restoration else {}
    dag_id = dag_of(RESTORE if restore else handler)
    return view.render(
        "acting/started.html",
        dag_run_id=dag_run_id,
        airflow_name=RESTORE if restore else handler,
        restoration=restoration,
        states=[state.state for state in states.values()],
        is_paused=_is_paused(dag_id),
        stages=read_stages(view, dag_id, dag_run_id),
        now=view.clock(),
    )


def _lead_to(view: View, path: str) -> Response:
    """Lead the browser to another page, also when htmx asks for a part of this one."""
    if "hx-request" in view.request.headers:
        return Response(headers={"HX-Redirect": path})
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def _is_paused(dag_id: str) -> bool:
    dag = DagModel.get_dagmodel(dag_id)
    return bool(dag and dag.is_paused)


def _preview(selection: Selection, asked: AskedAction | None, sources: Sources) -> Preview:
    action = asked or AskedAction(Verb.LEAVE)  # it moves nothing, so that nothing is left out
    try:
        handler = load_handler(sources.handler)
    except HandlerError:
        handler = None  # the api-server does not have its file
    return build_preview(selection, action, handler, sources)


def _proposed(pairs: Pairs) -> str:
    """Return the hash of the plan that an agent proposed, "" for a plan of a person."""
    return dict(pairs).get("proposed", "").strip()[:64]


def _show(  # noqa: PLR0917 (what the page shows, and how it came to it)
    view: View,
    selection: Selection,
    asked: AskedAction | None,
    preview: Preview | None,
    given: Mapping[str, str] | None = None,
    status: int = HTTPStatus.OK,
) -> Response:
    """Show a preview, or again if the run of the form `given` is not started for this status."""
    of_condition = preview is not None and preview.is_of_condition
    now = {one.message_key for one in preview.ready} if preview and not of_condition else set()
    before = set(given["previewed"].split()) if given else set()
    is_changed = status == HTTPStatus.CONFLICT
    proposed = _proposed(view.given)
    told = proposals_of(view.handler, proposed, view.ledger) if proposed else []
    return view.render(
        "acting/act.html",
        status,
        selected=_pairs(preview.selection.parameters() if preview else selection.parameters()),
        asked=asked,
        action_fields=_pairs(asked.parameters() if asked else {}),
        verbs=list(Verb),
        most=MOST,
        longest_body=LONGEST_BODY,
        preview=preview,
        token=uuid4().hex,
        previewed=str(preview.messages) if preview and of_condition else " ".join(sorted(now)),
        number_before=given["previewed"] if given and of_condition else "",
        tried=_tried(view, preview) if preview and of_condition else None,
        again=view.paths.act(view.handler, _address(selection, asked)),
        is_changed=is_changed,
        proposed=proposed,
        proposers=sorted({one.who for one in told}),
        proposed_why="; ".join(sorted({one.why for one in told} - {""})),
        added=sorted(now - before) if is_changed else [],
        gone=sorted(before - now) if is_changed else [],
        is_paused=preview is not None and _is_paused(preview.dag_id),
        why=given["why"].strip() if given else "",
        lacks_reason=status == HTTPStatus.UNPROCESSABLE_ENTITY and preview and preview.needs_reason,
    )


@dataclass(frozen=True, slots=True)
class Tried:
    """The run that tried one message of a condition; `why_not` says why the rest must wait."""

    dag_run_id: str
    run: Run | None
    why_not: str
    is_open: bool


def _tried(view: View, preview: Preview) -> Tried | None:
    """Return how the try went that the address names, None without one.

    It went well if the message was moved and did not come back within the watch time.
    """
    dag_run_id = preview.selection.tried
    if not dag_run_id:
        return None
    run = view.ledger.runs.get(ledger_run_id(view.handler, dag_run_id))
    if run is None or run.handler != view.handler:
        return Tried(dag_run_id, None, "it has not begun", is_open=True)
    outcomes = view.ledger.outcomes.counts(run.run_id)
    del outcomes[Outcome.NOT_SELECTED]
    closed = view.ledger.accounts.of_run(run.run_id)
    if closed is None:
        return Tried(dag_run_id, run, "it has not ended", is_open=True)
    ends = ", ".join(one.words for one in outcomes)
    if not outcomes or not all(Trait.SUCCEEDED in one.traits for one in outcomes):
        return Tried(dag_run_id, run, f"its message is {ends or 'without an outcome'}", False)
    until = closed.at + preview.watch
    if closed.returned or has_come_back(preview.handler, run, view):
        return Tried(dag_run_id, run, "its message has come back", is_open=False)
    wait = f"its message is {ends}, and may come back until {moment(until)}"
    is_over = view.clock() >= until
    return Tried(dag_run_id, run, "" if is_over else wait, is_open=not is_over)


def _address(selection: Selection, asked: AskedAction | None) -> dict[str, Any]:
    return selection.parameters() | (asked.parameters() if asked else {})


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, one)
        for name, value in parameters.items()
        for one in (value if isinstance(value, list) else [value])
    ]


def _refused(view: View, answer: httpx.Response, what: str, need: str) -> Response:
    return view.render(
        "acting/refused.html",
        answer.status_code,
        answered=answer.status_code,
        text=_text_of_refusal(answer),
        what=what,
        is_forbidden=answer.status_code == HTTPStatus.FORBIDDEN,
        need=need,
    )


# The open question of a run.


def open_question(view: View, run: Run, asked: Approval) -> dict[str, Any]:
    """Return what a page shows of the question whether a run may carry out its plan.

    `closed` is why Airflow does not let the person answer, "" if it does. `fault` is why the person
    must not approve, "" if nothing speaks against it; rejecting is open to everyone who may answer.
    `refusals` are the approvals that were refused, oldest first. `answer` is the answer that
    Airflow has and the run's task has not read yet.
    """
    approvers, answer = _read_question(view, run.dag_run_id, asked)
    is_guarded = SECOND_PERSON in asked.guards
    refused = AuditFilter(run_id=run.run_id, what=AuditKind.SECOND_PERSON_REFUSED)
    return {
        "run": run,
        "repair": read_repair(run.repair),
        "approval": asked,
        "closed": _why_closed(view, approvers),
        "fault": find_fault_of_approver(run, view.person.names, view.ledger) if is_guarded else "",
        "refusals": view.ledger.audit_trail.page(refused)[::-1] if is_guarded else (),
        "answer": answer,
    }


def _why_closed(view: View, approvers: Collection[str]) -> str:
    if not view.person.may_answer(view.asked.dag_id):
        return "ask for permission to answer required actions of this DAG in Airflow"
    if approvers and not view.person.is_among(approvers):
        return f"the handler's approvers may: {', '.join(approvers)}"
    return ""


@router.post(Paths.approval)
def answer_approval(view: HandlerView, run_id: str, pairs: PostedForm) -> Response:
    """Answer the open question of a run through Airflow, as the person who sent the form.

    Airflow accepts one answer; the run's task decides whether the person may give it.
    """
    run = view.ledger.runs.get(run_id)
    if run is None or run.handler != view.handler:
        raise NotFoundError(
            "MQDLQ-983", f"Run {run_id} is not a run of {view.handler}; choose one from its runs"
        )
    given = dict(pairs)
    if given.get("decision") not in {"approve", "reject"}:
        raise ActionError("decision", "it is missing", "approve or reject")
    answered = {
        "chosen_options": [APPROVED if given["decision"] == "approve" else REJECTED],
        "params_input": {COMMENT: given.get("comment", "").strip() or None},
    }
    answer = _call(view, "PATCH", _question(view, run.dag_run_id), answered)
    if answer.is_error:
        return _refused(view, answer, "Your answer was not accepted.", f"answer for {run_id}")
    return RedirectResponse(view.paths.run(view.handler, run_id), HTTPStatus.SEE_OTHER)


# Airflow's own REST API, called in this process as the person who sent the request: its checks of
# access, its validation and its log of actions apply as for any other call.

_CREDENTIALS: Final = ("authorization", "cookie")


def find_dag_run(view: View, among: Iterable[str]) -> str:
    """Return the first of these ids of DAG runs that Airflow has and shows to the person, or ""."""
    found = (
        one for one in among if _call(view, "GET", _runs_of(view.asked.dag_id, one)).is_success
    )
    return next(found, "")


FINAL: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""The states of Airflow in which a task has ended."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A task of a run: its name, its state as Airflow names it, and when it began and ended."""

    name: str
    state: str
    began_at: datetime | None
    ended_at: datetime | None

    def seconds(self, now: datetime) -> float | None:
        if self.began_at is None:
            return None
        return ((self.ended_at or now) - self.began_at).total_seconds()


def read_stages(view: View, dag_id: str, dag_run_id: str) -> list[Stage]:
    """Return the tasks of a run in their order; none if Airflow does not show them."""
    answer = _call(view, "GET", f"{_runs_of(dag_id, dag_run_id)}/taskInstances")
    found = answer.json()["task_instances"] if answer.is_success else []
    stages = [
        Stage(
            one["task_id"],
            one["state"] or "",
            *(
                datetime.fromisoformat(at) if at else None
                for at in (one["start_date"], one["end_date"])
            ),
        )
        for one in found
    ]
    order = [*STAGES, REPORT]
    return sorted(stages, key=lambda one: order.index(one.name) if one.name in order else 0)


def _read_question(
    view: View, dag_run_id: str, asked: Approval
) -> tuple[tuple[str, ...], Approval | None]:
    """Return the ids of the users who may answer the question of a run, and its answer.

    Without ids everyone may answer. The answer is that which Airflow has and the run's task may not
    have read yet; its `who` is "" if nobody answered in time. Both are empty if there is no
    question, and if Airflow does not show it to the person.
    """
    found = _call(view, "GET", _question(view, dag_run_id))
    question = found.json() if found.is_success else {}
    approvers = tuple(str(user["id"]) for user in question.get("assigned_users") or ())
    if not question.get("response_received"):
        return approvers, None
    return approvers, replace(
        asked,
        decision="approved" if question["chosen_options"] == [APPROVED] else "rejected",
        who=(question["responded_by_user"] or {}).get("name", ""),
        at=datetime.fromisoformat(question["responded_at"]),
        why=question["params_input"].get(COMMENT) or "",
    )


def _question(view: View, dag_run_id: str) -> str:
    return f"{_runs_of(view.asked.dag_id, dag_run_id)}/taskInstances/approve/-1/hitlDetails"


def _runs_of(dag_id: str, *dag_run_id: str) -> str:
    parts = ("dags", dag_id, "dagRuns", *dag_run_id)
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _call(
    view: View, method: str, path: str, body: Mapping[str, Any] | None = None
) -> httpx.Response:
    return anyio.from_thread.run(_send, view.request, method, path, body)


async def _send(
    request: Request, method: str, path: str, body: Mapping[str, Any] | None
) -> httpx.Response:
    headers = {name: value for name, value in request.headers.items() if name in _CREDENTIALS}
    transport = httpx.ASGITransport(app=request.state.airflow, raise_app_exceptions=False)
    base = f"{request.url.scheme}://{request.url.netloc}/api/v2"
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=headers) as client:
        return await client.request(method, path, json=body)


def _text_of_refusal(answer: httpx.Response) -> str:
    try:
        detail = answer.json().get("detail", "")
    except (ValueError, AttributeError):
        detail = ""
    if isinstance(detail, list):  # of a body that Airflow cannot read
        detail = "; ".join(str(one.get("msg", one)) for one in detail)
    return str(detail) or HTTPStatus(answer.status_code).phrase
