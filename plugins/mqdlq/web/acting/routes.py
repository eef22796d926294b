"""Routes: preview an action on messages, start its run, and answer the question of a run."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, load_handler
from mqdlq.tools.acting import MOST, ActionError, AskedAction, Preview, Sources, Verb, build_preview
from mqdlq.web.access import ActingHandlerDep, HandlerDep
from mqdlq.web.acting.airflow_api import AirflowAnswer, answer_question, trigger
from mqdlq.web.acting.forms import (
    ActForm,
    Confirmation,
    PostedForm,
    invalid,
    new_token,
    parse_confirmation,
    parse_form,
)
from mqdlq.web.rendering import NotFoundError, paths_of, render
from mqdlq.web.requests import ClockDep, LakeRoot, LedgerDep
from mqdlq.web.threads import PageRoute


def acting_sources(
    handler: ActingHandlerDep, ledger: LedgerDep, lake: LakeRoot, clock: ClockDep
) -> Sources:
    """Return what a selection of the handler in the path is resolved with."""
    return Sources(handler.name, ledger, lake, clock)


SourcesDep = Annotated[Sources, Depends(acting_sources)]
router: Final = APIRouter(route_class=PageRoute)
RESTORE: Final = "restore"


@router.get("/dags/{dag_id}/act")
def preview_action(request: Request, sources: SourcesDep) -> Response:
    """Show the selected messages, and what an action would do to which of them."""
    form = parse_form(request.query_params.multi_items())
    if form.selection.is_empty:
        return render(request, "acting/act.html", preview=None, **_form_values(form))
    return _show(request, form, _preview(form, sources))


@router.post("/dags/{dag_id}/act")
def start_action(request: Request, sources: SourcesDep, pairs: PostedForm) -> Response:
    """Start the run of an action, if its messages are still those of the preview.

    Airflow starts it for the person who sent the form. A form that is sent twice starts one run.
    """
    form, given = parse_form(pairs), parse_confirmation(pairs)
    if form.asked is None or form.selection.is_empty:
        raise invalid(ActionError("action", "the form has no action or no messages", "both"))
    run_filters = {RESTORE: "yes"} if form.asked.verb is Verb.RESTORE else {}
    leads_to = paths_of(request).started(sources.handler, given.dag_run_id, run_filters)
    if _is_known(sources, form.asked, given):
        return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)
    preview = _preview(form, sources)
    if preview.digest != given.digest:
        return _show(request, form, preview, HTTPStatus.CONFLICT, given)
    if not preview.can_start or (preview.needs_reason and not (given.why or given.is_dry_run)):
        return _show(request, form, preview, HTTPStatus.UNPROCESSABLE_ENTITY, given)
    conf = preview.conf(dry_run=given.is_dry_run, why=given.why)
    answer = trigger(request, preview.dag_id, given.dag_run_id, conf)
    if answer.is_accepted or answer.is_known_already:
        return RedirectResponse(leads_to, HTTPStatus.SEE_OTHER)
    return _refused(request, answer, "No run was started.", f"start a run of {preview.dag_id}")


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
    dag_id = f"mq_dlq_{RESTORE}" if restore else handler.dag_id
    dag = DagModel.get_dagmodel(dag_id)
    return render(
        request,
        "acting/started.html",
        dag_run_id=dag_run_id,
        airflow_name=RESTORE if restore else handler.name,
        restoration=restoration,
        states=[state.state for state in states.values()],
        is_paused=bool(dag and dag.is_paused),
    )


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
        raise invalid(ActionError("decision", "it is missing", "approve or reject"))
    answer = answer_question(
        request,
        handler.dag_id,
        run.dag_run_id,
        is_approved=given["decision"] == "approve",
        comment=given.get("comment", "").strip(),
    )
    if answer.is_accepted:
        return RedirectResponse(paths_of(request).run(handler.name, run_id), HTTPStatus.SEE_OTHER)
    return _refused(request, answer, "Your answer was not accepted.", f"answer for {run_id}")


def _preview(form: ActForm, sources: Sources) -> Preview:
    asked = form.asked or AskedAction(Verb.LEAVE)  # it moves nothing, so that nothing is left out
    return build_preview(form.selection, asked, _configuration(sources.handler), sources)


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


def _show(
    request: Request,
    form: ActForm,
    preview: Preview,
    status: int = HTTPStatus.OK,
    given: Confirmation | None = None,
) -> Response:
    now = {one.message_key for one in preview.ready}
    before = given.previewed if given else frozenset()
    is_changed = status == HTTPStatus.CONFLICT
    dag = DagModel.get_dagmodel(preview.dag_id)
    return render(
        request,
        "acting/act.html",
        status,
        preview=preview,
        token=new_token(),
        previewed=" ".join(sorted(now)),
        is_changed=is_changed,
        added=sorted(now - before) if is_changed else [],
        gone=sorted(before - now) if is_changed else [],
        is_paused=bool(dag and dag.is_paused),
        why=given.why if given else "",
        lacks_reason=status == HTTPStatus.UNPROCESSABLE_ENTITY and preview.can_start,
        **_form_values(form),
    )


def _form_values(form: ActForm) -> dict[str, Any]:
    return {
        "selection": form.selection,
        "selected": _pairs(form.selection.parameters()),
        "asked": form.asked,
        "action_fields": _pairs(form.asked.parameters() if form.asked else {}),
        "verbs": list(Verb),
        "most": MOST,
    }


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, one)
        for name, value in parameters.items()
        for one in (value if isinstance(value, list) else [value])
    ]


def _refused(request: Request, answer: AirflowAnswer, what: str, need: str) -> Response:
    """Show why Airflow refuses, in its words, and what to do."""
    return render(
        request,
        "acting/refused.html",
        answer.status if answer.status >= HTTPStatus.BAD_REQUEST else HTTPStatus.BAD_GATEWAY,
        answer=answer,
        what=what,
        is_forbidden=answer.status == HTTPStatus.FORBIDDEN,
        need=need,
    )
