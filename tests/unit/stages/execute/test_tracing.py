"""Test that MQ calls inside an OpenTelemetry span leave messages unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from mqdlq.mqi.browse import BrowseCursor
from tests.support.world import World

BODY = b"not a byte more, not a byte less"


@pytest.fixture(autouse=True)
def _span() -> Iterator[None]:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("a task of Airflow's"):
        assert trace.get_current_span().is_recording()
        yield


def test_a_message_moved_inside_a_span_is_byte_for_byte_what_it_was(world: World) -> None:
    world.dead_letter(BODY, MsgId=b"m" * 24)
    ((before, whole),) = world.messages("DLQ")

    assert world.handle("ACTION(FWD) FWDQ(PARKED) HEADER(YES)") == {1: "forwarded"}

    ((after, body),) = world.messages("PARKED")
    assert (after.pack(), body) == (before.pack(), whole)
    assert not has_properties(world, "PARKED")


def test_a_message_delivered_inside_a_span_gains_no_property(world: World) -> None:
    world.dead_letter(BODY)

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    assert world.bodies("PAYMENTS") == [BODY]
    assert not has_properties(world, "PAYMENTS")


def test_the_tracing_of_the_library_ibmmq_is_off(world: World) -> None:
    with world.connect() as queue_manager:
        if queue_manager.client.name == "ibmmq":
            assert queue_manager.client.module.otel_enabled is False


def has_properties(world: World, queue: str) -> bool:
    with world.connect() as queue_manager:
        opened = queue_manager.open(queue, queue_manager.client.CMQC.MQOO_BROWSE)
        cursor = BrowseCursor(queue_manager, opened, queue)
        found = [cursor.has_properties() for _ in cursor.messages()]
        opened.close()
    assert len(found) == 1
    return found[0]
