"""Test the causes of a handler and one cause, over a real ledger and a real lake."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mqdlq.causes import Cause, CountedCause
from mqdlq.lake import remove_snapshot
from mqdlq.lake.filters import MessageFilter
from mqdlq.model import MessageClass, QueueKind
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.web.cause_pages import CAUSES, ELSEWHERE, FULL, HOSTILE, RULES, STRAY, Pages

ELSEWHERE_ONLY = "DESTQ(NOWHERE) ACTION(RETRY)\n"


def test_causes_are_listed_with_the_most_messages_first(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    assert pages.causes(sort="messages") == [
        "MQRC_Q_FULL (2053) PAYMENTS @ QM1",
        "MQRC_UNKNOWN_OBJECT_NAME (2085) ELSEWHERE @ QM1",
        "no MQDLH",
        "MQRC_UNKNOWN_OBJECT_NAME (2085) ORDERS @ QM1",
    ]


def test_a_cause_has_its_rule_its_outcome_and_its_badges(pages: Pages) -> None:
    pages.fill()
    pages.handle()

    full, elsewhere, stray = (pages.words(f"{CAUSES}/{one}") for one in (FULL, ELSEWHERE, STRAY))

    assert "7 messages in the snapshot of run run-1" in full
    assert "3 messages 42.9 %" in full
    assert "MQRC_Q_FULL (2053) PAYMENTS @ QM1 NEW passes by itself" in full
    assert "rule 1, line 2 REASON(MQRC_Q_FULL) ACTION(RETRY)" in full
    assert "3 delivered" in full
    assert "Rule no rule Suggest a rule" in elsewhere
    assert "2 unmatched" in elsewhere
    assert "no rule can match these: act on them by their keys" in stray


def test_rules_match_the_messages_of_a_backout_queue(pages: Pages) -> None:
    pages.world.mqsc("DEFINE QLOCAL(BACKOUT)")
    pages.world.put("BACKOUT", b"x", Format=b"MQSTR   ", PutApplName=b"orders")
    pages.world.put("BACKOUT", b"y", PutApplName=b"quotes")
    rules = "INPUTQ(BACKOUT)\nFORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED)\n"
    pages.handle(rules, queue_kind=QueueKind.BACKOUT)

    shown = pages.words(f"{CAUSES}/{STRAY}")

    assert "Advice find out why their application backs these messages out" in shown
    assert (
        "rule 1, line 2 FORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED) (1 of 2) no rule (1 of 2)" in shown
    )
    assert "no rule can match" not in shown


def test_messages_that_a_later_run_moved_are_not_counted_any_more(pages: Pages) -> None:
    pages.fill()
    pages.handle(ELSEWHERE_ONLY)
    before = pages.words(f"{CAUSES}/{FULL}")
    listed = pages.world.ledger.messages.of_run("run-1")
    keys = tuple(one.message_key.hex() for one in listed[:3])
    action = {"action": "ACTION(RETRY) RETRY(1)", "message_keys": keys, "user": "admin"}
    pages.handle(ELSEWHERE_ONLY, **action)

    after = pages.words(f"{CAUSES}/{FULL}")

    handled = "3 of them handled at 2026-11-21 14:00:00 UTC by admin"
    assert "3 messages 42.9 % of the last snapshot" in before
    assert (
        f"7 messages in the snapshot of run run-1 , taken 2026-11-21 13:00:00 UTC; {handled}"
        in (after)
    )
    assert f"Since then {handled} Rule no message is left" in after
    assert "0 messages 0.0 % of what is left of the last snapshot" in after


def test_messages_of_a_large_snapshot_are_subtracted_beyond_the_ones_on_the_page(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqdlq.reading.cause_profiles.MOST_MESSAGES", 2)
    pages.fill()
    pages.handle(ELSEWHERE_ONLY)
    listed = pages.world.ledger.messages.of_run("run-1")
    key = listed[3].message_key.hex()
    pages.handle(ELSEWHERE_ONLY, action="ACTION(DISCARD)", message_keys=(key,), user="admin")

    after = pages.words(f"{CAUSES}/{ELSEWHERE}")

    assert "This page reads the first 2 of them" in after


def test_a_cause_that_comes_back_is_marked(pages: Pages) -> None:
    pages.world.dead_letter(b"1")
    pages.handle()
    pages.world.dead_letter(b"2", dest_q="ELSEWHERE", reason=2085)
    pages.handle()
    pages.world.dead_letter(b"3")
    pages.handle()

    assert "RETURNED \u00d71" in pages.get(f"{CAUSES}/{FULL}")


def test_a_handler_without_runs_says_what_to_do(pages: Pages) -> None:
    shown = pages.words(CAUSES)

    assert "No run of this handler has read its queue with its rules table" in shown
    assert "Start with a dry run, which reads the queue and moves nothing: open the DAG" in shown
    assert "no run of handler test is recorded; start its DAG, with dry_run at first" in (
        pages.words(f"{CAUSES}/{FULL}", 404)
    )


def test_an_unknown_queue_names_the_known_ones(pages: Pages) -> None:
    pages.fill()
    pages.handle()

    shown = pages.words(f"{CAUSES}/{FULL}", 404, queue="X", queue_manager="QM1")

    assert "no run of handler test handled X @ QM1; its queues are DLQ @ QM1" in shown


def test_a_pruned_snapshot_leaves_the_causes_of_the_ledger(pages: Pages) -> None:
    pages.fill()
    pages.handle()
    taken = pages.world.recorded_snapshot("run-1")
    remove_snapshot(pages.world.lake_root, taken.location, taken.snapshot_id)

    assert len(pages.causes(state="all")) == 4
    assert "The snapshot cannot be read" in pages.words(f"{CAUSES}/{FULL}")


def test_causes_that_the_ledger_does_not_know_are_found_in_the_snapshot(pages: Pages) -> None:
    pages.fill()
    run = pages.world.plan(RULES, dry_run=True).run
    vague = [CountedCause(Cause(MessageClass.DEAD_LETTER, 2085, None), 3)]
    pages.world.ledger.snapshots.record_causes(run.run_id, vague)

    assert "3 messages 42.9 % of the last snapshot" in pages.words(f"{CAUSES}/{FULL}")


def test_one_cause_shows_its_messages_and_its_runs(pages: Pages) -> None:
    pages.fill()
    pages.world.dead_letter(b"soon", Expiry=36_000 * 2)
    pages.handle()

    shown = pages.words(f"{CAUSES}/{FULL}")

    assert "4 messages 50.0 % of the last snapshot" in shown
    assert "In the next hour none Tonight (until 6:00 UTC) 1 message" in shown
    assert "Applications 3 billing" in shown
    assert "The first 4 of 4 messages" in shown
    assert "4 delivered rule 1, line 2 REASON(MQRC_Q_FULL) ACTION(RETRY)" in shown
    assert "run-1 4 0" in shown


def test_the_messages_of_a_cause_are_those_of_its_queue(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)
    chosen = f"queue_manager=QM1&amp;queue=DLQ&amp;cause_id={FULL}"

    shown = pages.get(f"{CAUSES}/{FULL}")
    assert f'href="/mqdlq/search?{chosen}"' in shown
    assert f'href="/mqdlq/dags/mq_dlq_test/act?{chosen}"' in shown


def test_messages_that_expire_tonight_are_a_search(pages: Pages) -> None:
    pages.world.dead_letter(b"soon", Expiry=36_000 * 2)
    pages.handle(dry_run=True)

    found = re.search(
        r'href="[^"]*/search\?([^"]*expires_before[^"]*)"', pages.get(f"{CAUSES}/{FULL}")
    )

    assert found is not None
    chosen = MessageFilter.parse(parse_qsl(html.unescape(found[1])))
    assert chosen.expires_before == datetime(2026, 11, 22, 6, tzinfo=UTC)


def test_arrivals_during_the_run_are_shown_apart(pages: Pages) -> None:
    pages.world.dead_letter(b"early")
    pages.world.clock.now += timedelta(hours=1)
    execution = pages.world.plan(RULES)
    record_causes(execution.run, ledger=pages.world.ledger)
    pages.world.dead_letter(b"late")
    make_pass(execution)

    page = f"{CAUSES}/{FULL}"
    assert "The run has not closed its account: outcomes may be missing." in pages.words(page)
    settle(execution)
    assert "During the run, 1 more message arrived" in pages.words(page)


def test_a_handler_lists_the_causes_on_all_its_queues(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)
    pages.world.dead_letter(b"1")
    pages.world.mqsc("DEFINE QLOCAL(OTHER)")
    pages.world.put("OTHER", b"stray")
    pages.handle("INPUTQ(OTHER)\nACTION(IGNORE)\n", dry_run=True)

    assert len(pages.causes()) == 4


def test_an_unknown_cause_is_not_found(pages: Pages) -> None:
    pages.fill()
    pages.handle()

    shown = pages.words(f"{CAUSES}/nothing", 404)

    assert "no run met the cause 'nothing' on DLQ @ QM1; choose one from the list" in shown


def test_a_person_who_may_not_act_gets_no_link_to_act(tmp_path: Path) -> None:
    pages = Pages(tmp_path, may_act=False)
    with pages.world.ledger:
        pages.fill()
        pages.handle(dry_run=True)

        assert "Act on them" not in pages.get(f"{CAUSES}/{FULL}")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_do_nothing(pages: Pages, name: str) -> None:
    world = pages.world
    world.dead_letter(
        dest_q=name,
        reason=2085,
        ccsid=1208,
        CodedCharSetId=1208,
        PutApplName=name.encode()[:28],
        UserIdentifier=name.encode()[:12],
    )
    pages.handle(dry_run=True)
    (cause_id,) = {one.cause.cause_id for one in world.ledger.causes.of_queue("QM1", "DLQ").causes}

    for path in (CAUSES, f"{CAUSES}/{cause_id}", f"{CAUSES}/{cause_id}/rule"):
        shown = pages.get(path)
        assert "<b>" not in shown
        assert not {"\x1b", "\u202e"} & set(shown)
