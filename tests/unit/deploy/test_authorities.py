"""Test deploy/mq/authorities.mqsc: each of its three users can do one stage and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import embedded_mq
from mqdlq import directories
from mqdlq.errors import QueueManagerError
from mqdlq.local import demo
from mqdlq.mqi.connect import QueueManager
from mqdlq.stages import sense
from mqdlq.stages.execute import make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

AUTHORITIES = (directories.PROJECT / "deploy" / "mq" / "authorities.mqsc").read_text(
    encoding="utf-8"
)
DEFINITIONS = (directories.PROJECT / "include" / "mqsc" / "QM1.mqsc").read_text(encoding="utf-8")
RULES = (directories.PROJECT / "include" / "rules" / "demo.rules").read_text(encoding="utf-8")
DLQ, STATE = "SYSTEM.DEAD.LETTER.QUEUE", "MQDLQ.STATE"
TARGETS = ("PAYMENTS.IN", "PAYMENTS.INTL", "PAYMENTS.PARKED", "ORDERS.PARKED", "REPLIES.LATE")
QUEUES = (DLQ, STATE, *TARGETS, "QUOTES.TICKER", "LEGAL.HOLD", "PAYROLL.RUN")
NOT_AUTHORIZED = 2035
SENSE, DRY, EXECUTE = "mqdlqsense", "mqdlqdry", "mqdlqexec"
PREVIEW = {"not_attempted": 64, "unmatched": 2, "unprocessable": 5}
OUTCOMES = {
    "delivered": 29,
    "forwarded": 20,
    "discarded": 12,
    "left_by_rule": 3,
    "unmatched": 2,
    "unprocessable": 5,
}
# The open options that need each authority: IBM MQ docs, "Authorizations for MQI calls".
OPTIONS = {
    "BROWSE": ("BROWSE",),
    "GET": ("INPUT_SHARED",),
    "INQ": ("INQUIRE",),
    "PASSALL": ("OUTPUT", "PASS_ALL_CONTEXT"),
    "PUT": ("OUTPUT",),
    "SET": ("SET",),
    "SETALL": ("OUTPUT", "SET_ALL_CONTEXT"),
    "SETID": ("OUTPUT", "SET_IDENTITY_CONTEXT"),
}
AUTHORITIES_BY_USER = {
    SENSE: {DLQ: {"INQ"}},
    DRY: {DLQ: {"INQ", "BROWSE"}},
    EXECUTE: {
        DLQ: {"INQ", "BROWSE", "GET"},
        STATE: {"BROWSE", "GET", "PUT"},
        **{queue: {"PUT", "PASSALL"} for queue in TARGETS},
    },
}


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Make the demo's queue manager with its seventy dead letters, then set the authorities."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, definitions=DEFINITIONS)
    with world.ledger, world.connect() as queue_manager:
        demo.fill(queue_manager, world.clock)
        # Four of eight international payments fit: a missing authority to put changes the outcomes.
        world.mqsc("ALTER QLOCAL(PAYMENTS.INTL) PUT(ENABLED) MAXDEPTH(4)")
        world.mqsc(AUTHORITIES)
        yield world


def connect_as(world: World, user: str) -> None:
    world.settings = replace(world.settings, user=user)


def sensed(world: World) -> int:
    return sense.inquire_depth(world.start(RULES), world.settings)[0]


def outcomes(world: World, *, dry_run: bool) -> dict[str, int]:
    """Run the handler on the demo's rules to its end; return how many messages had each outcome."""
    execution = world.plan(RULES, dry_run=dry_run)
    if not dry_run:
        result = make_pass(execution)
        while result.next_pass_at is not None:
            world.clock.now = result.next_pass_at
            result = make_pass(execution)
    settle(execution)
    counted: dict[str, int] = {}
    for outcome in world.outcomes(execution.run).values():
        counted[outcome] = counted.get(outcome, 0) + 1
    return counted


