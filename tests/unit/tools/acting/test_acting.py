"""Prepare actions of a person on messages, over snapshots of an embedded queue manager."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mqdlq.causes import find_cause
from mqdlq.constants import MQPER
from mqdlq.controls.repair import Repair
from mqdlq.diagnosis.keeping import Place, keep
from mqdlq.diagnosis.records import Diagnosis, Outlook
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import ApprovalGuards, GuardedAction
from mqdlq.lake.filters import MessageFilter
from mqdlq.rules import parse
from mqdlq.stages.execute import make_pass, settle
from mqdlq.tools.acting import (
    ActionError,
    AskedAction,
    Preview,
    Selection,
    Sources,
    Verb,
    action_of_rule,
    build_preview,
    parse_action,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(ORDERS) ACTION(DISCARD)\nACTION(IGNORE)\n"
ALL = Selection(chosen=MessageFilter(queue="DLQ"))
FORWARD = AskedAction(Verb.FORWARD, "PARKED", header=False)


@pytest.fixture(name="world")
def _world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Make a world with a snapshot of three messages, one of them without an MQDLH."""
    world = World(tmp_path_factory.mktemp("world"))
    world.dead_letter(dest_q="PAYMENTS")
    world.dead_letter(dest_q="ORDERS")
    world.put("DLQ", b"no dead letter")
    return world


def act(world: World, asked: AskedAction, selection: Selection = ALL, **keys: Any) -> Preview:
    handler = Handler(
        name="test", directory=world.directory, connection="mq", rules="test.rules", **keys
    )
    sources = Sources("test", world.ledger, world.lake_root, world.clock)
    return build_preview(selection, asked, handler, sources)


def snapshot(world: World) -> None:
    world.clock.sleep(1)
    execution = world.plan(RULES, dry_run=True)
    make_pass(execution)
    settle(execution)


@pytest.mark.parametrize(
    ("verb", "ready"),
    [(Verb.RETRY, 2), (Verb.FORWARD, 3), (Verb.DISCARD, 3), (Verb.LEAVE, 3)],
)
def test_messages_without_mqdlh_can_be_forwarded_discarded_and_left(
    world: World, verb: Verb, ready: int
) -> None:
    snapshot(world)

    found = act(world, AskedAction(verb, "PARKED" if verb is Verb.FORWARD else ""))

    assert found.messages == ready
    assert [number for _, number in found.obstacles] == [1] * (ready < 3)
    assert found.can_start


def test_messages_are_counted_by_persistence(world: World) -> None:
    world.put("DLQ", b"may be lost", Persistence=MQPER["MQPER_NOT_PERSISTENT"])
    snapshot(world)

    counted = act(world, FORWARD).counts("persistence")

    assert counted == [("persistent", 3), ("not persistent", 1)]


def test_the_rule_of_an_action_is_one_that_a_run_accepts(world: World) -> None:
    snapshot(world)
    assert FORWARD.rule == "ACTION(FWD) FWDQ('PARKED') HEADER(NO)"
    for verb in (Verb.RETRY, Verb.DISCARD, Verb.LEAVE):
        assert len(parse(AskedAction(verb).rule, "action").rules) == 1

    conf = act(world, FORWARD).conf(dry_run=False, why="ticket")
    given = {name: conf[name] for name in ("where", "as_of", "action")}
    world.dead_letter(b"arrived since")
    make_pass(world.plan(RULES, **given))

    assert world.depths("DLQ", "PARKED") == (1, 3)
    assert "message_keys" not in conf


