"""Test that a repaired message keeps its body, and that its original is in the archive."""

from __future__ import annotations

from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import HandlerError
from mqdlq.headers import RulesHeader2
from mqdlq.lake.archive import read_copies
from mqdlq.ledger.tables import MessageRepair
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.taking import check_named_messages
from tests.support.world import World
from tests.unit.controls.loops.returning import send_back
from tests.unit.controls.repair.approved_repairs import keys_on_queue, plan_repair
from tests.unit.stages.execute.messages.with_properties import (
    ALL_KINDS,
    add_properties,
    seen_by_an_application,
)

pytestmark = pytest.mark.stages

BODY = "Zahlung über 12 €".encode()
TO_UTF_8 = {"format": "MQSTR", "coded_char_set_id": 1208}


def described(world: World, queue: str) -> list[tuple[bytes, int, int, bytes]]:
    """Return Format, Encoding, CodedCharSetId and body of each message on a queue."""
    return [(md.Format, md.Encoding, md.CodedCharSetId, body) for md, body in world.messages(queue)]


def reasons(world: World, run_id: str) -> list[str]:
    return [fact.why.words for fact in world.ledger.outcomes.of_run(run_id).values()]


def test_a_retried_message_gets_the_repaired_fields_and_keeps_its_body(world: World) -> None:
    world.dead_letter(BODY, inner=(273, 37, "ORDERS"))
    ((original, whole),) = world.messages("DLQ")

    execution = plan_repair(world, TO_UTF_8)
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}
    assert described(world, "PAYMENTS") == [(b"MQSTR   ", 273, 1208, BODY)]
    assert world.depths("DLQ") == (0,)
    run_id = execution.run.run_id
    assert reasons(world, run_id) == [
        "repaired: Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208; original in the archive"
    ]
    (copy,) = world.ledger.archive.copies(run_id=run_id)
    (content,) = read_copies(copy.location)
    assert (content.body, content.digest) == (whole, copy.digest)
    assert content.descriptor == original.pack()
    (attempt,) = world.ledger.attempts.of_run(run_id)
    assert (copy.message_id, copy.move) == (attempt.message_id, AttemptState.CONFIRMED)
    assert copy.repair == MessageRepair(
        copy.message_id,
        format_from="ORDERS",
        format_to="MQSTR",
        ccsid_from=37,
        ccsid_to=1208,
        dest_q_from="PAYMENTS",
        dest_q_mgr_from="QM1",
        target_q="PAYMENTS",
        target_q_mgr="QM1",
        length=len(BODY),
    )


@pytest.mark.parametrize(
    ("repair", "why"),
    [
        (TO_UTF_8, "Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208, destination: "),
        ({"format": ""}, "Format: ORDERS → MQFMT_NONE, destination: "),
        ({}, "destination: "),
    ],
)
def test_a_forwarded_message_gets_another_destination(
    world: World, repair: dict[str, Any], why: str
) -> None:
    world.dead_letter(BODY, inner=(546, 37, "ORDERS"))

    execution = plan_repair(world, repair, "ACTION(FWD) FWDQ(PARKED) HEADER(NO)")
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1}
    assert [body for *_, body in described(world, "PARKED")] == [BODY]
    assert reasons(world, execution.run.run_id) == [
        f"repaired: {why}PAYMENTS @ QM1 → PARKED @ QM1; original in the archive"
    ]


def test_a_message_without_an_mqdlh_is_repaired_in_its_mqmd(world: World) -> None:
    world.put("DLQ", BODY, Format=b"ORDERS  ", CodedCharSetId=37, Encoding=273)

    execution = plan_repair(world, TO_UTF_8, "ACTION(FWD) FWDQ(PARKED) HEADER(NO)")
    make_pass(execution)

    assert settle(execution) == {Outcome.FORWARDED: 1}
    assert described(world, "PARKED") == [(b"MQSTR   ", 273, 1208, BODY)]


def test_properties_stay_with_a_repaired_message(world: World) -> None:
    world.dead_letter(BODY, inner=(546, 819, "ORDERS"))
    add_properties(world, *ALL_KINDS, copied="MQCOPY_FORWARD")
    ((_, _, properties),) = seen_by_an_application(world)

    make_pass(plan_repair(world, TO_UTF_8))

    ((_, body, kept),) = seen_by_an_application(world, "PAYMENTS")
    assert (body, kept) == (BODY, properties)


