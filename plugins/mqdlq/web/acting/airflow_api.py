"""Call Airflow's own REST API in this process, as the person who sent the request.

Airflow's checks of access, its validation and its log of actions apply as for any other call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import anyio.from_thread
import httpx
from fastapi import Request

from mqdlq.airflow.operators.stages import APPROVED, COMMENT, REJECTED

_CREDENTIALS: Final = ("authorization", "cookie")


@dataclass(frozen=True, slots=True)
class AirflowAnswer:
    """An answer of Airflow: the status of HTTP, and its text if it is a refusal."""

    status: int
    text: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether Airflow has done what was asked."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def is_known_already(self) -> bool:
        """Whether Airflow has it already, such as a run with the same id."""
        return self.status == HTTPStatus.CONFLICT


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The answer to the question of a run; `who` is "" if nobody answered in time."""

    is_approved: bool
    who: str
    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class AskedInAirflow:
    """The question of a run: the ids of the users who may answer it, all without any; its answer.

    `answer` is None until there is one.
    """

    approvers: tuple[str, ...] = ()
    answer: GivenAnswer | None = None


def trigger(
    request: Request, dag_id: str, dag_run_id: str, conf: Mapping[str, Any]
) -> AirflowAnswer:
    """Start a DAG run under an id; a second call with the same id starts nothing."""
    body = {"dag_run_id": dag_run_id, "logical_date": None, "conf": dict(conf)}
    return _answer(_call(request, "POST", f"/dags/{_part(dag_id)}/dagRuns", body))


def answer_question(
    request: Request, dag_id: str, dag_run_id: str, *, is_approved: bool, comment: str
) -> AirflowAnswer:
    """Answer the question of a run's task `approve`."""
    body = {
        "chosen_options": [APPROVED if is_approved else REJECTED],
        "params_input": {COMMENT: comment or None},
    }
    return _answer(_call(request, "PATCH", _question(dag_id, dag_run_id), body))


def find_dag_run(request: Request, dag_id: str, among: Iterable[str]) -> str:
    """Return the first of these ids of DAG runs that Airflow has and shows to the person, or ""."""
    runs = f"/dags/{_part(dag_id)}/dagRuns"
    return next(
        (one for one in among if _call(request, "GET", f"{runs}/{_part(one)}").is_success), ""
    )


def read_question(request: Request, dag_id: str, dag_run_id: str) -> AskedInAirflow:
    """Return the question of a run as Airflow has it.

    It is empty if there is none, and if Airflow does not show it to the person.
    """
    found = _call(request, "GET", _question(dag_id, dag_run_id))
    question = found.json() if found.is_success else {}
    approvers = tuple(str(user["id"]) for user in question.get("assigned_users") or ())
    if not question.get("response_received"):
        return AskedInAirflow(approvers)
    answer = GivenAnswer(
        is_approved=question["chosen_options"] == [APPROVED],
        who=(question["responded_by_user"] or {}).get("name", ""),
        at=datetime.fromisoformat(question["responded_at"]),
        why=question["params_input"].get(COMMENT) or "",
    )
    return AskedInAirflow(approvers, answer)


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


def _answer(answer: httpx.Response) -> AirflowAnswer:
    return AirflowAnswer(answer.status_code, "" if answer.is_success else _text(answer))


def _text(answer: httpx.Response) -> str:
    try:
        detail = answer.json().get("detail", "")
    except (ValueError, AttributeError):
        detail = ""
    if isinstance(detail, list):  # of a body that Airflow cannot read
        detail = "; ".join(str(one.get("msg", one)) for one in detail)
    return str(detail) or HTTPStatus(answer.status_code).phrase


def _part(text: str) -> str:
    return quote(text, safe="")
