"""Test that a discarded message is restored unchanged, or refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqdlq.errors import AnotherExecutorError, RestoreError
from mqdlq.headers import MessageDescriptor
from mqdlq.lake import archive
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.restorations import (
    DISCARD,
    attempt_and_count,
    discard,
    prepare_restoration,
    reasons,
    restore_and_count,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("world", ["pymqi", "ibmmq"], indirect=True)
BODIES = [b"one", b"two", b"three"]


def seen(world: World, queue: str = "DLQ") -> list[tuple[bytes, bytes]]:
    """Return (packed MQMD, body) of each message, as a browse shows it."""
    return [(bytes(descriptor.pack()), body) for descriptor, body in world.messages(queue)]


@BOTH
def test_a_restored_message_is_unchanged_and_its_copy_stays(world: World) -> None:
    for number, body in enumerate(BODIES):
        world.dead_letter(body, Priority=number, UserIdentifier=b"clerk", CorrelId=b"c" * 24)
    before = seen(world)
    world.handle(DISCARD)

    assert restore_and_count(world) == {"restored": 3}

    assert seen(world) == before
    assert world.depths("MQDLQ.STATE") == (1,)  # the executor's own, until its next unit
    assert [copy.is_provisional for copy in world.ledger.archive.copies()] == [False] * 3


def test_a_restoration_records_who_asked_for_which_messages(world: World) -> None:
    run_id = discard(world, b"body")
    restore_and_count(world)

    recorded = world.ledger.restorations.get("restoration-1")
    assert recorded is not None
    assert (recorded.who, recorded.run_id, recorded.to_queue) == ("alex", run_id, "DLQ")
    assert recorded.started_at == world.clock.now


MQMD = st.fixed_dictionaries(
    {
        "MsgId": st.binary(min_size=24, max_size=24).filter(any),
        "CorrelId": st.binary(min_size=24, max_size=24),
        "Priority": st.integers(0, 9),
        "Report": st.sampled_from([0, 0x100, 0x700, 0x1800000]),
        "Feedback": st.sampled_from([0, 266]),
        "Persistence": st.sampled_from([0, 1]),
        "UserIdentifier": st.sampled_from([b"clerk", b""]),
        "AccountingToken": st.binary(min_size=32, max_size=32),
        "ApplIdentityData": st.sampled_from([b"", b"identity"]),
        "ApplOriginData": st.sampled_from([b"", b"orig"]),
        "PutApplName": st.sampled_from([b"putter", b""]),
        "ReplyToQ": st.sampled_from([b"", b"REPLIES"]),
        "encoding": st.sampled_from([546, 273]),
        "ccsid": st.sampled_from([819, 1208, 500]),
        "body": st.binary(max_size=300),
    }
).filter(lambda letter: letter["ReplyToQ"] or not letter["Report"])


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(MQMD, min_size=1, max_size=4))
def test_every_discarded_message_is_restored_byte_for_byte(
    world: World, letters: list[dict[str, Any]]
) -> None:
    for letter in letters:
        world.dead_letter(**letter)
    before = seen(world)
    world.handle(DISCARD)

    restore_and_count(world, f"restoration-{world.runs}")

    assert seen(world) == before
    world.mqsc("CLEAR QLOCAL(DLQ)")


@BOTH
def test_a_message_is_restored_to_another_queue_without_its_header(world: World) -> None:
    discard(world, b"body", inner=(273, 500, "INNER"))

    assert restore_and_count(world, to_queue="PARKED", header=False) == {"restored": 1}

    ((descriptor, body),) = world.messages("PARKED")
    md = MessageDescriptor.decode(descriptor.pack())
    assert (body, md.format, md.encoding, md.coded_char_set_id) == (b"body", "INNER", 273, 500)
    assert (descriptor.PutDate, descriptor.PutTime) == (b"20261120", b"10203040")
    assert world.depths("DLQ") == (0,)


def test_a_message_is_restored_to_another_queue_with_its_header(world: World) -> None:
    world.dead_letter(b"body")
    before = seen(world)
    world.handle(DISCARD)

    assert restore_and_count(world, to_queue="PARKED", to_queue_manager="QM1") == {"restored": 1}

    assert seen(world, "PARKED") == before


def test_only_named_messages_are_restored(world: World) -> None:
    discard(world, *BODIES)
    keys = tuple(copy.message_key.hex() for copy in world.ledger.archive.copies()[1:])

    assert restore_and_count(world, run_id="", message_keys=keys) == {"restored": 2}

    assert [body[172:] for body in world.bodies("DLQ")] == BODIES[1:]


def test_only_dead_letters_with_the_given_reason_are_restored(world: World) -> None:
    for reason in (2053, 2051):
        world.dead_letter(b"%d" % reason, reason=reason)
    discard(world)

    assert restore_and_count(world, reason=2051) == {"restored": 1}

    assert [body[172:] for body in world.bodies("DLQ")] == [b"2051"]


def test_a_dry_run_of_a_restoration_puts_no_message_and_does_not_connect(world: World) -> None:
    discard(world, *BODIES)
    work = prepare_restoration(world, dry_run=True)
    nobody = replace(work, settings=replace(work.settings, queue_manager="QM9"))

    assert attempt_and_count(nobody) == {"not_attempted": 3}

    assert set(reasons(world)) == {"dry run"}
    assert world.depths("DLQ") == (0,)


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    (
        {"run_id": ""},
        (
            "a restoration needs a run or message_keys, so that nobody restores a whole"
            " archive by mistake; name one of them [MQDLQ-702]"
        ),
    ),
    (
        {"run_id": "run-9"},
        (
            "the archive has no copy by run run-9 of handler test; mqdlq restore list"
            " shows its copies [MQDLQ-704]"
        ),
    ),
    (
        {"message_keys": ("ab" * 32,)},
        (
            "the archive has no copy by run run-1 of 1 of the 1 messages named, such as"
            f" {'ab' * 32}; mqdlq restore list shows its copies [MQDLQ-703]"
        ),
    ),
    (
        {"reason": 2085},
        (
            "none of the 1 copies is of a dead letter for MQRC_UNKNOWN_OBJECT_NAME (2085);"
            " leave the reason out, or name another [MQDLQ-705]"
        ),
    ),
    (
        {"header": False},
        (
            "without its MQDLH a message is not a dead letter, and DLQ is a dead-letter"
            " queue; name another queue (to_queue), or keep the header [MQDLQ-708]"
        ),
    ),
    (
        {"to_queue": "MQDLQ.STATE"},
        (
            "MQDLQ.STATE is the handler's state queue, which holds markers only; name another"
            " queue [MQDLQ-710]"
        ),
    ),
    (
        {"to_queue_manager": "QM2"},
        "to_queue_manager needs to_queue; name the queue, too [MQDLQ-709]",
    ),
]


def test_an_impossible_selection_is_reported_in_one_sentence(world: World) -> None:
    discard(world, b"body")

    for asked, text in IMPOSSIBLE:
        with pytest.raises(RestoreError) as refused:
            prepare_restoration(world, **asked)

        assert str(refused.value) == text
    assert world.ledger.restorations.get("restoration-1") is None


def test_messages_of_two_queues_are_not_restored_at_once(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(DLQ2) DEFPSIST(YES)")
    discard(world, b"one")
    world.dead_letter(b"two")
    ((descriptor, body),) = world.messages("DLQ")
    world.mqsc("CLEAR QLOCAL(DLQ)")
    world.put("DLQ2", body, Format=b"MQDEAD  ", MsgId=descriptor.MsgId)
    world.handle(f"INPUTQ(DLQ2)\n{DISCARD}")
    keys = tuple(copy.message_key.hex() for copy in world.ledger.archive.copies())

    with pytest.raises(RestoreError) as refused:
        prepare_restoration(world, run_id="", message_keys=keys)

    assert str(refused.value) == (
        "the messages named were on several queues (DLQ @ QM1, DLQ2 @ QM1); restore those"
        " of one queue at a time, such as by their run [MQDLQ-707]"
    )


def test_a_restoration_id_cannot_be_reused_for_another_selection(world: World) -> None:
    discard(world, b"body")
    prepare_restoration(world)

    with pytest.raises(RestoreError) as refused:
        prepare_restoration(world, to_queue="PARKED")

    assert str(refused.value) == (
        "restoration restoration-1 is in the ledger with another selection or target,"
        " which never change; start another restoration [MQDLQ-711]"
    )


# -- refused messages


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("MQPUT1[MQDLQ.STATE]:1:2195:before", "run run-1 did not discard it;"),
        (
            "MQCMIT:1:2009:after",
            (
                "the unit of work that was to discard it is not settled, which the handler's next"
                " run does;"
            ),
        ),
    ],
)
def test_a_provisional_copy_is_refused(world: World, fault: str, why: str) -> None:
    world.dead_letter(b"body")
    world.interrupted_pass(world.plan(DISCARD), fault)

    assert restore_and_count(world) == {"refused": 1}

    assert reasons(world) == [
        f"its copy is provisional: {why} the message may still be on DLQ",
    ]


def test_a_copy_proven_by_a_marker_is_not_provisional(world: World) -> None:
    world.dead_letter(b"body")
    execution = world.plan(DISCARD)
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    make_pass(execution)

    assert restore_and_count(world) == {"restored": 1}
    assert settle(execution) == {Outcome.DISCARDED: 1}


def test_a_copy_of_a_message_with_unknown_outcome_is_refused(world: World) -> None:
    world.dead_letter(b"body")
    execution = world.plan(DISCARD)
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    world.mqsc("CLEAR QLOCAL(MQDLQ.STATE)")
    make_pass(execution)

    assert restore_and_count(world) == {"refused": 1}
    assert reasons(world) == [
        (
            "its copy is provisional: nobody knows whether the unit of work that was to discard it"
            " took effect; the message may still be on DLQ"
        )
    ]


def test_an_altered_copy_is_refused_and_the_others_are_restored(world: World) -> None:
    discard(world, *BODIES)
    location = world.ledger.archive.copies()[0].location
    copies = list(archive.read_copies(location))
    changed = [replace(copies[0], body=copies[0].body + b"!"), copies[2]]
    root, _, name = location.partition("/archive/")
    archive.write_copies(root, "run-1", name.rpartition("/")[2].removesuffix(".parquet"), changed)

    assert restore_and_count(world) == {"refused": 2, "restored": 1}

    assert set(reasons(world)) == {
        f"its copy in {location} was altered: it is not what the ledger has the digest of",
        f"its copy is missing: {location} does not hold it",
        "",
    }
    assert [body[172:] for body in world.bodies("DLQ")] == [b"three"]


def test_a_missing_or_unreadable_copy_is_refused_until_it_is_back(world: World) -> None:
    discard(world, b"body")
    file = Path(world.ledger.archive.copies()[0].location)
    whole = file.read_bytes()
    work = prepare_restoration(world)

    file.unlink()
    assert attempt_and_count(work) == {"refused": 1}
    assert reasons(world) == [f"its copy is missing: {file} is not there"]
    file.write_bytes(whole[:-20])
    assert attempt_and_count(work) == {"refused": 1}
    assert reasons(world)[0].startswith(f"its copy cannot be read: {file} cannot be read: ")
    file.write_bytes(whole)
    assert attempt_and_count(work) == {"restored": 1}


def test_a_restored_message_is_put_again_only_on_demand(world: World) -> None:
    discard(world, b"body")
    restore_and_count(world, to_queue="PARKED")

    assert restore_and_count(world, "restoration-2") == {"refused": 1}
    assert reasons(world, "restoration-2") == [
        (
            "it was restored to PARKED at 2026-11-21 12:00:00 UTC by restoration restoration-1;"
            " again puts it once more"
        )
    ]
    assert restore_and_count(world, "restoration-3", again=True) == {"restored": 1}
    assert world.depths("PARKED", "DLQ") == (1, 1)


@pytest.mark.parametrize("again", [False, True])
def test_a_repeated_restoration_puts_no_message_twice(world: World, again: bool) -> None:
    discard(world, *BODIES)
    work = prepare_restoration(world, again=again)

    assert [attempt_and_count(work), attempt_and_count(work)] == [{"restored": 3}] * 2

    assert world.depths("DLQ") == (3,)


def test_a_restoration_waits_for_the_state_queue_and_then_names_its_holder(world: World) -> None:
    discard(world, b"body")
    work = prepare_restoration(world)
    with world.connect() as queue_manager:
        cmqc = queue_manager.client.CMQC
        held = queue_manager.open("MQDLQ.STATE", cmqc.MQOO_INPUT_EXCLUSIVE)

        with pytest.raises(AnotherExecutorError) as refused:
            attempt_and_count(work)
        queue_manager.close(held)

    assert str(refused.value) == (
        "another executor holds the state queue MQDLQ.STATE of queue manager QM1"
        " (MQRC_OBJECT_IN_USE (2042)), and only one at a time may act on a dead-letter queue;"
        " by this ledger it is restoration restoration-1, asked for at 2026-11-21 12:00:00 UTC"
        " [MQDLQ-602]"
    )
    assert attempt_and_count(work) == {"restored": 1}
