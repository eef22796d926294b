"""Prompts, and resources at their addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mqdlq.agents.catalogue import BY_NAME
from mqdlq.agents.guides import PROMPTS, RESOURCES
from tests.support.agents import call, door, examples, with_client
from tests.support.world import World

pytestmark = pytest.mark.slow


def test_every_prompt_names_tools_that_exist_and_ends_with_a_person(world: World) -> None:
    async def read(client: Client) -> Any:
        listed = (await client.list_prompts()).prompts
        return [
            await client.get_prompt(one.name, {each.name: "demo" for each in one.arguments or ()})
            for one in listed
        ]

    found = [one.messages[0].content.text for one in with_client(door(world).server(), read)]

    assert len(found) == len(PROMPTS)
    for text in found:
        words = {word.strip("(),.:") for word in text.split() if "_" in word}
        assert words <= BY_NAME.keys()
        assert text.endswith("end with what a person should decide, and at which address.")


def test_every_resource_is_the_answer_of_its_tool(world: World) -> None:
    opened = door(world)
    wanted = examples(opened)

    async def read(client: Client) -> Any:
        templates = (await client.list_resource_templates()).resource_templates
        uris = {one.name: one.uri_template.format(**wanted[one.name]) for one in templates}
        listed = (await client.list_resources()).resources
        assert "mqdlq://handlers/demo/rules" in [one.uri for one in listed]
        return {name: await client.read_resource(uri) for name, uri in uris.items()}

    found = with_client(opened.server(), read)

    assert found.keys() == set(RESOURCES.values())
    for name, one in found.items():
        assert json.loads(one.contents[0].text) == call(opened, name, **wanted[name])


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("mqdlq://handlers/secret/rules", "MQDLQ-997"),
        ("mqdlq://runs/secret-manual__hidden/report", "MQDLQ-999"),
        ("mqdlq://bodies/1", "MQDLQ-944"),
        ("file:///etc/passwd", "MQDLQ-944"),
        ("mqdlq://docs/errors/MQDLQ-000", "MQDLQ-944"),
    ],
)
def test_an_address_of_something_else_is_refused(world: World, uri: str, error: str) -> None:
    async def read(client: Client) -> Any:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        return refused.value.error.message

    assert error in with_client(door(world).server(), read)


def test_a_prompt_needs_its_arguments(world: World) -> None:
    async def read(client: Client) -> Any:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("triage_queue", {})
        return refused.value.error.message

    assert "triage_queue with handler" in with_client(door(world).server(), read)


def test_a_plan_is_shown_with_who_proposed_it_and_whether_it_is_still_that_plan(
    world: World,
) -> None:
    opened = door(world)
    plan = call(
        opened, "propose_action", handler="demo", action="leave", where="reason=2051", why="wait"
    )
    shown = call(opened, "show_plan", handler="demo", plan_hash=plan["plan_hash"])

    assert shown["is_still_that_plan"]
    assert shown["now"] == plan
    assert shown["proposals"][0]["untrusted"] == {
        "who": "alice through agent tester",
        "why": "wait",
    }
    assert call(opened, "show_plan", handler="demo", plan_hash="0" * 64).endswith("[MQDLQ-999]")
