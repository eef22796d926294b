"""Test that a repair replaces the body of one message, if its handler and a second person agree."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.errors import HandlerError, LakeError
from mqdlq.handlers import load_handler
from mqdlq.handlers.operation import ApprovalGuards
from mqdlq.headers import RulesHeader2
from mqdlq.lake.archive import read_copies
from mqdlq.lake.replacements import read_replacement, write_replacement
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.local import foreground
from mqdlq.model import AuditKind, Outcome
from mqdlq.stages.approve import record_answer, review_plan
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.retention import Pruner
from mqdlq.stages.snapshot.taking import check_named_messages
from mqdlq.tools.replacing import difference
from tests.support.restorations import restore_and_count
from tests.support.retention import policy
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import keys_on_queue, plan_repair
from tests.unit.stages.execute.messages.with_properties import (
    ALL_KINDS,
    add_properties,
    seen_by_an_application,
)

pytestmark = pytest.mark.stages

OLD, NEW = "Zahlung über 12 €".encode(), "Zahlung über 21 €, geprüft".encode()


def stored(world: World, body: bytes = NEW) -> dict[str, Any]:
    digest = write_replacement(world.lake_root, "test", body)
    return {"body_sha256": digest, "body_length": len(body)}


def start(world: World, repair: dict[str, Any], **options: Any) -> Any:
    given = {"message_keys": keys_on_queue(world), "action": "ACTION(RETRY)"} | options
    return world.start("ACTION(IGNORE)", repair=repair, allows_bodies=True, **given)


def plan(world: World, repair: dict[str, Any], action: str = "ACTION(RETRY)") -> Execution:
    return plan_repair(world, repair, action, allows_bodies=True)


def reason(world: World, execution: Execution) -> str:
    (fact,) = world.ledger.outcomes.of_run(execution.run.run_id).values()
    return fact.why.words


def test_a_message_is_put_with_the_replacement_and_its_original_is_archived(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    ((original, whole),) = world.messages("DLQ")

    execution = plan(world, stored(world))
    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}
    ((delivered, body),) = world.messages("PAYMENTS")
    assert (body, delivered.Format, delivered.CodedCharSetId) == (NEW, b"MQSTR   ", 1208)
    assert delivered.MsgId == original.MsgId
    (copy,) = world.ledger.archive.copies(run_id=execution.run.run_id)
    (content,) = read_copies(copy.location)
    assert (content.body, content.descriptor) == (whole, original.pack())
    digest = hashlib.sha256(NEW).hexdigest()
    assert copy.repair is not None
    assert (copy.repair.body_to, copy.repair.length_to) == (digest, len(NEW))
    assert reason(world, execution) == (
        f"repaired: body: 20 bytes → 30 bytes with SHA-256 {digest[:12]}…; original in the archive"
    )


def test_restore_brings_the_original_back(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    whole = world.bodies("DLQ")
    execution = plan(world, stored(world))
    make_pass(execution)
    settle(execution)
    world.mqsc("CLEAR QLOCAL(PAYMENTS)")

    assert restore_and_count(world, run_id=execution.run.run_id, again=True) == {"restored": 1}

    assert world.bodies("DLQ") == whole


def test_properties_stay_with_a_replaced_body(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    add_properties(world, *ALL_KINDS, copied="MQCOPY_FORWARD")
    ((_, _, properties),) = seen_by_an_application(world)

    make_pass(plan(world, stored(world)))

    ((_, body, kept),) = seen_by_an_application(world, "PAYMENTS")
    assert (body, kept) == (NEW, properties)


def rfh2(flags: int = 0) -> bytes:
    """Return an MQRFH2 without properties, which the queue manager leaves in the body."""
    header = RulesHeader2(546, 1208, "MQSTR", flags, 1208, ())
    return header.encode(encoding=546, ccsid=819)


NOT_TEXT = "its Format is MQSTR, and the replacement is not text in CCSID {}"
WITHOUT_HEADERS = (
    "the replacement does not begin with the headers of the body, byte for byte: MQRFH2"
)
SAME = (
    "the repair changes nothing: Format MQSTR, CodedCharSetId 1208 and the destination are the same"
    " already"
)
FAULTS: list[tuple[tuple[int, int, str], bytes, bytes, str]] = [
    ((546, 1208, "MQSTR"), OLD, b"caf\xe9", NOT_TEXT.format(1208)),
    ((546, 65_000, "MQSTR"), OLD, b"new", NOT_TEXT.format(65_000)),
    ((546, 1200, "MQSTR"), OLD, b"odd", NOT_TEXT.format(1200)),
    ((546, 1208, "MQHRF2"), rfh2() + OLD, NEW, WITHOUT_HEADERS),
    ((546, 1208, "MQHRF2"), rfh2() + OLD, rfh2(1) + NEW, WITHOUT_HEADERS),
    ((546, 1208, "MQHRF2"), rfh2() + OLD, rfh2() + b"\xff", NOT_TEXT.format(1208)),
    (
        (546, 1208, "MQHRF2"),
        OLD,
        NEW,
        f"{WITHOUT_HEADERS.removesuffix('MQRFH2')}none that can be read",
    ),
    (
        (546, 1208, "MQSTR"),
        OLD,
        OLD,
        SAME,
    ),
]


@pytest.mark.parametrize(("inner", "old", "new", "why"), FAULTS)
def test_a_replacement_that_does_not_fit_the_message_is_refused(
    world: World, inner: tuple[int, int, str], old: bytes, new: bytes, why: str
) -> None:
    world.dead_letter(old, inner=inner)

    execution = plan(world, stored(world, new))
    make_pass(execution)

    assert settle(execution) == {Outcome.NOT_ATTEMPTED: 1}
    assert reason(world, execution) == why
    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


@pytest.mark.parametrize(
    ("inner", "old", "new"),
    [
        ((546, 1208, "MQHRF2"), rfh2() + OLD, rfh2() + NEW),
        ((546, 1200, "MQSTR"), OLD, "neu".encode("utf-16-le")),
        ((273, 1200, "MQSTR"), OLD, "neu".encode("utf-16-be")),
        ((273, 500, "MQSTR"), OLD, "neu".encode("cp500")),
        ((546, 1208, "ORDERS"), OLD, b"\xff\x00"),
    ],
)
def test_a_replacement_that_fits_the_message_is_put(
    world: World, inner: tuple[int, int, str], old: bytes, new: bytes
) -> None:
    world.dead_letter(old, inner=inner)

    make_pass(plan(world, stored(world, new)))

    assert world.bodies("PAYMENTS") == [new]


def test_a_segment_and_a_protected_message_keep_their_bodies(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"), MsgFlags=2)
    execution = plan(world, stored(world))
    assert make_pass(execution).attempts == 0
    settle(execution)
    assert reason(world, execution).startswith("it is a segment of a message")

    world.mqsc("CLEAR QLOCAL(DLQ)")
    world.dead_letter(b"PDMQ" + OLD, inner=(546, 1208, "MQSTR"))
    execution = plan(world, stored(world))
    assert make_pass(execution).attempts == 0
    settle(execution)
    assert reason(world, execution).startswith("Advanced Message Security protects its body")


def test_a_put_that_the_target_refuses_leaves_the_original_on_the_queue(world: World) -> None:
    world.mqsc("ALTER QLOCAL(PAYMENTS) MAXMSGL(25)")
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    whole = world.bodies("DLQ")

    execution = plan(world, stored(world))
    make_pass(execution)

    assert settle(execution) == {Outcome.EXHAUSTED: 1}
    assert "2030" in reason(world, execution)
    assert world.bodies("DLQ") == whole


def test_a_message_with_a_valid_mqmd_only_gets_a_whole_new_body(world: World) -> None:
    world.put("DLQ", OLD, Format=b"MQSTR   ", CodedCharSetId=1208, Encoding=546)

    make_pass(plan(world, stored(world), "ACTION(FWD) FWDQ(PARKED) HEADER(NO)"))

    assert world.bodies("PARKED") == [NEW]


@pytest.mark.parametrize("fault", ["MQPUT1[PAYMENTS]:1:2009:after", "MQCMIT:1:2009:before"])
def test_an_interrupted_replacement_delivers_the_message_once(world: World, fault: str) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    execution = plan(world, stored(world))
    world.interrupted_pass(execution, fault)

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: 1}
    assert world.bodies("PAYMENTS") == [NEW]
    assert world.depths("DLQ") == (0,)


def test_a_replacement_that_was_altered_or_pruned_moves_nothing(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    repair = stored(world)
    execution = plan(world, repair)
    (place,) = Path(world.lake_root, "replacements", "test").iterdir()
    assert place.stat().st_mode & 0o777 == 0o600

    place.write_bytes(b"other")
    with pytest.raises(LakeError, match="was altered"):
        make_pass(execution)
    place.unlink()
    with pytest.raises(LakeError, match="is missing; it may be pruned"):
        make_pass(execution)

    assert world.depths("DLQ", "PAYMENTS") == (1, 0)


def test_a_body_is_replaced_only_if_the_handler_allows_it(world: World) -> None:
    with pytest.raises(HandlerError, match=r"does not allow to replace a body.*\[MQDLQ-531"):
        world.start(
            "ACTION(IGNORE)",
            message_keys=("0" * 64,),
            action="ACTION(RETRY)",
            repair=stored(world),
        )


@pytest.mark.parametrize(
    "others", [{"message_keys": ("0" * 64, "1" * 64)}, {"message_keys": (), "where": "reason=2053"}]
)
def test_a_body_is_replaced_for_one_named_message_only(world: World, others: Any) -> None:
    with pytest.raises(HandlerError, match=r"one message at a time.*\[MQDLQ-532"):
        start(world, stored(world), **others)


def test_a_body_is_not_replaced_for_one_of_several_equal_messages(world: World) -> None:
    for _ in range(2):
        world.dead_letter(OLD, inner=(546, 1208, "MQSTR"), MsgId=b"m" * 24)
    run = start(world, stored(world), message_keys=keys_on_queue(world)[:1])
    world.snapshot(run)

    with pytest.raises(HandlerError, match=r"2 equal messages have the key .*\[MQDLQ-533"):
        list(check_named_messages(run, world.recorded_snapshot(run.run_id).location))


def test_a_replaced_body_needs_a_second_person_whatever_the_action_is(world: World) -> None:
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    run = start(world, stored(world), user="alice")
    world.snapshot(run)
    execution, plan_id = world.execution(run), world.evaluate(run)
    guards = ApprovalGuards()

    def answered(who: str) -> list[str]:
        given = record_answer(is_approved=True, names=[who], at=world.clock()) if who else None
        return [name for name, _ in review_plan(execution, plan_id, guards, answer=given).questions]

    assert answered("") == ["repair", "second_person"]
    assert answered("alice") == ["repair", "second_person"]
    assert answered("bob") == []
    make_pass(execution)
    assert world.bodies("PAYMENTS") == [NEW]
    (refused,) = world.ledger.audit_trail.events(AuditFilter(what=AuditKind.SECOND_PERSON_REFUSED))
    assert refused.who == "alice"


@pytest.mark.parametrize(
    ("others", "fault"),
    [
        ("payload: full", "repair: body needs approval: second_person, such as"),
        ("approval: {second_person: [retry]}", "repair: body needs 'payload', to show how"),
    ],
)
def test_a_handler_that_allows_bodies_needs_a_second_person_and_payload(
    tmp_path: Path, others: str, fault: str
) -> None:
    (tmp_path / "pay.rules").write_text("ACTION(IGNORE)\n")
    text = f"connection: mq\nrules: pay.rules\nrepair: {{body: yes}}\n{others}\n"
    (tmp_path / "pay.yaml").write_text(text)

    with pytest.raises(HandlerError, match=fault):
        load_handler("pay", tmp_path)


def test_the_command_stores_a_file_and_shows_how_it_differs(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test.rules").write_text("ACTION(IGNORE)\n")
    (tmp_path / "test.yaml").write_text(
        "connection: mq\nrules: test.rules\npayload: full\nrepair: {body: yes}\n"
        "approval: {second_person: [retry]}\n"
    )
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    monkeypatch.setenv("MQDLQ_HOME", str(world.directory))
    started: list[Any] = []

    def record(_: str, conf: Any) -> int:
        started.append(conf)
        return 0

    monkeypatch.setattr(foreground, "run", record)
    (tmp_path / "new.txt").write_bytes(NEW)
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    (key,) = keys_on_queue(world)

    def call(conf: dict[str, Any]) -> Any:
        file = ["--body", str(tmp_path / "new.txt")]
        given = ["run", "test", "--conf", json.dumps(conf), *file]
        return CliRunner().invoke(app, given)

    refused = call({"message_keys": [key]})
    assert (refused.exit_code, "no snapshot has the message's body" in refused.output) == (2, True)
    world.clock.sleep(60)
    run = world.start("ACTION(IGNORE)")
    world.snapshot(run, payload="full", rescan=True)
    world.accept(run)
    done = call({"message_keys": [key[:12]], "dry_run": True, "action": "ACTION(RETRY)"})

    assert done.exit_code == 0, done.output
    assert "-Zahlung über 12 €\n+Zahlung über 21 €, geprüft\n" in done.stdout
    assert started[0]["repair"] == stored(world)
    events = world.ledger.audit_trail.events(AuditFilter(message_key=key))
    kinds = {one.what for one in events}
    assert {AuditKind.REPLACEMENT_STORED, AuditKind.BODY_SHOWN} <= kinds
    assert "there are 2" in call({"message_keys": [key, "0" * 64]}).output
    (tmp_path / "test.yaml").write_text("connection: mq\nrules: test.rules\n")
    assert "does not allow to replace a body" in call({"message_keys": [key]}).output


def test_a_difference_of_what_is_no_text_is_in_hexadecimal_digits() -> None:
    row = {"coded_char_set_id": 1208, "encoding": 546, "dlh_coded_char_set_id": None}

    lines, note = difference(b"abc", b"\xff", row)

    assert note == "As hexadecimal digits, because not both are text in CCSID 1208."
    assert [line[:16].rstrip() for line in lines[3:]] == ["-00000000  6162", "+00000000  ff"]


def test_a_run_has_the_digest_of_a_body_and_never_the_body(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world.dead_letter(OLD, inner=(546, 1208, "MQSTR"))
    execution = plan(world, stored(world))
    make_pass(execution)
    settle(execution)

    assert json.loads(execution.run.repair) == stored(world)
    assert "Zahlung" not in caplog.text + repr(execution)


def test_replacements_are_removed_as_old_as_archive_copies(world: World) -> None:
    digest = stored(world)["body_sha256"]
    place = Path(world.lake_root, "replacements", "test", digest)
    written = (world.clock() - timedelta(days=31)).timestamp()
    os.utime(place, (written, written))
    pruner = Pruner(world.ledger, world.lake_root, world.clock, "alex")

    hold: dict[str, Any] = {"reason": "audit", "who": "alex", "at": world.clock()}
    placed = world.ledger.holds.add(handler="other", **hold)
    pruner.prune([policy(archive=30)], trust_clock=True)
    assert read_replacement(world.lake_root, "test", digest) == NEW
    world.ledger.holds.release(placed.hold_id, **hold)
    pruner.prune([policy(archive=30)], trust_clock=True)
    assert not place.exists()
