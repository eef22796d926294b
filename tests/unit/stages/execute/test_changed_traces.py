"""Test DISCARD while the queue manager changes trace properties at the get."""

from __future__ import annotations

import pytest

from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.restorations import restore_and_count
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import (
    copies,
    put_back,
    put_with_properties,
    seen_by_an_application,
)

pytestmark = pytest.mark.slow

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = (b"traceparent", TRACEPARENT, "MQTYPE_STRING", -1)
COLOUR = (b"colour", "blue", "MQTYPE_STRING", -1)
CHANGES = "SET FAULT('MQGET[DLQ]:1+:trace:before')"


@pytest.mark.parametrize(
    "properties", [(), (TRACE,), (COLOUR,), (TRACE, COLOUR), (COLOUR, TRACE)], ids=len
)
def test_a_message_is_discarded_even_if_its_trace_changes(
    world: World, properties: tuple[tuple[bytes, str, str, int], ...]
) -> None:
    """The archive copy, and the restored message, equal the browsed message."""
    put_with_properties(world, *properties)
    before = seen_by_an_application(world)
    world.mqsc(CHANGES)

    assert world.handle("ACTION(DISCARD)") == {1: "discarded"}

    world.mqsc("CLEAR FAULT")
    (copy,) = copies(world)
    assert (TRACEPARENT.encode() in copy["body"]) == (TRACE in properties)
    assert restore_and_count(world) == {"restored": 1}
    assert seen_by_an_application(world) == before


def test_a_changed_trace_in_an_applications_header_is_the_same_message(world: World) -> None:
    folder = f"<usr><traceparent>{TRACEPARENT}</traceparent><colour>red</colour></usr>".encode()
    folder += b" " * (-len(folder) % 4)
    length = 36 + 4 + len(folder)
    fixed = b"RFH " + b"".join(n.to_bytes(4, "little") for n in (2, length, 546, 819))
    flags = b"".join(n.to_bytes(4, "little") for n in (0, 1208, len(folder)))
    world.dead_letter(fixed + b"MQSTR   " + flags + folder + b"body", inner=(546, 1208, "MQHRF2"))
    world.mqsc(CHANGES)

    assert world.handle("ACTION(DISCARD)") == {1: "discarded"}


def test_a_copy_of_an_earlier_pass_is_valid_even_if_the_trace_changes(world: World) -> None:
    put_with_properties(world, TRACE, COLOUR)
    execution = world.plan("ACTION(DISCARD)")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    world.mqsc(CHANGES)

    make_pass(execution)

    assert settle(execution) == {Outcome.DISCARDED: 1}
    assert len(copies(world)) == 1


def test_another_property_that_changes_keeps_the_message(world: World) -> None:
    """Twins but for a property: what was copied is taken away, the other is met in its place."""
    put_with_properties(world, TRACE, COLOUR)
    execution = world.plan("ACTION(DISCARD)")
    world.interrupted_pass(execution, "MQPUT1[MQDLQ.STATE]:1:2195:before")
    (copy,) = copies(world)
    world.mqsc("CLEAR QLOCAL(DLQ)")
    put_back(world, copy | {"body": copy["body"].replace(b">blue<", b">red <")})
    world.mqsc(CHANGES)

    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
