"""Call Airflow's own REST API in this process, as the person who sent the request.

Airflow's checks of access, its validation and its log of actions apply as for any other call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import anyio.from_thread
import httpx
from fastapi import Request

from mqdlq.airflow.operators.stages import APPROVED, COMMENT, REJECTED
from mqdlq.ledger.tables import Approval

_CREDENTIALS: Final = ("authorization", "cookie")


def trigger(
    request: Request, dag_id: str, dag_run_id: str, conf: Mapping[str, Any]
) -> httpx.Response:
    """Start a DAG run under an id; a second call with the same id starts nothing."""
    body = {"dag_run_id": dag_run_id, "logical_date": None, "conf": dict(conf)}
    return _call(request, "POST", f"/dags/{_part(dag_id)}/dagRuns", body)


def answer_question(
    request: Request, dag_id: str, dag_run_id: str, *, is_approved: bool, comment: str
) -> httpx.Response:
    """Answer the question of a run's task `approve`."""
    body = {
        "chosen_options": [APPROVED if is_approved else REJECTED],
        "params_input": {COMMENT: comment or None},
    }
    return _call(request, "PATCH", _question(dag_id, dag_run_id), body)


def find_dag_run(request: Request, dag_id: str, among: Iterable[str]) -> str:
    """Return the first of these ids of DAG runs that Airflow has and shows to the person, or ""."""
    runs = f"/dags/{_part(dag_id)}/dagRuns"
    return next(
        (one for one in among if _call(request, "GET", f"{runs}/{_part(one)}").is_success), ""
    )


def read_question(
    request: Request, dag_id: str, dag_run_id: str, asked: Approval
) -> tuple[tuple[str, ...], Approval | None]:
    """Return the ids of the users who may answer the question of a run, and its answer.

    Without ids everyone may answer. The answer is that which Airflow has and the run's task may not
    have read yet; its `who` is "" if nobody answered in time. Both are empty if there is no
    question, and if Airflow does not show it to the person.
    """
    found = _call(request, "GET", _question(dag_id, dag_run_id))
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


def _question(dag_id: str, dag_run_id: str) -> str:
    run = f"/dags/{_part(dag_id)}/dagRuns/{_part(dag_run_id)}"
    return f"{run}/taskInstances/approve/-1/hitlDetails"


def _call(
    request: Request, method: str, path: str, body: Mapping[str, Any] | None = None
) -> httpx.Response:
    return anyio.from_thread.run(_send, request, method, path, body)


async def _send(
    request: Request, method: str, path: str, body: Mapping[str, Any] | None
) -> httpx.Response:
    headers = {name: value for name, value in request.headers.items() if name in _CREDENTIALS}
    transport = httpx.ASGITransport(app=request.state.airflow, raise_app_exceptions=False)
    base = f"{request.url.scheme}://{request.url.netloc}/api/v2"
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=headers) as client:
        return await client.request(method, path, json=body)


def text_of_refusal(answer: httpx.Response) -> str:
    """Return why Airflow refuses, in its words."""
    try:
        detail = answer.json().get("detail", "")
    except (ValueError, AttributeError):
        detail = ""
    if isinstance(detail, list):  # of a body that Airflow cannot read
        detail = "; ".join(str(one.get("msg", one)) for one in detail)
    return str(detail) or HTTPStatus(answer.status_code).phrase


def _part(text: str) -> str:
    return quote(text, safe="")
