"""Test puts that fail because of the stream queue of their target."""

from __future__ import annotations

import logging

import pytest

from tests.support.world import World

pytestmark = pytest.mark.slow

STREAMED = "DEFINE QLOCAL(COPIES); ALTER QLOCAL(PAYMENTS) STREAMQ(COPIES) STRMQOS(MUSTDUP)"
BOTH = "STRMQOS(MUSTDUP) refuses a message that cannot be put to both PAYMENTS and COPIES"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            "ALTER QLOCAL(COPIES) MAXDEPTH(0)",
            f"MQRC_Q_FULL (2053): its stream queue COPIES gives this reason: {BOTH}",
        ),
        (
            "ALTER QLOCAL(COPIES) PUT(DISABLED)",
            f"MQRC_PUT_INHIBITED (2051): its stream queue COPIES gives this reason: {BOTH}",
        ),
        (
            "DELETE QLOCAL(COPIES)",
            f"MQRC_UNKNOWN_OBJECT_NAME (2085): its stream queue COPIES gives this reason: {BOTH}",
        ),
        (
            "ALTER QLOCAL(COPIES) MAXMSGL(1)",
            f"MQRC_MSG_TOO_BIG_FOR_Q (2030): its stream queue COPIES may give this reason: {BOTH}",
        ),
        ("ALTER QLOCAL(PAYMENTS) MAXDEPTH(0)", "MQRC_Q_FULL (2053)"),
        ("ALTER QLOCAL(PAYMENTS) PUT(DISABLED)", "MQRC_PUT_INHIBITED (2051)"),
        ("ALTER QLOCAL(PAYMENTS) STRMQOS(BESTEF) PUT(DISABLED)", "MQRC_PUT_INHIBITED (2051)"),
    ],
)
def test_log_and_report_name_the_stream_queue_that_refused_a_message(
    world: World, fault: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.mqsc(f"{STREAMED}\n{fault}")
    world.dead_letter(b"body", reason=2082)
    caplog.set_level(logging.INFO)

    assert world.handle("WAIT(NO)\nACTION(RETRY)") == {1: "exhausted"}

    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why.words == f"1 attempts, the last to PAYMENTS: {why}"
    told = f"AMQ8722: unable to put message 1 to PAYMENTS: rule 1 (line 2), attempt 1, {why}"
    assert told in caplog.messages
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_a_delivered_message_has_a_copy_on_the_stream_queue(world: World) -> None:
    world.mqsc(STREAMED)
    world.dead_letter(b"body")

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    assert world.bodies("PAYMENTS") == world.bodies("COPIES") == [b"body"]
