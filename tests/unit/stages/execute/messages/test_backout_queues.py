"""Test that rules of a backout queue act on messages without an MQDLH, and on no others."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.errors import HandlerError
from mqdlq.headers import DeadLetterHeader
from mqdlq.model import QueueKind
from mqdlq.reading.report.building import Report, read_report
from mqdlq.reading.report.text_report import render_text
from tests.support.restorations import restore_and_count
from tests.support.world import NOON, World
from tests.unit.stages.execute.messages.with_properties import copies

pytestmark = pytest.mark.slow

QUEUE = "ORDERS.BACKOUT"
RULES = f"""
INPUTQ({QUEUE}) WAIT(NO)
APPLNAME('order-service') FORMAT(MQSTR) ACTION(FWD) FWDQ(PARKED)
APPLNAME('quotes*') ACTION(DISCARD)
APPLNAME(AUDIT) ACTION(IGNORE)
"""
BACKOUT: dict[str, Any] = {"queue_kind": QueueKind.BACKOUT}


@pytest.fixture(autouse=True)
def _define_backout_queue(world: World) -> None:
    world.mqsc(f"DEFINE QLOCAL({QUEUE}) DEFPSIST(YES)")


def put(world: World, body: bytes, application: str, **fields: Any) -> None:
    """Put a message as an application moves it to its backout queue."""
    values = {"Format": b"MQSTR   ", "UserIdentifier": b"orders      ", **fields}
    world.put(QUEUE, body, PutApplName=application.encode(), **values)


def put_with_mqdlh(world: World, body: bytes, application: str, length: int = 172) -> None:
    header = DeadLetterHeader(2053, "A", "QM1", 546, 819, "MQSTR", 6, "x", "20261121", "11000000")
    packed = header.encode(encoding=546, ccsid=819)[:length]
    put(world, packed + body, application, Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)


def report_of(world: World) -> Report:
    return read_report(
        f"run-{world.runs}",
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=NOON,
    )


def test_a_run_on_a_backout_queue_handles_messages_without_an_mqdlh_and_accounts_for_all(
    world: World,
) -> None:
    put(world, b"order", "order-service", ReplyToQ=b"REPLIES", MsgId=b"1".ljust(24))
    put(world, b"price", "quotes-7", Format=b"        ")
    put(world, b"entry", "AUDIT")
    put(world, b"other format", "order-service", Format=b"        ")
    put_with_mqdlh(world, b"dead", "order-service")
    put_with_mqdlh(world, b"", "order-service", length=100)
    before = dict(zip(["order", "price"], world.messages(QUEUE), strict=False))

    assert world.handle(RULES, **BACKOUT) == {
        1: "forwarded",
        2: "discarded",
        3: "left_by_rule",
        4: "unmatched",
        5: "unprocessable",
        6: "unprocessable",
    }

    ((forwarded, body),) = world.messages("PARKED")
    assert (forwarded.pack(), body) == (before["order"][0].pack(), b"order")
    assert world.depths(QUEUE, "PARKED", "DLQ") == (4, 1, 0)
    (copy,) = copies(world)
    assert copy["body"] == b"price"
    assert restore_and_count(world) == {"restored": 1}
    assert world.bodies(QUEUE)[-1] == b"price"
    report = report_of(world)
    assert report.account is not None
    assert report.account.adds_up
    assert report.headline == (
        "6 messages: 2 handled, 3 need attention, 1 left by rule. The account adds up."
    )


def test_the_report_says_who_put_a_backed_out_message_and_what_to_do_with_one_with_an_mqdlh(
    world: World,
) -> None:
    put(world, b"other format", "order-service", Format=b"        ")
    put_with_mqdlh(world, b"dead", "order-service")

    world.handle(RULES, **BACKOUT)

    rows = {row.browse_seq: row for row in report_of(world).attention_messages}
    assert rows[1].cause == "backed out; put by order-service, format (blank)"
    assert rows[1].next_step == "add a rule for it, or move it with message_keys and action"
    assert "ACTION(FWD) FWDQ(<queue>)" in rows[1].command
    assert rows[2].next_step == (
        "it has an MQDLH: let a dead-letter queue have it; move it with message_keys and action"
    )
    assert f"cause {rows[1].cause}\n" in render_text(report_of(world))


def test_without_the_kind_backout_no_rule_touches_a_message_without_an_mqdlh(world: World) -> None:
    put(world, b"order", "order-service")
    world.put("DLQ", b"stray")

    rules = "WAIT(NO)\nACTION(DISCARD)\n"
    assert world.handle(rules) == {1: "unprocessable"}
    assert world.handle(f"INPUTQ({QUEUE}) {rules}") == {1: "unprocessable"}
    assert world.depths(QUEUE, "DLQ") == (1, 1)


def test_settled_messages_are_evaluated_again_when_the_kind_of_the_queue_changes(
    world: World,
) -> None:
    put(world, b"order", "order-service")
    counted = {"count_attempts": "across_runs"}

    assert world.handle(RULES, **counted) == {1: "unprocessable"}
    assert world.handle(RULES, **counted, **BACKOUT) == {1: "forwarded"}


def test_the_dead_letter_queue_is_never_taken_for_a_backout_queue(world: World) -> None:
    with pytest.raises(HandlerError) as caught:
        world.start("INPUTQ(DLQ)\nACTION(DISCARD)\n", **BACKOUT)

    assert str(caught.value) == (
        "test: queue_kind is backout, but DLQ is the dead-letter queue (DEADQ) of QM1; name a"
        " backout queue, or remove queue_kind [MQDLQ-155]"
    )


def test_a_named_message_with_an_mqdlh_can_be_retried_from_a_backout_queue(world: World) -> None:
    put(world, b"order", "order-service")
    put_with_mqdlh(world, b"dead", "order-service")
    probe = world.plan(RULES, dry_run=True, **BACKOUT)
    keys = [m.message_key.hex() for m in world.ledger.messages.of_run(probe.run.run_id)]
    world.mqsc("DEFINE QLOCAL(A)")

    outcomes = world.handle(RULES, action="ACTION(RETRY)", message_keys=(keys[1],), **BACKOUT)

    assert outcomes == {2: "delivered"}
    assert world.depths(QUEUE, "A") == (1, 1)
