"""Test that a diagnosis names what an administrator broke, and that its command mends it."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.diagnosis.obstacles import Subject
from mqdlq.diagnosis.records import Outlook
from mqdlq.errors import QueueManagerError
from tests.support.diagnosed import look, without_alteration
from tests.support.world import World

REST = "DEFINE QLOCAL(ORDERS.INPUT)\nDEFINE QLOCAL(TO.QM7) USAGE(XMITQ)\n"


def put(world: World, subject: Subject) -> int:
    """Put a message as long as the longest to the destination; return the reason, 0 for none."""
    with world.connect() as queue_manager:
        client = queue_manager.client
        target = client.module.OD()
        target.ObjectName = subject.destination[0].encode()
        target.ObjectQMgrName = subject.destination[1].encode()
        try:
            with client.translating_errors("MQPUT1", "queue"):
                queue_manager.handle.put1(target, bytes(max(subject.longest, 1)))
        except QueueManagerError as error:
            return error.reason
    return 0


BROKEN = {
    "a full queue": (
        "ALTER QLOCAL(ORDERS) MAXDEPTH(0)",
        Subject(0, ("ORDERS", "")),
        "ORDERS holds 0 of 0 messages (MAXDEPTH); nobody has it open for input",
    ),
    "a queue with puts inhibited": (
        "ALTER QLOCAL(ORDERS) PUT(DISABLED)",
        Subject(0, ("ORDERS", "")),
        "ORDERS has PUT(DISABLED)",
    ),
    "an alias with puts inhibited": (
        "DEFINE QALIAS(BY.ALIAS) TARGET(ORDERS) PUT(DISABLED)",
        Subject(0, ("BY.ALIAS", "")),
        "BY.ALIAS has PUT(DISABLED)",
    ),
    "the queue behind an alias": (
        "DEFINE QALIAS(BY.ALIAS) TARGET(ORDERS)\nALTER QLOCAL(ORDERS) PUT(DISABLED)",
        Subject(0, ("BY.ALIAS", "")),
        "ORDERS has PUT(DISABLED)",
    ),
    "a wrong name": (
        "",
        Subject(0, ("ORDERS.IN", "")),
        (
            "no queue ORDERS.IN on QM1; ORDERS.INPUT exists (0 handles put to it), ORDERS exists (0"
            " handles put to it)"
        ),
    ),
    "no queue": ("", Subject(0, ("NOWHERE", "")), "no queue NOWHERE on QM1"),
    "an alias of no queue": (
        "DEFINE QALIAS(BY.ALIAS) TARGET(GONE)",
        Subject(0, ("BY.ALIAS", "")),
        "BY.ALIAS is an alias of GONE, which is not defined",
    ),
    "an alias of a wrong name": (
        "DEFINE QALIAS(BY.ALIAS) TARGET(ORDERS.INP)",
        Subject(0, ("BY.ALIAS", "")),
        (
            "BY.ALIAS is an alias of ORDERS.INP, which is not defined; ORDERS.INPUT exists (0"
            " handles put to it), ORDERS exists (0 handles put to it)"
        ),
    ),
    "too long for the queue": (
        "ALTER QLOCAL(ORDERS) MAXMSGL(10)",
        Subject(0, ("ORDERS", ""), longest=11),
        "ORDERS takes up to 10 bytes (MAXMSGL); the longest message has 11",
    ),
    "no route": (
        "",
        Subject(0, ("ANY", "ELSEWHERE")),
        (
            "no route to queue manager ELSEWHERE: no transmission queue has its name, and DEFXMITQ"
            " is blank"
        ),
    ),
    "a wrong route": (
        "",
        Subject(0, ("ANY", "TO.QM77")),
        "no route to queue manager TO.QM77: no transmission queue has its name, but TO.QM7 is one",
    ),
    "an unknown transmission queue": (
        "DEFINE QREMOTE(FAR) RNAME(ANY) RQMNAME(QM8) XMITQ(TO.QM8)",
        Subject(0, ("FAR", "")),
        "no transmission queue TO.QM8, which FAR names",
    ),
    "an unknown default transmission queue": (
        "ALTER QMGR DEFXMITQ(TO.REST)",
        Subject(0, ("ANY", "ELSEWHERE")),
        "no transmission queue TO.REST, which ELSEWHERE names",
    ),
    "a transmission queue that is none": (
        "DEFINE QREMOTE(FAR) RNAME(ANY) RQMNAME(QM8) XMITQ(ORDERS)",
        Subject(0, ("FAR", "")),
        "ORDERS, which FAR names as its transmission queue, has USAGE(NORMAL)",
    ),
    "a full transmission queue": (
        "ALTER QLOCAL(TO.QM7) MAXDEPTH(0)",
        Subject(0, ("ANY", "TO.QM7")),
        "TO.QM7 holds 0 of 0 messages (MAXDEPTH); nobody has it open for input",
    ),
    "a closed queue behind an alias of the queue manager": (
        "DEFINE QREMOTE(HERE) RNAME(' ') RQMNAME(QM1)\nALTER QLOCAL(ORDERS) PUT(DISABLED)",
        Subject(0, ("ORDERS", "HERE")),
        "ORDERS has PUT(DISABLED)",
    ),
    "a full stream queue": (
        "ALTER QLOCAL(PARKED) MAXDEPTH(0)\nALTER QLOCAL(ORDERS) STREAMQ(PARKED) STRMQOS(MUSTDUP)",
        Subject(0, ("ORDERS", "")),
        "PARKED holds 0 of 0 messages (MAXDEPTH); nobody has it open for input",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_diagnosis_names_what_is_broken_and_its_command_mends_it(world: World, name: str) -> None:
    breaking, subject, text = BROKEN[name]
    world.mqsc(REST + breaking)
    reason = put(world, subject)

    found = look(world, replace(subject, reason=reason))

    assert reason
    # The queue manager's clock says when a queue was altered.
    told = without_alteration(found.findings[0].text)
    assert (found.outlook, told) == (Outlook.REFUSED, text)
    assert found.findings[0].reason == reason
    world.mqsc("\n".join(found.findings[0].commands))
    assert put(world, subject) == 0
    assert look(world, replace(subject, reason=reason)).outlook is Outlook.CLEARED


# Random breakages, one or two at a time.


BREAKAGES = [
    "ALTER QLOCAL(ORDERS) MAXDEPTH(0)",
    "ALTER QLOCAL(ORDERS) PUT(DISABLED)",
    "ALTER QLOCAL(ORDERS) MAXMSGL(10)",
    "DELETE QLOCAL(ORDERS)",
    "DELETE QALIAS(BY.ALIAS)",
    "ALTER QALIAS(BY.ALIAS) PUT(DISABLED)",
    "ALTER QALIAS(BY.ALIAS) TARGET(ORDERS.IMPUT)",
    "ALTER QLOCAL(TO.QM7) MAXDEPTH(0)",
    "ALTER QLOCAL(TO.QM7) PUT(DISABLED)",
    "ALTER QLOCAL(TO.QM7) USAGE(NORMAL)",
    "ALTER QREMOTE(FAR) XMITQ(TO.QM8)",
    "ALTER QREMOTE(FAR) PUT(DISABLED)",
    "ALTER QREMOTE(FAR) RNAME(' ')",
    "ALTER QLOCAL(PARKED) PUT(DISABLED)",
    "ALTER QLOCAL(ORDERS) STREAMQ(PARKED) STRMQOS(MUSTDUP)",
    "ALTER QMGR DEFXMITQ(TO.REST)",
]

WHOLE = REST + (
    "DEFINE QALIAS(BY.ALIAS) TARGET(ORDERS)\n"
    "DEFINE QREMOTE(FAR) RNAME(ANY) RQMNAME(QM7) XMITQ(TO.QM7)\n"
    "DEFINE QREMOTE(QM7) RNAME(' ') RQMNAME(QM7) XMITQ(TO.QM7)\n"
)
DESTINATIONS = [("ORDERS", ""), ("BY.ALIAS", ""), ("FAR", ""), ("ANY", "QM7"), ("ANY", "QM9")]


@pytest.mark.slow
def test_no_diagnosis_of_random_breakages_is_wrong(tmp_path: Path) -> None:
    """A put agrees with each: refused for a reason that was found, or not, if nothing was found."""
    chosen, refused = random.Random(29), 0  # noqa: S311 (no secret)
    for number in range(200):
        world = World(tmp_path / f"{number}", client="ibmmq")
        with world.ledger:
            world.mqsc(WHOLE)
            for breaking in chosen.sample(BREAKAGES, chosen.choice([0, 1, 1, 2, 2])):
                with suppress(embedded_mq.MqscError):  # what it alters was deleted before
                    world.mqsc(breaking)
            subject = Subject(0, chosen.choice(DESTINATIONS), longest=chosen.choice([1, 11]))
            found, reason = look(world, subject), put(world, subject)
            reasons = {one.reason for one in found.findings} - {0}
            assert (reason in reasons) if reason else not reasons, (subject, found.findings, reason)
            refused += reason != 0
    assert refused > 60
