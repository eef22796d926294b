"""Tools that propose: the plan is that of the page, by its hash, and its person is marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent
from mqdlq.model import AuditKind
from mqdlq.stages.proposals import find_proposer
from tests.support.agents import call, door, examples
from tests.support.world import World

pytestmark = pytest.mark.slow


def proposals(world: World) -> list[AuditEvent]:
    return world.ledger.audit_trail.page(AuditFilter(what=AuditKind.PLAN_PROPOSED))


def propose(world: World, **given: Any) -> Any:
    return call(door(world), "propose_action", handler="demo", **given)


def cause_of(world: World) -> str:
    return str(examples(door(world))["show_cause"]["cause_id"])


def test_a_proposal_has_hash_counts_guards_and_the_address_of_that_plan(world: World) -> None:
    cause = cause_of(world)
    plan = propose(world, action="discard", where=f"cause={cause}", why="nobody needs them")

    assert (plan["action"], plan["messages"]) == ("Discard", 2)
    assert [one["messages"] for one in plan["by_cause"]] == [2]
    assert plan["undo"] == "It can be undone with Restore, as long as the archive keeps the copies."
    assert plan["address"].startswith("https://airflow.example.com/mqdlq/dags/mq_dlq_demo/act?")
    assert f"&proposed={plan['plan_hash']}" in plan["address"]
    (event,) = [one for one in proposals(world) if plan["plan_hash"] in one.details]
    assert (event.who, event.handler, event.messages, event.why) == (
        *("alice through agent tester", "demo", 2, "nobody needs them"),
    )


def test_a_plan_that_guards_ask_about_says_so(world: World) -> None:
    plan = call(
        door(world), "propose_action", handler="payments", action="discard", where="reason=2053"
    )

    assert {"question": "4 messages may be discarded"} in plan["guards_will_ask"]


def test_messages_by_their_keys_that_cannot_be_retried_are_left_out(world: World) -> None:
    rows = call(door(world), "find_messages", handler="demo", limit=50)["rows"]
    keys = [one["message_key"] for one in rows]
    gone = [one for one in rows if one["has_left_the_queue"]]
    plan = propose(world, action="retry", message_keys=keys)

    assert plan["messages"] + sum(one["messages"] for one in plan["left_out"]) >= len(keys)
    assert sum(one["messages"] for one in plan["left_out"]) >= len(gone) > 0


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"action": "retry"}, "[MQDLQ-943]"),
        ({"action": "retry", "where": "reason=2053", "message_keys": ["ab"]}, "[MQDLQ-943]"),
        ({"action": "purge", "where": "reason=2053"}, "[MQDLQ-981]"),
        ({"action": "forward", "where": "reason=2053"}, "[MQDLQ-981]"),
        ({"action": "discard", "discarded_by": "demo-scheduled__first"}, "[MQDLQ-943]"),
        ({"action": "discard", "where": "colour=red"}, "[MQDLQ-975]"),
    ],
)
def test_an_action_that_is_not_one_is_refused(
    world: World, given: dict[str, Any], error: str
) -> None:
    before = len(proposals(world))

    assert propose(world, **given).endswith(error)
    assert len(proposals(world)) == before


def test_a_restoration_of_what_a_run_discarded_is_proposed(world: World) -> None:
    plan = propose(world, action="restore", discarded_by="demo-scheduled__first")

    assert (plan["action"], plan["messages"]) == ("Restore", 3)


def test_who_may_only_read_proposes_no_action_and_may_draft_a_rule(world: World) -> None:
    reader, wanted = door(world, may_act=False), examples(door(world))

    assert call(reader, "propose_action", **wanted["propose_action"]).endswith("[MQDLQ-998]")
    assert isinstance(call(reader, "draft_rule", **wanted["draft_rule"]), dict)


def test_a_draft_is_text_with_a_backtest_and_changes_no_file(world: World) -> None:
    files = {one: one.read_bytes() for one in (world.directory / "handlers").iterdir()}
    found = call(door(world), "draft_rule", handler="demo", cause_id=cause_of(world))

    assert "DESTQ(CLOSED)" in " ".join(found["untrusted"]["rule"])
    assert found["untrusted"]["difference"][0] == "--- a/demo.rules"
    assert found["backtest"]["messages"] > 0
    assert {one: one.read_bytes() for one in (world.directory / "handlers").iterdir()} == files


def test_the_run_of_a_proposal_is_known_however_it_was_started(world: World) -> None:
    rules, cause = "WAIT(NO)\nACTION(IGNORE)\n", cause_of(world)
    plan = propose(world, action="discard", where=f"cause={cause}")
    place = {"where": f"cause={cause}", "as_of": plan["address"].split("as_of=")[1].split("&")[0]}
    one_key = [examples(door(world))["show_message"]["message_key"]]
    propose(world, action="retry", message_keys=one_key)
    runs = [
        world.start(rules, action="ACTION(DISCARD)", run_id="demo-by-condition", **place),
        world.start(rules, action="ACTION(RETRY)", run_id="demo-by-key", message_keys=(*one_key,)),
        world.start(rules, action="ACTION(DISCARD)", run_id="demo-other", where="reason=2085"),
    ]
    runs = [replace(run, handler="demo") for run in runs]

    found = [find_proposer(run, ("7", "Alice"), world.ledger) for run in runs]
    assert found == ["alice through agent tester", "alice through agent tester", ""]
    assert [find_proposer(run, ("bob", "ali"), world.ledger) for run in runs] == ["", "", ""]
