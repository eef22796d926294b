"""What agents may do: every tool of the list, its effect, its bounds, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client

from mqdlq.agents.answers import LONGEST_TEXT, MOST_ROWS, Caller, harmless
from mqdlq.agents.catalogue import BY_NAME, TOOLS, Effect, Tool
from mqdlq.agents.serving import Rates
from mqdlq.errors import LedgerError
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from tests.support.agents import HANDLERS, call, door, examples, stdio, unchanged, with_client
from tests.support.world import World

pytestmark = pytest.mark.slow

EFFECTS = {
    Effect.LOOK: (
        *("list_handlers", "list_causes", "show_cause", "find_messages", "show_message"),
        *("list_runs", "show_run", "show_report", "show_rules", "list_audit", "show_plan"),
    ),
    Effect.EXPLAIN: (
        *("explain_message", "explain_reason", "explain_error", "diagnose"),
        *("explain_dump", "check_rules", "compare_rules"),
    ),
    Effect.PROPOSE: ("propose_action", "draft_rule"),
}
OF_NO_HANDLER = {"explain_reason", "explain_error", "check_rules"}
"""The tools that explain what they are given."""
KINDS = (AuditKind.AGENT_SEARCHED, AuditKind.AGENT_REFUSED, AuditKind.PLAN_PROPOSED)


def audited(world: World) -> list[AuditEvent]:
    trail = world.ledger.audit_trail
    return [one for kind in KINDS for one in trail.page(AuditFilter(what=kind), limit=1_000)]


def test_these_are_all_tools_with_their_effects() -> None:
    found = {effect: tuple(t.name for t in TOOLS if t.effect is effect) for effect in Effect}

    assert found == EFFECTS


def test_a_client_lists_every_tool_with_title_annotations_and_schemas(world: World) -> None:
    async def listing(client: Client) -> Any:
        return (await client.list_tools()).tools

    tools = with_client(door(world).server(), listing)

    assert [one.name for one in tools] == [*BY_NAME]
    for one in tools:
        assert one.title
        assert one.description
        assert one.annotations.destructive_hint is False
        assert one.annotations.read_only_hint is (BY_NAME[one.name].effect is not Effect.PROPOSE)
        assert one.input_schema["additionalProperties"] is False
        assert one.output_schema["additionalProperties"] is False


def test_every_example_is_answered_over_standard_input_and_output(world: World) -> None:
    wanted = examples(door(world))

    async def run(client: Client) -> dict[str, Any]:
        return {name: await client.call_tool(name, given) for name, given in wanted.items()}

    answers = with_client(stdio(world), run)

    assert {name: one.content[0].text for name, one in answers.items() if one.is_error} == {}
    for one in answers.values():
        assert json.loads(one.content[0].text) == one.structured_content
        assert one.content[0].text.isascii()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_changes_nothing_but_the_audit(world: World, tool: Tool) -> None:
    opened = door(world)
    given = examples(opened)[tool.name]
    before = len(audited(world))
    with unchanged(world):
        answer = call(opened, tool.name, **given)

    assert isinstance(answer, dict), answer
    assert len(audited(world)) - before == (tool.noted is not None)


def test_the_ledger_of_tools_refuses_to_be_changed(world: World) -> None:
    event = AuditEvent(world.clock(), AuditKind.APPROVED, "alice")
    with pytest.raises(LedgerError) as refused:
        world.ledger.reading().audit.record(event)

    assert str(refused.value) == (
        "INSERT would change the ledger, which is read only here; change it elsewhere [MQDLQ-280]"
    )


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_hidden_handler_looks_like_one_that_does_not_exist(world: World, tool: Tool) -> None:
    given = examples(door(world))[tool.name]
    nobody = door(world, frozenset())
    answer = call(nobody, tool.name, **given)
    if tool.name in OF_NO_HANDLER:
        assert answer == call(door(world), tool.name, **given)
    elif isinstance(answer, dict):
        assert answer["rows"] == []
    else:
        assert "does not exist, or alice may not" in answer or "may see" in answer
    if given.get("handler"):
        hidden, missing = (
            call(door(world), tool.name, **given | {"handler": name})
            for name in ("secret", "nothing")
        )
        assert hidden.replace("secret", "nothing") == missing


def test_a_run_of_a_hidden_handler_is_not_shown(world: World) -> None:
    assert "may not see it" in call(door(world), "show_run", run_id="secret-manual__hidden")
    seen = door(world, HANDLERS | {"secret"})
    assert call(seen, "show_run", run_id="secret-manual__hidden")["handler"] == "secret"


def test_searches_and_refusals_are_in_the_audit_with_person_and_agent(world: World) -> None:
    opened = door(world)
    call(opened, "find_messages", handler="demo", where="reason=2053")
    call(opened, "show_rules", handler="secret")
    call(opened, "discard")
    found = audited(world)

    assert {one.who for one in found} <= {"alice through agent tester", "root through agent tester"}
    details = [(one.what, one.handler, one.details) for one in found]
    assert (AuditKind.AGENT_SEARCHED, "demo", "reason=2053") in details
    assert (AuditKind.AGENT_REFUSED, "secret", "show_rules: MQDLQ-997") in details
    assert (AuditKind.AGENT_REFUSED, "", "discard: MQDLQ-948") in details


def test_a_search_that_cannot_be_recorded_is_not_answered(world: World) -> None:
    def fail(_event: AuditEvent) -> None:
        raise LedgerError("MQDLQ-216", "the ledger is locked")

    opened = replace(door(world), record=fail)

    assert call(opened, "find_messages", handler="demo") == "the ledger is locked [MQDLQ-216]"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"limit": MOST_ROWS + 1}, "limit: Input should be less than or equal to 50"),
        ({"cursor": -1}, "cursor: Input should be greater than or equal to 0"),
        ({"force": True}, "force: Extra inputs are not permitted"),
        ({"handler": "x" * 201}, "handler: String should have at most 200 characters"),
    ],
)
def test_an_argument_that_is_not_valid_is_named(
    world: World, given: dict[str, Any], fault: str
) -> None:
    answer = call(door(world), "list_causes", **given)

    assert answer == f"list_causes: {fault}; see its input schema [MQDLQ-947]"


def test_a_list_is_read_part_by_part(world: World) -> None:
    opened, whole = (
        door(world),
        call(door(world), "find_messages", handler="demo", limit=50)["rows"],
    )
    read: list[Any] = []
    some: dict[str, Any] = {"next_cursor": 0}
    while some["next_cursor"] is not None:
        some = call(opened, "find_messages", handler="demo", limit=7, cursor=some["next_cursor"])
        assert len(some["rows"]) <= 7
        read += some["rows"]

    assert len(whole) > 14
    assert read == whole


def test_a_token_has_a_number_of_calls_in_each_minute(world: World) -> None:
    rates = Rates(world.clock, most=2)
    alice, bob = (replace(door(world), rates=rates, token=token) for token in ("a", "b"))
    before = world.clock.now

    assert [isinstance(call(alice, "list_handlers"), dict) for _ in range(3)] == [True, True, False]
    assert call(alice, "list_handlers").startswith("More than 2 calls in a minute; wait until ")
    assert isinstance(call(bob, "list_handlers"), dict)
    world.clock.sleep(60)
    assert isinstance(call(alice, "list_handlers"), dict)
    world.clock.now = before


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\u202eabc\u200b", r"\u202eabc\u200b"),
        ("x" * 500, "x" * 200 + "…"),
        ("\0" * 200, r"\x00" * 50 + "…"),
    ],
)
def test_a_strangers_text_is_escaped_and_cut(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_no_argument_takes_more_than_a_table() -> None:
    for tool in TOOLS:
        for name, schema in tool.arguments.model_json_schema()["properties"].items():
            if schema.get("type") == "string":
                assert schema["maxLength"] <= LONGEST_TEXT, (tool.name, name)


def test_the_text_of_a_fault_is_in_the_log_and_not_in_the_answer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Caller:
        raise ValueError("words of a stranger")

    said = call(replace(door(world), caller=fail), "list_handlers")

    assert said == "list_handlers has a fault; the log of the server has the details [MQDLQ-994]"
    assert "words of a stranger" in caplog.text
