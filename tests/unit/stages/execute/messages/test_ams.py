"""Test Advanced Message Security: protected payload, policies that refuse, the error queue."""

from __future__ import annotations

import os

import pytest

import embedded_mq
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.headers import DLH_LENGTH, DeadLetterHeader
from mqdlq.lake import snapshot_rows
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.stages

PROTECTED = b"PDMQ\x02\x00\x02\x00\x68\x00\x00\x00" + bytes(range(256)) * 8
ERROR_QUEUE = "SYSTEM.PROTECTION.ERROR.QUEUE"


@pytest.mark.parametrize(
    ("rules", "queue", "header"),
    [
        ("ACTION(RETRY)", "PAYMENTS", 0),
        ("ACTION(FWD) FWDQ(PARKED) HEADER(YES)", "PARKED", DLH_LENGTH),
        ("ACTION(FWD) FWDQ(PARKED) HEADER(NO)", "PARKED", 0),
    ],
)
def test_protected_payload_is_moved_as_it_is(
    world: World, rules: str, queue: str, header: int
) -> None:
    world.dead_letter(PROTECTED, inner=(546, 1208, ""))

    world.handle(rules)

    ((md, body),) = world.messages(queue)
    assert body[header:] == PROTECTED
    if not header:
        assert (md.Format.strip(b" \0"), md.CodedCharSetId) == (b"", 1208)


def put_to_the_error_queue(world: World, dest_q: str) -> None:
    """Put a message that AMS could not open with an MQDLH, as the interceptor does."""
    header = DeadLetterHeader(
        2063, dest_q, "QM1", 546, 1208, "MQSTR", 6, "reader", "20261121", "11000000"
    )
    body = header.encode(encoding=546, ccsid=819) + PROTECTED
    world.put(ERROR_QUEUE, body, Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=819)


@pytest.mark.parametrize("dest_q", ["PAYMENTS", "PAYMENTS\0\0"])
def test_the_error_queue_of_ams_is_handled_like_any_other(world: World, dest_q: str) -> None:
    """A DestQName may end with a NUL there (APAR IT31856): a pattern with a wildcard matches it."""
    world.mqsc(f"DEFINE QLOCAL({ERROR_QUEUE})")
    put_to_the_error_queue(world, dest_q)
    rules = f"INPUTQ({ERROR_QUEUE})\nDESTQ('PAYMENTS*') REASON(MQRC_SECURITY_ERROR) ACTION(RETRY)"

    execution = world.plan(rules)
    (row,) = snapshot_rows(world.ledger.snapshots.of_run("run-1").location)  # type: ignore[union-attr]
    make_pass(execution)
    settle(execution)

    assert row["ams_protected"]
    assert world.outcomes(execution.run) == {1: "delivered"}
    assert world.bodies("PAYMENTS") == [PROTECTED]
    assert world.bodies(ERROR_QUEUE) == []


def test_an_error_queue_that_is_an_alias_is_refused_by_name(world: World) -> None:
    world.mqsc(f"DEFINE QALIAS({ERROR_QUEUE}) TARGET(DLQ)")

    with pytest.raises(ConnectionSettingsError, match=f"INPUTQ {ERROR_QUEUE} .* local queue"):
        world.plan(f"INPUTQ({ERROR_QUEUE})\nACTION(RETRY)")


def test_a_put_refused_by_an_ams_policy_names_the_policy(world: World) -> None:
    world.dead_letter()
    execution = world.plan("WAIT(NO)\nACTION(RETRY)")
    embedded_mq.faults.set("MQPUT1[PAYMENTS]:1:2063:before")
    make_pass(execution)
    embedded_mq.faults.set("")

    settle(execution)

    (fact,) = world.ledger.outcomes.of_run("run-1").values()
    assert fact.why.words == (
        "1 attempts, the last to PAYMENTS: MQRC_SECURITY_ERROR (2063): the Advanced Message"
        " Security policy PAYMENTS, which has its queue's name, refuses it, or another security"
        " check does: see the policy by `dspmqspl -m QMGR -p PAYMENTS` (policies are kept on"
        " SYSTEM.PROTECTION.POLICY.QUEUE), and the queue manager's error log"
    )


def test_a_policy_on_the_queue_itself_is_named_in_the_error(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set("MQOPEN[DLQ]:1:2063:before")

    with pytest.raises(MqDlqError, match=r"^MQOPEN of queue DLQ failed: .* policy DLQ, which"):
        make_pass(execution)


def test_an_error_of_the_queue_manager_names_no_policy(world: World) -> None:
    embedded_mq.faults.set("MQCONNX:1:2063:before")

    with pytest.raises(MqDlqError, match=r"failed: MQRC_SECURITY_ERROR \(2063\) \[MQDLQ-100\]$"):
        world.connect()


@pytest.mark.parametrize(("before", "then"), [(None, "TRUE"), ("false", "false")])
def test_a_client_connection_disables_ams(
    world: World, monkeypatch: pytest.MonkeyPatch, before: str | None, then: str
) -> None:
    """IBM's client is absent here, so this checks only the environment that it would read."""
    monkeypatch.setenv("MQS_DISABLE_ALL_INTERCEPT", before or "")
    if before is None:
        monkeypatch.delenv("MQS_DISABLE_ALL_INTERCEPT")
    settings = ConnectionSettings("ELSEWHERE", host="localhost", channel="C", client=world.client)

    with pytest.raises((MqDlqError, ImportError)):
        connect(settings)

    assert os.environ["MQS_DISABLE_ALL_INTERCEPT"] == then