def test_a_repair_shows_its_changes_and_leaves_out_messages_that_it_does_not_change(
    world: World,
) -> None:
    world.dead_letter(b"12345", dest_q="PAYMENTS", inner=(546, 37, "ORDERS"))
    snapshot(world)
    fields = {"action": "retry", "repair_format": "MQSTR", "repair_ccsid": "819"}
    asked = parse_action(fields)
    assert asked is not None

    found = act(world, asked)

    assert asked.parameters() == fields
    assert found.counts("changes") == [
        ("Format: ORDERS → MQSTR, CodedCharSetId: 37 → 819; body unchanged, 5 bytes", 1)
    ]
    why = "the repair changes nothing: Format MQSTR, CodedCharSetId 819 and the destination are the"
    assert found.obstacles[0] == (f"{why} same already", 2)
    assert found.conf(dry_run=True, why="")["repair"] == {
        "format": "MQSTR",
        "coded_char_set_id": 819,
    }


@pytest.mark.parametrize(("length", "is_told"), [(100, False), (101, True)])
def test_a_body_longer_than_its_target_took_is_named_in_the_preview(
    world: World, length: int, is_told: bool
) -> None:
    snapshot(world)
    message = world.ledger.messages.of_run("run-1")[0]
    cause = find_cause("dead_letter", 2053, "PAYMENTS", "QM1")
    facts = {"queue PAYMENTS": {"MAXMSGL": "100"}}
    found = Diagnosis(world.clock(), Outlook.CLEARED, (), facts, ())
    keep(Place("test", "QM1", "DLQ"), cause, "full", found, world.ledger)
    repair = Repair(body_sha256="a" * 64, body_length=length)
    selection = Selection((message.message_key.hex(),))

    asked = AskedAction(Verb.RETRY, repair=repair)
    allowed: dict[str, Any] = {"repair": {"body": True}, "payload": "full"}
    allowed |= {"approval": {"second_person": ["retry"]}}

    previewed = act(world, asked, selection, **allowed)

    ((changes, _),) = previewed.counts("changes")
    refused = (
        "; it may fail with MQRC_MSG_TOO_BIG_FOR_Q (2030): PAYMENTS took up to 100 bytes"
        " (MAXMSGL) at 2026-11-21 12:00:01 UTC"
    )
    body = f"body: 4 bytes → {length} bytes with SHA-256 aaaaaaaaaaaa…"
    assert changes == body + (refused if is_told else "")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"action": "retry", "repair_ccsid": "70000"},
            "repair_ccsid: found 70000; expected a whole number from 1 to 65535, such as 1208",
        ),
        (
            {"action": "retry", "repair_ccsid": "00"},
            "repair_ccsid: found 0; expected a whole number from 1 to 65535, such as 1208",
        ),
        (
            {"action": "retry", "repair_ccsid": "9" * 5000},
            (
                f"repair_ccsid: found '{'9' * 65}'; expected a whole number from 1 to 65535, such"
                " as 1208"
            ),
        ),
        (
            {"action": "retry", "repair_format": "a b"},
            (
                "repair_format: found 'a b'; expected at most 8 letters, digits and . _ / %, such"
                " as MQSTR; not MQDEAD, and no header that mqdlq cannot read: of Formats that begin"
                " with MQH only MQHMDE, MQHRF, MQHRF2"
            ),
        ),
        (
            {"action": "forward", "to_queue": "PARKED", "repair_ccsid": "1208"},
            (
                "header: a message that keeps its MQDLH cannot be repaired; expected header=no for"
                " a repair"
            ),
        ),
    ],
)
def test_an_invalid_repair_names_its_field(fields: dict[str, str], fault: str) -> None:
    with pytest.raises(ActionError) as caught:
        parse_action(fields)

    assert caught.value.text == fault


def test_a_rule_that_puts_by_the_messages_authority_has_no_action_of_a_person() -> None:
    given = {
        "ACTION(FWD) FWDQ(A) FWDQM(B)": AskedAction(Verb.FORWARD, "A", "B"),
        "ACTION(FWD) FWDQ(A) PUTAUT(CTX)": None,
        "ACTION(RETRY) PUTAUT(CTX)": None,
        "ACTION(FWD) FWDQ(A) FWDQM(&DESTQM)": None,
        "ACTION(IGNORE)": AskedAction(Verb.LEAVE),
    }
    for text, action in given.items():
        assert action_of_rule(parse(text).rules[0]) == action


