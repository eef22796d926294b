"""Test that added features of the stages need no authority beyond deploy/mq/authorities.mqsc."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DeadLetterHeader
from mqdlq.mqi import permissions
from mqdlq.rules import parse
from mqdlq.stages.execute import make_pass, settle
from mqdlq.stages.snapshot.preview import preview_queue
from mqdlq.stages.snapshot.taking import take_snapshot
from tests.support.world import World
from tests.unit.deploy.test_authorities import (
    AUTHORITIES,
    AUTHORITIES_BY_USER,
    DLQ,
    DRY,
    EXECUTE,
    RULES,
    SENSE,
    connect_as,
)
from tests.unit.deploy.test_authorities import _world as world_fixture

pytestmark = pytest.mark.slow

__all__ = ["world_fixture"]

ALTUSR = next(
    line.removeprefix("* ") for line in AUTHORITIES.splitlines() if "ALTUSR" in line and "*" in line
)


def test_a_preview_needs_the_authorities_of_a_dry_run(world: World) -> None:
    connect_as(world, DRY)
    with world.connect() as queue_manager:
        found = preview_queue(queue_manager, parse(RULES), clock=world.clock)
    connect_as(world, SENSE)

    assert sum(messages for _, messages in found.planned) > 0
    with (
        world.connect() as queue_manager,
        pytest.raises(QueueManagerError, match=f"MQOPEN of queue {DLQ} failed: .*2035"),
    ):
        preview_queue(queue_manager, parse(RULES), clock=world.clock)


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_the_connection_test_reports_the_stages_that_the_user_may_carry_out(
    world: World, user: str
) -> None:
    connect_as(world, user)

    with world.connect() as queue_manager:
        found = permissions.find_missing(queue_manager, user, "MQDLQ.STATE")

    assert {stage for stage, _ in found} == {
        SENSE: {"dry run", "execution"},
        DRY: {"execution"},
        EXECUTE: set(),
    }[user]


def test_a_second_run_needs_no_further_authority_for_settled_messages(world: World) -> None:
    """The second run finds only the messages that the first has left, as compact rows."""
    connect_as(world, EXECUTE)
    world.handle(RULES)
    run = world.start(RULES)

    manifest = take_snapshot(world.execution(run))
    settle(world.execution(run))

    assert (manifest.full, manifest.settled) == (0, 10)
    assert world.ledger.runs.get(run.run_id) == run


def put(world: World, dest_q: str, body: bytes = b"body", **fields: Any) -> None:
    """Put a dead letter with a message property, as the queue manager's administrator."""
    header = DeadLetterHeader(
        2053, dest_q, "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
    )
    data = header.encode(encoding=546, ccsid=819) + body
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        handle = module.MessageHandle(queue_manager.handle)
        handle.properties.set(b"colour", "blue", constants.MQTYPE_STRING, -1)
        descriptor = module.MD()
        descriptor.Version = constants.MQMD_VERSION_2
        values = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819, **fields}
        for name, value in values.items():
            setattr(descriptor, name, value)
        pmo = queue_manager.client.packed.PMO()
        pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        pmo.NewMsgHandle = handle.msg_handle
        queue_manager.handle.put1(module.OD(ObjectName=DLQ.encode()), data, descriptor, pmo)


@pytest.mark.parametrize("body", [b"body", b"PDMQ\x02\x00\x02\x00\x68\x00\x00\x00" + bytes(99)])
def test_properties_and_protected_payload_need_no_further_authority(
    world: World, body: bytes
) -> None:
    world.mqsc(f"CLEAR QLOCAL({DLQ})")
    for dest_q in ("PAYMENTS.IN", "QUOTES.TICKER", "ORDERS.EU"):
        put(world, dest_q, body)
    connect_as(world, EXECUTE)

    outcomes = world.handle(
        "DESTQ(PAYMENTS.*) ACTION(RETRY)\nDESTQ(QUOTES.*) ACTION(DISCARD)\n"
        "ACTION(FWD) FWDQ(ORDERS.PARKED) HEADER(NO)\n"
    )

    assert Counter(outcomes.values()) == {"delivered": 1, "discarded": 1, "forwarded": 1}


def test_an_action_for_named_messages_needs_no_further_authority(world: World) -> None:
    world.mqsc(f"CLEAR QLOCAL({DLQ})")
    for dest_q in ("NOWHERE", "ELSEWHERE"):
        put(world, dest_q)
    connect_as(world, EXECUTE)
    world.handle(RULES)
    (key, _) = _keys(world)

    outcomes = world.handle(
        RULES, message_keys=(key,), action="ACTION(FWD) FWDQ(PAYMENTS.PARKED) HEADER(YES)"
    )

    assert Counter(outcomes.values())["forwarded"] == 1
    assert embedded_mq.depths("QM1")[DLQ] == 1


def _keys(world: World) -> list[str]:
    with world.ledger.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT message_key FROM messages").scalars()
        return [bytes(key).hex() for key in found]


@pytest.mark.parametrize(("granted", "left"), [(False, 1), (True, 0)])
def test_only_puts_as_another_user_need_altusr(world: World, granted: bool, left: int) -> None:
    world.mqsc(f"CLEAR QLOCAL({DLQ})")
    put(world, "PAYMENTS.IN", UserIdentifier=b"clerk")
    world.mqsc("SET AUTHREC PROFILE(PAYMENTS.IN) OBJTYPE(QUEUE) PRINCIPAL('clerk') AUTHADD(PUT)")
    if granted:
        world.mqsc(ALTUSR)
    connect_as(world, EXECUTE)

    make_pass(world.plan("ACTION(RETRY) PUTAUT(CTX)"))

    assert embedded_mq.depths("QM1")[DLQ] == left
