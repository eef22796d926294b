"""`mqdlq shadow`: what our rules said, against what another handler then did.

The other handler is a program of the tests' that moves messages by hand; and, once, our own.
"""

from __future__ import annotations

import json
from datetime import timedelta

from typer.testing import CliRunner

from mqdlq.cli import app
from mqdlq.execute import make_pass, settle
from mqdlq.mqi import embedded
from world import World

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
    """Move messages of the DLQ as another handler does: with all context, without the MQDLH."""
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
        put_by = {"PutApplName": name, "MsgId": bytes([number + 1] * 24)}
        world.dead_letter(dest_q=dest_q, **put_by)
    world.put("DLQ", b"bare", MsgId=b"b" * 24)


def test_a_handler_that_did_what_the_rules_say_agrees(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, 1, 2, to="PAYMENTS")
    take(world, 0)
    world.dead_letter(dest_q="PAYMENTS")

    code, text = shadow(before, snapshot(world), "--arrivals", snapshot(world, "PAYMENTS"))

    assert text == (
        "DLQ @ QM1, 2026-11-21 12:01:00 to 12:02:00 UTC; arrivals on PAYMENTS\n"
        "7 messages agree, 0 differ, 0 are open; 1 arrived since\n"
        "\n"
        "agrees       3  said  RETRY to PAYMENTS, then FWD to PARKED\n"
        "                seen  on PAYMENTS\n"
        "agrees       1  said  DISCARD\n"
        "                seen  gone\n"
        "agrees       1  said  IGNORE\n"
        "                seen  on the queue still\n"
        "agrees       1  said  leave it: no rule\n"
        "                seen  on the queue still\n"
        "agrees       1  said  leave it: no valid MQDLH\n"
        "                seen  on the queue still\n"
    )
    assert code == 0


def test_a_handler_that_did_otherwise_is_told_message_by_message(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, to="ORDERS")  # no rule sends it there
    take(world, 0, to="PARKED")  # by a later rule of its own
    take(world, 2)  # it was to be left

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
        ("differs", "IGNORE", "gone"),
        ("open", retry, "on the queue still: puts failed, or it waits for its next pass"),
        ("agrees", retry, "on PARKED"),
        ("agrees", "leave it: no rule", "on the queue still"),
        ("agrees", "leave it: no valid MQDLH", "on the queue still"),
    }
    assert [one["verdict"] for one in found["findings"]][:3] == ["differs"] * 3


def test_what_cannot_be_seen_stays_open(world: World) -> None:
    fill(world)
    before = snapshot(world)
    take(world, 0, 1, 2, to="PAYMENTS")
    after = snapshot(world)
    embedded.run_mqsc("QM1", "CLEAR QLOCAL(PAYMENTS)")

    _, unseen = shadow(before, after)
    _, taken = shadow(
        before,
        after,
        *("--arrivals", snapshot(world, "PAYMENTS")),
        *("--arrivals", snapshot(world, "PARKED")),
    )

    assert "open         3  said  RETRY to PAYMENTS, then FWD to PARKED\n" in unseen
    assert "seen  gone; not browsed: PARKED, PAYMENTS\n" in unseen
    assert "seen  gone: not on PARKED or PAYMENTS any more\n" in taken


def test_our_own_handler_agrees_with_its_own_plan(world: World) -> None:
    fill(world)
    before = snapshot(world)
    execution = world.plan(RULES)
    make_pass(execution)
    settle(execution)

    code, text = shadow(before, snapshot(world), "--arrivals", snapshot(world, "PAYMENTS"))

    assert "7 messages agree, 0 differ, 0 are open; 0 arrived since\n" in text
    assert code == 0


def test_snapshots_that_do_not_belong_together_are_refused(world: World) -> None:
    fill(world)
    first, orders = snapshot(world), snapshot(world, "ORDERS")

    assert shadow(first, orders) == (
        2,
        (
            f"{first} is of DLQ @ QM1, {orders} of ORDERS @ QM1; BEFORE and AFTER must be of one"
            " queue\n"
        ),
    )
    assert shadow(first, first) == (
        2,
        (
            f"{first} was taken before {first}, or with it; what was done in between is seen only"
            " later\n"
        ),
    )
    assert shadow(first, "20260101T000000Z-00000000") == (
        2,
        f"{world.lake_root} holds no finished snapshot 20260101T000000Z-00000000\n",
    )