def rfh2(following: str = "MQSTR") -> bytes:
    return RulesHeader2(546, 1208, following, 0, 1208, ()).encode(encoding=546, ccsid=819)


REFUSED: list[tuple[tuple[int, int, str], bytes, dict[str, Any], str]] = [
    (
        (546, 1208, "MQSTR"),
        BODY,
        TO_UTF_8,
        (
            "the repair changes nothing: Format MQSTR, CodedCharSetId 1208 and the destination are"
            " the same already"
        ),
    ),
    (
        (546, 819, "MQHRF2"),
        rfh2() + BODY,
        {"format": "MQSTR"},
        (
            "its data begin with a valid MQRFH2, which has their Format and CodedCharSetId, so that"
            " the body would have to change; repair only the destination"
        ),
    ),
    (
        (546, 819, "MQSTR"),
        BODY,
        {"format": "MQHRF2"},
        (
            "Format MQHRF2 announces a header, and its data do not begin with a valid one; a repair"
            " of the Format never changes the body"
        ),
    ),
    (
        (546, 819, "MQSTR"),
        rfh2("MQHRF2") + BODY,
        {"format": "MQHRF2"},
        (
            "Format MQHRF2 announces a header, and its data begin with a valid MQRFH2 that"
            " announces another one, which cannot be read; a repair of the Format never changes"
            " the body"
        ),
    ),
]


@pytest.mark.parametrize(("inner", "body", "repair", "why"), REFUSED)
def test_a_message_that_cannot_be_repaired_stays_and_its_outcome_says_why(
    world: World,
    inner: tuple[int, int, str],
    body: bytes,
    repair: dict[str, Any],
    why: str,
) -> None:
    world.dead_letter(body, inner=inner)

    execution = plan_repair(world, repair)
    assert make_pass(execution).attempts == 0

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert reasons(world, execution.run.run_id) == [why]
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)
    assert world.ledger.archive.copies(run_id=execution.run.run_id) == []


def test_a_format_that_announces_the_header_in_the_body_is_a_repair(world: World) -> None:
    world.dead_letter(rfh2() + BODY, inner=(546, 819, "MQSTR"))

    execution = plan_repair(world, {"format": "MQHRF2"})
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}


def test_nothing_is_repaired_without_an_approval(world: World) -> None:
    world.dead_letter(BODY, inner=(546, 37, "ORDERS"))
    keys = keys_on_queue(world)
    execution = world.plan(
        "ACTION(IGNORE)", action="ACTION(RETRY)", repair=TO_UTF_8, message_keys=keys
    )

    assert make_pass(execution).attempts == 0

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    (why,) = reasons(world, execution.run.run_id)
    assert why == (
        "not approved: a repair needs an approval, and nobody was asked; it would be repaired:"
        " Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208; body unchanged, 20 bytes"
    )
    assert world.depths("DLQ") == (1,)


@pytest.mark.parametrize(
    "fault",
    [
        "MQPUT1[MQDLQ.STATE]:1:2195:before",
        "MQPUT1[PAYMENTS]:1:2009:after",
        "MQCMIT:1:2009:before",
        "MQCMIT:1:2009:after",
    ],
)
def test_an_interrupted_repair_delivers_the_message_once(world: World, fault: str) -> None:
    world.dead_letter(BODY, inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, TO_UTF_8)
    world.interrupted_pass(execution, fault)

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}
    assert world.bodies("PAYMENTS") == [BODY]
    assert world.depths("DLQ") == (0,)
    (why,) = reasons(world, execution.run.run_id)
    assert why.startswith("repaired: Format: ORDERS → MQSTR, CodedCharSetId: 37 → 1208")
    (copy,) = world.ledger.archive.copies(run_id=execution.run.run_id)
    assert not copy.is_provisional


