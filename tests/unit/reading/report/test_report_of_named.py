"""Test that the report of a run for named messages lists these and counts the others."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from mqdlq.ledger.tables import Run
from mqdlq.reading.report.building import Report, read_report, rows_needing_attention
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from mqdlq.reading.run import read_sources
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World
from tests.unit.reading.report.ended_runs import failed_at

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\n"
FORWARD = "ACTION(FWD) FWDQ(PARKED)"


@pytest.fixture(name="keys")
def _keys(world: World) -> list[str]:
    """Put an unprocessable message and three unmatched dead letters; return their keys."""
    world.put("DLQ", b"no dead letter")
    for number in range(3):
        world.dead_letter(b"%d" % number)
    run = world.plan(RULES, dry_run=True).run
    return [message.message_key.hex() for message in world.ledger.messages.of_run(run.run_id)]


def report_of(world: World, run: Run, stages: Mapping[str, str] | None = None) -> Report:
    return read_report(
        run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages=stages or {},
        now=world.clock(),
    )


def handled(world: World, key: str, action: str | None) -> Report:
    execution = world.plan(RULES, message_keys=(key,), action=action)
    make_pass(execution)
    settle(execution)
    return report_of(world, execution.run)


def test_messages_that_are_not_selected_are_one_line_of_the_report(
    world: World, keys: list[str]
) -> None:
    report = handled(world, keys[0], FORWARD)

    assert report.headline == "1 message of 4 selected: 1 handled. The account adds up."
    assert (report.verdict, report.needs_attention, report.attention_groups) == ("ok", 0, ())
    text = render_text(report)
    assert "Account   1 selected of 4 in the snapshot = 1 forwarded\n" in text
    assert text.count("not selected: 3\n") == 1
    assert "3 on the queue, 3 of this run, 0 arrived since" in text
    assert "unmatched" not in text
    (row,) = report.rules
    assert (row.messages, row.outcome, row.action, row.target_q) == (
        1,
        "forwarded",
        "FWD",
        "PARKED",
    )
    assert report.causes == ()


def test_the_page_draws_the_named_messages_only(world: World, keys: list[str]) -> None:
    page = render_html(handled(world, keys[0], FORWARD))

    assert page.count("not selected: 3") == 1
    assert 'aria-label="Outcomes of 1 message"' in page
    assert '<rect class="forwarded" x="0.0" y="0" width="1000.0"' in page
    assert "Needs attention" not in page


def test_the_json_report_of_named_messages_has_their_number_and_keys(
    world: World, keys: list[str]
) -> None:
    document = json.loads(render_json(handled(world, keys[0], FORWARD)))

    account = document["account"]
    assert (account["messages"], account["booked"], account["not_selected"]) == (4, 4, 3)
    assert account["outcomes"] == {"forwarded": 1}
    assert account["adds_up"]
    assert document["run"]["message_keys"] == [keys[0]]


def test_a_named_message_that_stays_needs_attention_with_a_next_step(
    world: World, keys: list[str]
) -> None:
    report = handled(world, keys[0], None)

    assert report.headline == (
        "1 message of 4 selected: 0 handled, 1 needs attention. The account adds up."
    )
    (group,) = report.attention_groups
    assert group.first.next_step == (
        "find the program that put it here without MQDLH; move it with message_keys and action"
    )
    sources = read_sources(report.run_id, world.ledger, world.lake_root)
    assert [row.message_key for row in rows_needing_attention(sources, world.ledger)] == [keys[0]]


def test_a_run_without_a_plan_reports_no_unselected_messages(world: World, keys: list[str]) -> None:
    run = world.start(RULES, message_keys=(keys[0],), action="ACTION(RETRY)")
    world.snapshot(run)

    report = report_of(world, run, failed_at("snapshot"))

    assert report.headline == (
        "The run ended at snapshot: none of 1 message was acted on; nothing was touched."
    )
    assert (report.account, report.without_outcome) == (None, 0)


def test_settled_messages_count_as_not_selected(world: World, keys: list[str]) -> None:
    make = world.plan(RULES)
    make_pass(make)
    settle(make)
    world.clock.sleep(1)

    report = handled(world, keys[1], None)

    assert report.headline == (
        "1 message of 4 selected: 0 handled, 1 needs attention. The account adds up."
    )
    assert report.account is not None
    assert (report.account.settled, report.account.not_selected) == (0, 3)


def test_the_next_step_of_a_failed_action_is_to_give_it_again(
    world: World, keys: list[str]
) -> None:
    report = handled(world, keys[0], "ACTION(FWD) FWDQ(CLOSED)")

    (group,) = report.attention_groups
    assert group.first.outcome == "exhausted"
    assert group.first.next_step == (
        "ask who inhibited puts, then set PUT(ENABLED); then give the same action again"
    )
