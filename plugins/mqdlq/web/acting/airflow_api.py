"""Call Airflow's own REST API in this process, as the person who sent the request.

Airflow's checks of access, its validation and its log of actions apply as for any other call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import anyio.from_thread
import httpx
from fastapi import Request

from mqdlq.airflow.operators.approve import APPROVE, COMMENT, REJECT

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


def trigger(
    request: Request, dag_id: str, dag_run_id: str, conf: Mapping[str, Any]
) -> AirflowAnswer:
    """Start a DAG run under an id; a second call with the same id starts nothing."""
    body = {"dag_run_id": dag_run_id, "logical_date": None, "conf": dict(conf)}
    return _call(request, "POST", f"/dags/{_part(dag_id)}/dagRuns", body)


def answer_question(
    request: Request, dag_id: str, dag_run_id: str, *, is_approved: bool, comment: str
) -> AirflowAnswer:
    """Answer the question of a run's task `approve`."""
    path = f"/dags/{_part(dag_id)}/dagRuns/{_part(dag_run_id)}/taskInstances/approve/-1/hitlDetails"
    body = {
        "chosen_options": [APPROVE if is_approved else REJECT],
        "params_input": {COMMENT: comment or None},
    }
    return _call(request, "PATCH", path, body)


def _call(request: Request, method: str, path: str, body: Mapping[str, Any]) -> AirflowAnswer:
    return anyio.from_thread.run(_send, request, method, path, body)


async def _send(request: Request, method: str, path: str, body: Mapping[str, Any]) -> AirflowAnswer:
    headers = {name: value for name, value in request.headers.items() if name in _CREDENTIALS}
    transport = httpx.ASGITransport(app=request.state.airflow, raise_app_exceptions=False)
    base = f"{request.url.scheme}://{request.url.netloc}/api/v2"
    async with httpx.AsyncClient(transport=transport, base_url=base, headers=headers) as client:
        answer = await client.request(method, path, json=body)
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