def test_a_repaired_message_that_comes_back_is_recognised(world: World) -> None:
    world.dead_letter(BODY, inner=(546, 37, "ORDERS"))
    loops: dict[str, Any] = {"loops": {"limit": 1}}
    execution = plan_repair(world, TO_UTF_8, "ACTION(RETRY)", **loops)
    make_pass(execution)
    settle(execution)
    send_back(world)

    assert world.handle("ACTION(RETRY)", **loops) == {1: "quarantined"}


def test_a_failed_put_leaves_the_original_on_the_queue(world: World) -> None:
    world.dead_letter(BODY, dest_q="CLOSED", inner=(546, 37, "ORDERS"))

    execution = plan_repair(world, TO_UTF_8)
    make_pass(execution)

    assert settle(execution) == {Outcome.EXHAUSTED: 1}
    assert world.depths("DLQ", "CLOSED") == (1, 0)
    (copy,) = world.ledger.archive.copies(run_id=execution.run.run_id)
    assert copy.is_provisional


def test_a_message_that_differs_from_its_copy_is_not_delivered(world: World) -> None:
    world.dead_letter(BODY, inner=(546, 37, "ORDERS"))
    execution = plan_repair(world, TO_UTF_8)
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    ((md, whole),) = world.messages("DLQ")
    world.mqsc("CLEAR QLOCAL(DLQ)")
    twin = whole[:-1] + b"$"
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        pmo = module.PMO()
        pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        queue_manager.handle.put1(module.OD(ObjectName=b"DLQ"), twin, md, pmo)

    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert world.bodies("DLQ") == [twin]
    assert embedded_mq.depths("QM1")["PAYMENTS"] == 0


INVALID: list[tuple[str, Any, str]] = [
    ("ACTION(RETRY)", {"text": "x"}, "repair: found 'text'; expected \"format\", "),
    ("ACTION(RETRY)", "MQSTR", "repair: found 'MQSTR'; expected \"format\", "),
    (
        "ACTION(RETRY)",
        {"format": "MQSTRINGS"},
        "repair.format: found 'MQSTRINGS'; expected at",
    ),
    ("ACTION(RETRY)", {"format": "MQ STR"}, "repair.format: found 'MQ STR'; expected at most 8"),
    ("ACTION(RETRY)", {"format": "MQDEAD"}, "repair.format: found 'MQDEAD'; expected at most 8"),
    (
        "ACTION(RETRY)",
        {"coded_char_set_id": 0},
        "repair.coded_char_set_id: found 0; expected a",
    ),
    (
        "ACTION(DISCARD)",
        {"format": "MQSTR"},
        "repair is for messages that are put, and ACTION(D",
    ),
    ("ACTION(IGNORE)", {"format": "MQSTR"}, "repair is for messages that are put, and ACTION(I"),
    ("ACTION(FWD) FWDQ(X)", {"format": "MQSTR"}, "repair needs HEADER(NO): with its MQDLH a"),
    ("ACTION(RETRY)", {}, "repair is empty, and ACTION(RETRY) keeps the destination, so that"),
    ("", {"format": "MQSTR"}, "repair needs action and message_keys or where, because it applies"),
]


@pytest.mark.parametrize(("action", "repair", "fault"), INVALID)
def test_an_invalid_repair_is_refused_before_the_run_begins(
    world: World, action: str, repair: Any, fault: str
) -> None:
    with pytest.raises(HandlerError) as caught:
        world.start(
            "ACTION(IGNORE)", message_keys=("0" * 64,), action=action or None, repair=repair
        )

    assert str(caught.value).startswith(fault)


def test_a_repair_of_a_message_whose_mqdlh_is_not_valid_is_refused(world: World) -> None:
    world.put("DLQ", b"DLH " + b"cut")
    keys = keys_on_queue(world)
    action = "ACTION(FWD) FWDQ(PARKED) HEADER(NO)"
    run = world.start("ACTION(IGNORE)", message_keys=keys, action=action, repair=TO_UTF_8)
    world.snapshot(run)

    with pytest.raises(HandlerError) as caught:
        list(check_named_messages(run, world.recorded_snapshot(run.run_id).location))

    assert str(caught.value) == (
        f"repair is refused for 1 of 1 named messages, whose MQDLH is not valid: {keys[0][:12]}…;"
        " name messages with a valid MQDLH or with none [MQDLQ-522]"
    )
