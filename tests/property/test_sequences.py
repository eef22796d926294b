"""Sequences keep their promises in random worlds, with puts that fail and connections that break.

Nothing is lost and nothing is moved twice. Messages with one key arrive at a queue in the order of
the dead-letter queue, over passes and runs. A group is at its destination as a whole, or not at
all. Without a key, a single pass keeps the order. MQDLQ_WORLDS says how many worlds are tried.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DLH_LENGTH
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import Execution, PassResult, make_pass, settle
from tests.support.world import World

pytestmark = pytest.mark.slow

WORLDS = int(os.environ.get("MQDLQ_WORLDS", "6"))
OPEN, SHUT, SMALL, PARKED = QUEUES = ("OPEN", "SHUT", "SMALL.BASE", "PARKED")
DEFINITIONS = """
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(DLQ)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
DEFINE QLOCAL(OPEN)
DEFINE QLOCAL(SHUT)
DEFINE QLOCAL(SMALL.BASE) MAXMSGL(200)
DEFINE QALIAS(SMALL) TARGET(SMALL.BASE)
DEFINE QLOCAL(PARKED)
"""
TABLES = (
    "ACTION(RETRY) RETRY(3)",
    "ACTION(RETRY) RETRY(1)\nACTION(FWD) FWDQ(PARKED) HEADER(NO) RETRY(2)",
)
SETTINGS = settings(
    max_examples=WORLDS,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Letter:
    """A dead letter; `group` numbers its group, None if it has none."""

    key: str
    dest_q: str
    length: int = 8
    group: int | None = None
    seq: int = 1
    is_last: bool = False


SINGLES = st.builds(
    Letter,
    key=st.sampled_from(["", "a", "a", "a", "b"]),
    dest_q=st.sampled_from([*["OPEN"] * 4, "SHUT", "SMALL"]),
    length=st.sampled_from([8, 8, 8, 250]),
)
FAULTS = (
    st.builds(
        "MQPUT1[{}]:{}:2030:before".format,
        st.sampled_from([OPEN, OPEN, "SMALL"]),
        st.integers(1, 9),
    )
    | st.builds("MQCMIT:{}:2003:before".format, st.integers(1, 6))
    | st.builds("MQCMIT:{}:2009:{}".format, st.integers(1, 6), st.sampled_from(["before", "after"]))
)
PASSES = st.lists(
    st.tuples(st.booleans(), st.lists(FAULTS, min_size=1, max_size=4)), min_size=1, max_size=4
)
"""For each pass, whether SHUT takes messages, and the faults."""
CLIENTS = st.sampled_from(["pymqi", "ibmmq"])


@st.composite
def mixed_letters(draw: st.DrawFn) -> list[Letter]:
    """Draw letters, among them groups, some of which lack a message, in any order."""
    letters = draw(st.lists(SINGLES, min_size=3, max_size=9))
    for number, single in enumerate(draw(st.lists(SINGLES, max_size=2))):
        size, lacking = draw(st.integers(1, 3)), draw(st.sampled_from([0, 0, 0, 1, 2]))
        letters += [
            Letter(single.key, single.dest_q, single.length, number, seq, seq == size)
            for seq in range(1, size + 1)
            if seq != lacking
        ]
    return list(draw(st.permutations(letters)))


@pytest.fixture(name="world", scope="module", params=[1, 4], ids="{} connections".format)
def _world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory, definitions=DEFINITIONS, connections=request.param)
        with world.ledger:
            yield world
    embedded_mq.faults.set("")


def put_letters(world: World, client: str, letters: Sequence[Letter]) -> list[bytes]:
    """Begin a world with these letters; return their bodies."""
    embedded_mq.faults.set("")
    world.clear("DLQ", "MQDLQ.STATE", *QUEUES)
    world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
    bodies = [b"%d.%d" % (world.runs, n) + b" " * one.length for n, one in enumerate(letters)]
    for body, letter in zip(bodies, letters, strict=True):
        fields: dict[str, Any] = {"CorrelId": letter.key.encode().ljust(24, b"\0")}
        if letter.group is not None:
            group = b"group %d of %d" % (letter.group, world.runs)
            flags = 8 | (16 if letter.is_last else 0)
            fields |= {"GroupId": group.ljust(24), "MsgSeqNumber": letter.seq, "MsgFlags": flags}
        world.dead_letter(body, dest_q=letter.dest_q, **fields)
    return bodies


def make_faulty_pass(execution: Execution, faults: Sequence[str]) -> PassResult:
    """Make a pass as a task does: it is made again if the connection breaks."""
    embedded_mq.faults.set(",".join(faults))
    try:
        return make_pass(execution)
    except QueueManagerError:
        embedded_mq.faults.set("")
        return make_pass(execution)
    finally:
        embedded_mq.faults.set("")


def run_to_the_end(
    world: World, execution: Execution, passes: Sequence[tuple[bool, list[str]]]
) -> None:
    events = iter(passes)
    result: PassResult | None = None
    while result is None or result.next_pass_at is not None:
        if result is not None and result.next_pass_at is not None:
            world.clock.now = result.next_pass_at
        is_open, faults = next(events, (False, []))
        world.mqsc(f"ALTER QLOCAL(SHUT) PUT({'ENABLED' if is_open else 'DISABLED'})")
        result = make_faulty_pass(execution, faults)
    settle(execution)


def arrived(world: World, queue: str) -> list[bytes]:
    return [b[DLH_LENGTH:] if b.startswith(b"DLH ") else b for b in world.bodies(queue)]


def assert_nothing_is_lost_or_twice(world: World, bodies: Sequence[bytes]) -> None:
    assert sum((Counter(arrived(world, q)) for q in ("DLQ", *QUEUES)), Counter()) == Counter(bodies)


@SETTINGS
@given(letters=mixed_letters(), passes=PASSES, table=st.sampled_from(TABLES), client=CLIENTS)
def test_messages_with_one_key_arrive_in_order_and_groups_as_a_whole(
    world: World,
    letters: list[Letter],
    passes: list[tuple[bool, list[str]]],
    table: str,
    client: str,
) -> None:
    bodies = put_letters(world, client, letters)
    rules = f"RETRYINT(60) WAIT(NO)\n{table}"
    keys: dict[str, Any] = {"sequences": {"groups": "all_or_nothing", "key": "MQMD.CorrelId"}}

    run_to_the_end(world, world.plan(rules, **keys), passes)
    run_to_the_end(world, world.plan(rules, **keys), [(True, [])])

    assert_nothing_is_lost_or_twice(world, bodies)
    places: dict[bytes, tuple[int, int]] = {}
    first: dict[int, int] = {}
    for position, (body, letter) in enumerate(zip(bodies, letters, strict=True)):
        if letter.group is not None:
            position = first.setdefault(letter.group, position)  # noqa: PLW2901
        places[body] = position, letter.seq
    of_body = dict(zip(bodies, letters, strict=True))
    for queue in QUEUES:
        by_key = defaultdict[str, list[bytes]](list)
        for body in arrived(world, queue):
            by_key[of_body[body].key].append(body)
        by_key.pop("", None)
        for key, found in by_key.items():
            assert found == sorted(found, key=places.__getitem__), (queue, key)
    for number in first:
        members = {body for body, letter in of_body.items() if letter.group == number}
        holders = [queue for queue in ("DLQ", *QUEUES) if members & {*arrived(world, queue)}]
        assert len(holders) == 1, number
        seqs = sorted(letter.seq for letter in letters if letter.group == number)
        is_whole = seqs == [*range(1, len(seqs) + 1)] and any(
            letter.is_last for letter in letters if letter.group == number
        )
        assert is_whole or holders == ["DLQ"], number


@SETTINGS
@given(letters=st.lists(SINGLES, min_size=3, max_size=12), passes=PASSES, client=CLIENTS)
def test_without_a_key_one_pass_keeps_the_order_of_each_destination(
    world: World, letters: list[Letter], passes: list[tuple[bool, list[str]]], client: str
) -> None:
    bodies = put_letters(world, client, letters)
    world.mqsc("ALTER QLOCAL(SHUT) PUT(ENABLED)")
    execution = world.plan("RETRYINT(60) WAIT(NO)\nACTION(RETRY) RETRY(2)")

    make_faulty_pass(execution, passes[0][1])

    assert_nothing_is_lost_or_twice(world, bodies)
    for queue in QUEUES:
        found = arrived(world, queue)
        assert found == sorted(found, key=bodies.index), queue
    settle(execution)