def test_the_user_who_senses_sees_the_depth_and_cannot_browse(world: World) -> None:
    connect_as(world, SENSE)
    run = world.start(RULES)

    assert sense.inquire_depth(run, world.settings)[0] == 71
    with pytest.raises(QueueManagerError) as refused:
        world.snapshot(run)
    assert str(refused.value) == (
        f"MQOPEN of queue {DLQ} failed: MQRC_NOT_AUTHORIZED (2035) [MQDLQ-100]"
    )


def test_the_user_of_a_dry_run_sees_everything_and_cannot_execute(world: World) -> None:
    connect_as(world, DRY)

    assert outcomes(world, dry_run=True) == PREVIEW
    with pytest.raises(QueueManagerError) as refused:
        make_pass(world.plan(RULES))
    assert str(refused.value) == (
        f"MQOPEN of queue {STATE} failed: MQRC_NOT_AUTHORIZED (2035) [MQDLQ-100]"
    )


def test_the_user_who_executes_handles_the_whole_queue(world: World) -> None:
    connect_as(world, EXECUTE)

    assert outcomes(world, dry_run=False) == OUTCOMES


def authorities(world: World) -> dict[str, set[str]]:
    """Return what the connected user may do with each queue, by opening it for each in turn."""
    found: dict[str, set[str]] = {}
    with world.connect() as queue_manager:
        constants = queue_manager.client.CMQC
        for queue in QUEUES:
            for authority, names in OPTIONS.items():
                options = sum(getattr(constants, f"MQOO_{name}") for name in names)
                if _opens(queue_manager, queue, options):
                    found.setdefault(queue, set()).add(authority)
    return found


def _opens(queue_manager: QueueManager, queue: str, options: int) -> bool:
    try:
        queue_manager.close(queue_manager.open(queue, options))
    except QueueManagerError as error:
        if error.reason != NOT_AUTHORIZED:
            raise
        return False
    return True


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_each_user_can_open_only_the_queues_that_the_stage_needs(world: World, user: str) -> None:
    connect_as(world, user)

    assert authorities(world) == AUTHORITIES_BY_USER[user]


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_each_user_has_only_connect_and_inq_on_the_queue_manager(world: World, user: str) -> None:
    """ALTUSR in particular is not granted: its owner may act as any user."""
    records = embedded_mq.run_mqsc("QM1", f"DISPLAY AUTHREC OBJTYPE(QMGR) PRINCIPAL('{user}')")

    assert world.runs == 0
    assert records == [
        f"AUTHREC PROFILE(QM1) OBJTYPE(QMGR) PRINCIPAL({user}) AUTHLIST(CONNECT INQ)"
    ]


NEEDED = [
    *((user, "QMGR", "", word) for user in AUTHORITIES_BY_USER for word in ("CONNECT", "INQ")),
    *(
        (user, "QUEUE", queue, word)
        for user, queues in AUTHORITIES_BY_USER.items()
        for queue, words in queues.items()
        for word in sorted(words)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("user", "kind", "queue", "word"), NEEDED)
def test_a_stage_fails_without_any_one_of_its_authorities(
    world: World, user: str, kind: str, queue: str, word: str
) -> None:
    """Without any one of the user's authorities, the stage does not reach its result."""
    stages: dict[str, tuple[Callable[[World], object], object]] = {
        SENSE: (sensed, 71),
        DRY: (partial(outcomes, dry_run=True), PREVIEW),
        EXECUTE: (partial(outcomes, dry_run=False), OUTCOMES),
    }
    stage, expected = stages[user]
    profile = f"PROFILE({queue})" if queue else ""
    world.mqsc(f"SET AUTHREC {profile} OBJTYPE({kind}) PRINCIPAL('{user}') AUTHRMV({word})")
    connect_as(world, user)

    reached: object = None
    try:
        reached = stage(world)
    except QueueManagerError as error:
        if error.reason != NOT_AUTHORIZED:
            raise

    assert reached != expected