def test_departed_leased_and_held_messages_are_left_out(world: World) -> None:
    execution = world.plan(RULES)
    make_pass(execution)
    settle(execution)
    snapshot(world)
    held, gone, leased = sorted(
        world.ledger.messages.of_run(execution.run.run_id), key=lambda one: one.browse_seq
    )
    world.ledger.holds.add(
        message_key=held.message_key.hex(), reason="case", who="dora", at=world.clock()
    )
    live = world.plan(RULES).run
    until = world.clock() + timedelta(hours=1)
    world.ledger.messages.lease(live.run_id, [leased.message_id], until)
    keys = [one.message_key.hex() for one in (gone, held, leased)]
    unknown = "0" * 64

    found = act(world, FORWARD, Selection((*keys, unknown)))

    assert {one.message_key: one.obstacle for one in found.left_out} == {
        keys[0]: "it is not on the queue any more: discarded",
        keys[1]: "legal hold 1 covers it: release the hold first",
        keys[2]: f"run {live.run_id} has it at the moment: wait until that run ends",
        unknown: "no snapshot of this handler has it",
    }
    assert not found.can_start


def test_the_digest_changes_with_the_messages_and_the_action(world: World) -> None:
    snapshot(world)
    first = act(world, FORWARD)
    assert act(world, FORWARD).digest == first.digest
    other = AskedAction(Verb.FORWARD, "PAYMENTS", header=False)
    assert act(world, other).digest != first.digest

    world.dead_letter(dest_q="LEGAL")
    snapshot(world)

    assert act(world, FORWARD).digest != first.digest


def test_the_discards_of_a_run_can_be_restored_once(world: World) -> None:
    execution = world.plan(RULES)
    make_pass(execution)
    settle(execution)

    found = act(world, AskedAction(Verb.RESTORE), Selection(discarded_by=execution.run.run_id))

    assert (found.messages, found.dag_id) == (1, "mq_dlq_restore")
    conf = found.conf(dry_run=True, why="")
    assert (conf["handler"], conf["run"], conf["why"]) == ("test", execution.run.run_id, None)


def test_a_preview_says_whether_a_reason_or_a_second_person_is_needed(world: World) -> None:
    snapshot(world)
    guards = ApprovalGuards(second_person=(GuardedAction.DISCARD,))

    discard = act(world, AskedAction(Verb.DISCARD), require_reason=True, approval=guards)
    forward = act(world, FORWARD, approval=guards)

    assert (discard.needs_reason, discard.second_person) == (True, True)
    assert (forward.needs_reason, forward.second_person) == (False, False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"action": "x"},
            (
                "action: found 'x'; expected one of retry, retry_when_fixed, forward, discard,"
                " restore, leave"
            ),
        ),
        ({"action": "forward"}, "to_queue: it is empty; expected the name of the queue to put to"),
        (
            {"action": "forward", "to_queue": "A B"},
            (
                "to_queue: found 'A B'; expected at most 48 letters, digits and . _ / %, as IBM MQ"
                " allows in names"
            ),
        ),
        (
            {"action": "forward", "to_queue": "A", "header": "maybe"},
            "header: found 'maybe'; expected yes or no",
        ),
        (
            {"action": "restore", "header": "no"},
            (
                "header: without it a message cannot go back to its dead-letter queue; expected"
                " another queue, or header=yes"
            ),
        ),
    ],
)
def test_a_wrong_action_gets_one_error(given: dict[str, str], text: str) -> None:
    with pytest.raises(ActionError) as refused:
        parse_action(given)

    assert refused.value.text == text
    assert refused.value.error_id == "MQDLQ-981"


def test_a_form_without_an_action_has_yet_to_choose_one() -> None:
    assert parse_action({"to_queue": "A"}) is None
