"""Agents over HTTP: the official client, Airflow's tokens, and every tool for every role."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import anyio
import httpx2
import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from mqdlq.agents.catalogue import BY_NAME, TOOLS, Tool
from mqdlq.agents.serving import Rates
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.web import agents, requests
from mqdlq.web.app import application as page
from tests.support.agents import door, examples, unchanged
from tests.support.web.airflow_app import BASE_URL, ROLES, AirflowApp
from tests.support.web.demo_world import make_demo_world
from tests.support.world import World

pytestmark = pytest.mark.slow

ACTING: Final = ("user", "op", "admin")
"""The roles that may start runs of the DAGs that they may read."""
CALL: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
HEADERS: Final = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module", name="hosted")
def _hosted(airflow: AirflowApp, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a demo world with its own audit, which the tools read in place of the common one."""
    del airflow
    with patch.dict(os.environ):
        made = make_demo_world(tmp_path_factory.mktemp("agents"))
        overrides = page().dependency_overrides
        overrides[requests.ledger] = lambda: made.ledger
        overrides[requests.lake_root] = lambda: made.lake_root
        with made.ledger:
            yield made
        del overrides[requests.ledger], overrides[requests.lake_root]


@pytest.fixture(autouse=True)
def _switched_on(hosted: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Rates(hosted.clock, most=100_000)
    monkeypatch.setattr(agents, "_rates", lambda: rates)
    monkeypatch.setenv(agents.SWITCH, "on")


@pytest.fixture(scope="module", name="wanted")
def _wanted(hosted: World) -> dict[str, dict[str, Any]]:
    return examples(door(hosted))


def use(airflow: AirflowApp, token: str, do: Callable[[Client], Awaitable[Any]]) -> Any:
    """Use the tools by the official client, with a token of Airflow."""

    async def run() -> Any:
        transport = httpx2.ASGITransport(app=airflow.app)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(transport=transport, headers=headers) as http:
            way = streamable_http_client(f"{BASE_URL}/mqdlq/mcp", http_client=http)
            info = Implementation(name="tester", version="1")
            async with Client(way, client_info=info) as client:
                return await do(client)

    return anyio.run(run)


def post(airflow: AirflowApp, tool: str, given: dict[str, Any], **headers: str) -> Any:
    """Call a tool as a program does that has no client."""
    call = CALL | {"params": {"name": tool, "arguments": given}}
    return airflow.client().post("/mqdlq/mcp", json=call, headers=HEADERS | headers)


def test_every_example_is_answered_over_http_and_changes_nothing(
    airflow: AirflowApp, hosted: World, wanted: dict[str, Any]
) -> None:
    async def run(client: Client) -> dict[str, Any]:
        assert [one.name for one in (await client.list_tools()).tools] == [*BY_NAME]
        return {name: await client.call_tool(name, given) for name, given in wanted.items()}

    with unchanged(hosted):
        answers = use(airflow, airflow.token("op"), run)

    assert {name: one.content for name, one in answers.items() if one.is_error} == {}
    events = hosted.ledger.audit_trail.page(AuditFilter(what=AuditKind.PLAN_PROPOSED))
    assert "otto through agent tester" in {one.who for one in events}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_reaches_what_the_role_may_read_and_no_more(
    airflow: AirflowApp, hosted: World, tool: Tool, role: str, wanted: dict[str, Any]
) -> None:
    given = wanted[tool.name]
    hidden = given | {"handler": "secret"} if given.get("handler") else None

    async def run(client: Client) -> Any:
        own = await client.call_tool(tool.name, given)
        return own, hidden and await client.call_tool(tool.name, hidden)

    with unchanged(hosted):
        own, other = use(airflow, airflow.token(role), run)

    may = not tool.needs_acting or role in ACTING
    assert own.is_error is not may, own.content[0].text
    if role != "admin":
        assert "secret" not in own.content[0].text
        assert "MQDLQ-998" in own.content[0].text or may
        assert other is None or "does not exist, or" in other.content[0].text


def test_anonymous_and_wrong_and_expired_tokens_are_refused_on_every_tool(
    airflow: AirflowApp, wanted: dict[str, Any]
) -> None:
    user = SimpleAuthManagerUser(username="otto", role="op")
    expired = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=-60)
    ways = {
        "anonymous": {},
        "wrong": {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ."},
        "expired": {"Authorization": f"Bearer {expired}"},
        "a password": {"Authorization": "Basic YWRhOmFkYQ=="},
        "a cookie": {"Cookie": f"_token={airflow.token('admin')}"},
    }
    refused: dict[str, int] = dict.fromkeys(ways, 0)
    for name, given in wanted.items():
        for way, headers in ways.items():
            answer = post(airflow, name, given, **headers)
            assert answer.status_code in {401, 403}, (way, answer.text)
            assert "demo" not in answer.text
            refused[way] += 1

    assert refused == dict.fromkeys(ways, len(TOOLS))


def test_two_tenants_see_their_own_handler_only(
    airflow: AirflowApp, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    manager = get_auth_manager()
    owned = {"ulla": "mq_dlq_demo", "otto": "mq_dlq_payments"}
    allows = manager.is_authorized_dag

    def is_authorized_dag(*, user: Any, details: DagDetails | None = None, **asked: Any) -> bool:
        is_own = details is None or details.id == owned.get(user.get_name())
        return is_own and allows(user=user, details=details, **asked)

    monkeypatch.setattr(manager, "is_authorized_dag", is_authorized_dag)
    monkeypatch.setattr(
        manager, "get_authorized_dag_ids", lambda *, user, **_: {owned[user.get_name()]}
    )

    async def run(client: Client) -> Any:
        handlers = await client.call_tool("list_handlers", {})
        names = {one["handler"] for one in handlers.structured_content["rows"]}
        answers = {name: await client.call_tool(name, given) for name, given in wanted.items()}
        return names, {name for name, one in answers.items() if one.is_error}

    demo, failed = use(airflow, airflow.token("user"), run)
    payments, refused = use(airflow, airflow.token("op"), run)

    assert (demo, payments) == ({"demo"}, {"payments"})
    assert failed == set()
    general = {"list_handlers", "explain_reason", "explain_error", "check_rules"}
    assert refused == BY_NAME.keys() - general


def test_it_is_off_unless_the_api_server_says_otherwise(
    airflow: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(agents.SWITCH)
    answer = post(airflow, "list_handlers", {}, Authorization=f"Bearer {airflow.token('admin')}")

    assert answer.status_code == 404
    assert answer.json()["detail"] == "MQDLQ_AGENTS is not on for this api-server"


def test_only_messages_are_taken_and_no_stream_is_held_open(airflow: AirflowApp) -> None:
    headers = {"Authorization": f"Bearer {airflow.token('admin')}"} | HEADERS
    client = airflow.client()

    assert client.get("/mqdlq/mcp", headers=headers).status_code == 405
    large = client.post("/mqdlq/mcp", content=b" " * 300_000, headers=headers)
    assert large.status_code == 413


def test_the_calls_of_each_token_are_limited(
    airflow: AirflowApp, hosted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = Rates(hosted.clock, most=2)
    monkeypatch.setattr(agents, "_rates", lambda: rates)

    async def run(client: Client) -> list[bool]:
        return [(await client.call_tool("list_handlers", {})).is_error for _ in range(3)]

    first, second = (use(airflow, airflow.token(role), run) for role in ("op", "admin"))

    assert first == second == [False, False, True]


def test_the_address_of_a_proposal_shows_that_very_plan(
    airflow: AirflowApp, wanted: dict[str, Any]
) -> None:
    given = wanted["propose_action"] | {"why": "<b>it is fixed</b>"}

    async def run(client: Client) -> Any:
        return (await client.call_tool("propose_action", given)).structured_content

    plan = use(airflow, airflow.token("op"), run)
    path = plan["address"][plan["address"].index("/mqdlq") :]
    shown = airflow.client("admin").get(path)
    other = airflow.client("admin").get(path.replace(plan["plan_hash"], "0" * 64))

    assert f'This is the plan <span class="id">{plan["plan_hash"]}</span>' in shown.text
    assert "otto through agent tester" in shown.text
    assert ": &lt;b&gt;it is fixed&lt;/b&gt;." in shown.text
    assert "Start a run" in shown.text
    assert "No agent has proposed a plan with the hash" in other.text
    assert "Start a run" not in other.text


def test_the_page_of_a_proposal_shows_hostile_names_harmless(airflow: AirflowApp) -> None:
    given = {"handler": "names", "action": "leave", "where": "reason=2085"}

    async def run(client: Client) -> Any:
        return (await client.call_tool("propose_action", given)).structured_content

    plan = use(airflow, airflow.token("op"), run)
    shown = airflow.client("op").get(plan["address"][plan["address"].index("/mqdlq") :])

    assert plan["messages"] == 6
    assert "This is the plan" in shown.text
    assert "&lt;script&gt;alert" in shown.text
    for raw in ("<script>alert", "\x1b", "\u202e", "\a"):
        assert raw not in shown.text
