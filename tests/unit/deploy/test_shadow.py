"""Test `mqdlq shadow`, which compares our rules' decisions with another handler's actions.

The other handler is a function of these tests that moves messages; in one test it is ours.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

import embedded_mq
from mqdlq.cli import app
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = """
APPLNAME('hold*') ACTION(IGNORE)
DESTQ(PAYMENTS) ACTION(RETRY) RETRY(2)
DESTQ(PAYMENTS) ACTION(FWD) FWDQ(PARKED)
DESTQ(QUOTES) ACTION(DISCARD)
"""


def snapshot(world: World, queue: str = "DLQ") -> str:
    """Take a snapshot as a dry run does, a minute later than the last one."""
    world.clock.now += timedelta(minutes=1)
    run = world.start(f"INPUTQ({queue})\n{RULES}" if queue != "DLQ" else RULES, dry_run=True)
    manifest = world.snapshot(run)
    return manifest.snapshot_id


def take(world: World, *places: int, to: str | None = None) -> None:
    """Move messages of the DLQ as another handler does, with all context and without the MQDLH."""
    moved = [world.messages("DLQ")[place] for place in places]
    for descriptor, body in moved:
        if to is not None:
            fields = ("MsgId", "CorrelId", "PutDate", "PutTime", "PutApplName", "PutApplType")
            world.put(to, body[172:], **{name: getattr(descriptor, name) for name in fields})
        with world.connect() as queue_manager:
            module, constants = queue_manager.client.module, queue_manager.client.CMQC
            queue = queue_manager.open("DLQ", constants.MQOO_INPUT_SHARED)
            wanted = module.MD(MsgId=descriptor.MsgId)
            queue.get(None, wanted, module.GMO(Options=constants.MQGMO_NO_SYNCPOINT))
            queue_manager.close(queue)


def shadow(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["shadow", *arguments])
    return done.exit_code, done.output


def fill(world: World) -> None:
    for number, (dest_q, name) in enumerate(
        [("PAYMENTS", b"a")] * 3 + [("QUOTES", b"a"), ("PAYMENTS", b"hold-1"), ("ELSEWHERE", b"a")]
    ):
        put_by: dict[str, Any] = {"PutApplName": name, "MsgId": bytes([number + 1] * 24)}
        world.dead_letter(dest_q=dest_q, **put_by)
    world.put("DLQ", b"bare", MsgId=b"b" * 24)


def test_shadow_agrees_with_a_handler_that_did_what_the_rules_say(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, 1, 2, to="PAYMENTS")
    take(world, 0)
    world.dead_letter(dest_q="PAYMENTS")

    code, text = shadow(before, snapshot(world), "--arrivals", snapshot(world, "PAYMENTS"))

    assert text == (
        "DLQ @ QM1, 2026-11-21 12:01:00 to 12:02:00 UTC; arrivals on PAYMENTS\n"
        "6 messages agree, 0 differ, 1 are open; 1 arrived since\n"
        "\n"
        "open         1  said  DISCARD\n"
        "                seen  gone: discarded, or taken or put where nobody looked\n"
        "                      messages 4\n"
        "agrees       3  said  RETRY to PAYMENTS, then FWD to PARKED\n"
        "                seen  on PAYMENTS\n"
        "agrees       1  said  IGNORE\n"
        "                seen  on the queue still\n"
        "agrees       1  said  leave it: no rule\n"
        "                seen  on the queue still\n"
        "agrees       1  said  leave it: no valid MQDLH\n"
        "                seen  on the queue still\n"
    )
    assert code == 0


def test_shadow_reports_each_message_that_another_handler_treated_differently(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, to="ORDERS")  # no rule sends it there
    take(world, 0, to="PARKED")  # by a later rule
    take(world, 2)  # our rules would have left it

    after = snapshot(world)
    arrivals = [snapshot(world, queue) for queue in ("ORDERS", "PARKED", "PAYMENTS")]
    options = [word for one in arrivals for word in ("--arrivals", one)]
    code, text = shadow(before, after, *options, "--format", "json")
    found = json.loads(text)

    assert code == 1
    assert {name: found[name] for name in ("agrees", "differs", "open")} == {
        "agrees": 3,
        "differs": 3,
        "open": 1,
    }
    retry = "RETRY to PAYMENTS, then FWD to PARKED"
    told = {(one["verdict"], one["said"], one["happened"]) for one in found["findings"]}
    assert told == {
        ("differs", retry, "on ORDERS"),
        ("differs", "DISCARD", "on the queue still"),
        ("differs", "IGNORE", "gone: by that handler, or by somebody else"),
        ("open", retry, "on the queue still: puts failed, or it waits for its next pass"),
        ("agrees", retry, "on PARKED"),
        ("agrees", "leave it: no rule", "on the queue still"),
        ("agrees", "leave it: no valid MQDLH", "on the queue still"),
    }
    assert [one["verdict"] for one in found["findings"]][:3] == ["differs"] * 3


def test_a_message_seen_nowhere_stays_open(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, 1, 2, to="PAYMENTS")
    after = snapshot(world)
    embedded_mq.run_mqsc("QM1", "CLEAR QLOCAL(PAYMENTS)")

    _, unseen = shadow(before, after)
    _, taken = shadow(
        before,
        after,
        *("--arrivals", snapshot(world, "PAYMENTS")),
        *("--arrivals", snapshot(world, "PARKED")),
    )

    assert "open         3  said  RETRY to PAYMENTS, then FWD to PARKED\n" in unseen
    assert "seen  gone; not browsed: PARKED, PAYMENTS\n" in unseen
    assert "seen  gone, and not seen on PARKED or PAYMENTS\n" in taken


def findings(*arguments: str) -> set[tuple[str, str, str]]:
    """Return what `mqdlq shadow` finds: verdict, what was said, what happened."""
    told = json.loads(shadow(*arguments, "--format", "json")[1])["findings"]
    return {(one["verdict"], one["said"], one["happened"]) for one in told}


def test_a_message_to_be_discarded_stays_open_until_it_is_seen_elsewhere(world: World) -> None:
    """A message that no snapshot shows was not necessarily discarded."""
    world.dead_letter(dest_q="QUOTES")
    before = snapshot(world)
    take(world, 0, to="ORDERS")
    after = snapshot(world)

    assert findings(before, after) == {
        ("open", "DISCARD", "gone: discarded, or taken or put where nobody looked")
    }
    assert findings(before, after, "--arrivals", snapshot(world, "ORDERS")) == {
        ("differs", "DISCARD", "on ORDERS")
    }


def test_a_message_that_may_have_expired_stays_open(world: World) -> None:
    for dest_q, name in (("PAYMENTS", b"a"), ("QUOTES", b"a"), ("PAYMENTS", b"hold-1")):
        world.dead_letter(dest_q=dest_q, PutApplName=name, Expiry=300)
    before = snapshot(world)
    take(world, 0, 1, 2)

    found = findings(before, snapshot(world))

    assert {(verdict, happened) for verdict, _, happened in found} == {
        ("open", "gone; its time to expire has come")
    }
    assert len(found) == 3


def test_a_message_whose_puts_failed_stays_open(world: World) -> None:
    """The other handler put it to a full queue and backed out, which raised its BackoutCount."""
    world.mqsc("ALTER QLOCAL(PAYMENTS) MAXDEPTH(1)")
    world.put("PAYMENTS", b"there already")
    world.dead_letter(dest_q="PAYMENTS")
    before = snapshot(world)
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        queue = queue_manager.open("DLQ", constants.MQOO_INPUT_SHARED)
        queue.get(None, module.MD(), module.GMO(Options=constants.MQGMO_SYNCPOINT))
        with pytest.raises(module.MQMIError):
            queue_manager.handle.put1(b"PAYMENTS", b"body")
        queue_manager.back_out()
        queue_manager.close(queue)
    ((descriptor, _),) = world.messages("DLQ")

    assert descriptor.BackoutCount == 1
    assert findings(before, snapshot(world), "--arrivals", snapshot(world, "PAYMENTS")) == {
        (
            "open",
            "RETRY to PAYMENTS, then FWD to PARKED",
            "on the queue still: puts failed, or it waits for its next pass",
        )
    }


def test_a_queue_of_the_same_name_on_another_queue_manager_is_a_different_queue(
    world: World,
) -> None:
    world.dead_letter(dest_q="ORDERS")
    world.dead_letter(dest_q="ORDERS")
    world.clock.now += timedelta(minutes=1)
    run = world.start("ACTION(FWD) FWDQ(PARKED) FWDQM(QM2)", dry_run=True)
    before = world.snapshot(run).snapshot_id
    take(world, 0, to="PARKED")
    take(world, 0)

    found = findings(before, snapshot(world), "--arrivals", snapshot(world, "PARKED"))

    assert found == {
        ("differs", "FWD to PARKED @ QM2", "on PARKED"),
        ("open", "FWD to PARKED @ QM2", "gone; not browsed: PARKED @ QM2"),
    }


def test_messages_with_one_identity_are_compared_each_with_its_own_target(world: World) -> None:
    twins: dict[str, Any] = {
        "MsgId": b"t" * 24,
        "PutApplName": b"a",
        "PutDate": b"20261121",
        "PutTime": b"11000000",
    }
    rules = "DESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(RETRY)\n"
    for queue in ("PAYMENTS", "ORDERS"):
        world.dead_letter(dest_q=queue, **twins)
    world.clock.now += timedelta(minutes=1)
    before = world.snapshot(world.start(rules, dry_run=True)).snapshot_id
    for queue in ("PAYMENTS", "ORDERS"):
        take(world, 0, to=queue)
    after = snapshot(world)
    orders, payments = snapshot(world, "ORDERS"), snapshot(world, "PAYMENTS")

    # The messages of two snapshots of one queue count once.
    arrivals = [word for one in (orders, payments, orders) for word in ("--arrivals", one)]
    assert findings(before, after, *arrivals) == {
        ("agrees", "RETRY to PAYMENTS", "on PAYMENTS"),
        ("agrees", "RETRY to ORDERS", "on ORDERS"),
    }


def test_shadow_names_both_days_of_snapshots_of_different_days(world: World) -> None:
    before = snapshot(world)
    world.clock.now += timedelta(days=2)

    _, text = shadow(before, snapshot(world))

    assert text.startswith(
        "DLQ @ QM1, 2026-11-21 12:01:00 to 2026-11-23 12:02:00 UTC; arrivals on no queue\n"
    )


def test_our_own_handler_agrees_with_its_own_plan(world: World) -> None:
    fill(world)
    before = snapshot(world)
    execution = world.plan(RULES)
    make_pass(execution)
    settle(execution)

    code, text = shadow(before, snapshot(world), "--arrivals", snapshot(world, "PAYMENTS"))

    assert "6 messages agree, 0 differ, 1 are open; 0 arrived since\n" in text
    assert code == 0


def test_snapshots_that_do_not_belong_together_are_refused(world: World) -> None:
    fill(world)
    first, orders = snapshot(world), snapshot(world, "ORDERS")

    assert shadow(first, orders) == (
        2,
        (
            f"{first} is of DLQ @ QM1, {orders} of ORDERS @ QM1; name two snapshots of one"
            " queue as BEFORE and AFTER [MQDLQ-431]\n"
        ),
    )
    assert shadow(first, first) == (
        2,
        (
            f"{first} was taken before {first}, or at the same time; name a later snapshot"
            " [MQDLQ-432]\n"
        ),
    )
    assert shadow(first, "20260101T000000Z-00000000") == (
        2,
        (f"{world.lake_root} holds no finished snapshot 20260101T000000Z-00000000 [MQDLQ-419]\n"),
    )
