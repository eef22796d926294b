"""In every world, controls only delay messages: none is lost, none is twice, and limits are kept.

Targets return messages or are closed, messages arrive, and calls fail. Each run's account must add
up and agree with the queues. In the end every message is where the model says, after as many round
trips. MQDLQ_WORLDS says how many worlds are tried.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DLH_LENGTH
from mqdlq.model import Outcome
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import Execution, PassResult, make_pass, settle
from tests.faults.recorded_moves import check_budget, check_ramps, check_rate, read_moves
from tests.faults.targets import bare, react
from tests.property.controlled_worlds import (
    BURST,
    BYTES_PER_SECOND,
    CONTROLS,
    DEFINITIONS,
    EVENTS,
    GROUP,
    IN_FLIGHT,
    LARGE,
    LETTERS,
    RATE,
    SMALL,
    TARGETS,
    WINDOW_BEGINS,
    WINDOW_LASTS,
    Event,
    Letter,
    find_end,
    limit_of,
    returns_of,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

WORLDS = int(os.environ.get("MQDLQ_WORLDS", "3"))
QUEUES = ("DLQ", "ACCEPTED", "PARKED", *TARGETS)
RULES = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(2)"
MOST_PASSES, MOST_RUNS = 150, 60
IN_GROUP, LAST_IN_GROUP = 8, 16
"""MQMF_MSG_IN_GROUP and MQMF_LAST_MSG_IN_GROUP"""

Entry = tuple[bytes, int]
"""A body, and how often its message has come back."""


@pytest.fixture(name="world", scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory, definitions=DEFINITIONS)
        with world.ledger:
            yield world
    embedded_mq.faults.set("")


@settings(
    max_examples=WORLDS,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    letters=st.lists(LETTERS, min_size=1, max_size=8),
    controls=CONTROLS,
    events=EVENTS,
    moves=st.tuples(st.sampled_from(["pymqi", "ibmmq"]), st.sampled_from([1, 4])),
)
def test_controls_lose_double_and_reorder_nothing_in_random_worlds(
    world: World,
    letters: list[Letter],
    controls: dict[str, Any],
    events: list[Event],
    moves: tuple[str, int],
) -> None:
    client, world.connections = moves
    world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
    ControlledWorld(world, letters, controls, events).run()


class ControlledWorld:
    """A handler with controls, and targets that react to its moves."""

    def __init__(
        self, world: World, letters: list[Letter], controls: dict[str, Any], events: list[Event]
    ) -> None:
        embedded_mq.faults.set("")
        world.clear(*QUEUES, "MQDLQ.STATE")
        world.clock.sleep(3 * 3600)  # ramps are forgotten, and rates are full
        self.world, self.controls, self.number = world, controls, world.runs
        self.letters: dict[bytes, Letter] = {}
        self.events = iter(events)
        self.runs: list[str] = []
        self.lengths: dict[int, int] = {}
        self.groups: list[list[bytes]] = []
        self.arrived: dict[str, list[Entry]] = {queue: [] for queue in TARGETS}
        for letter in letters:
            self._put(letter)

    def _put(self, letter: Letter) -> None:
        """Put a dead letter, or those of a group, the last one first."""
        first = len(self.letters)
        bodies = [
            (b"%d.%02d" % (self.number, first + number)).ljust(letter.length)
            for number in range(letter.group)
        ]
        self.groups.append(bodies)
        for body in bodies:
            self.letters[body] = letter
        fields: dict[str, Any] = {"CorrelId": bytes([letter.key]) * 24}
        for seq, body in reversed([*enumerate(bodies, start=1)]):
            if letter.group > 1:
                flags = IN_GROUP | (LAST_IN_GROUP if seq == letter.group else 0)
                fields |= {"GroupId": bodies[0][:24].ljust(24), "MsgSeqNumber": seq}
                fields |= {"MsgFlags": flags}
            self.world.dead_letter(body, dest_q=letter.target, reason=letter.reason, **fields)

    def run(self) -> None:
        """Make runs until every message is where it must be in the end."""
        ends: dict[bytes, tuple[str, int]] = {}
        while self.places() != ends:
            assert len(self.runs) < MOST_RUNS, f"{self.places()} after {MOST_RUNS} runs"
            self._make_run()
            ends = {body: find_end(one, self.controls) for body, one in self.letters.items()}
        self.events = iter(())
        self._make_run()  # which moves nothing any more
        assert self.places() == ends

    def places(self) -> dict[bytes, tuple[str, int]]:
        """Return where each message is, and how often it has come back."""
        found: dict[bytes, tuple[str, int]] = {}
        for queue in QUEUES:
            for body, returned in self._entries(queue):
                assert body not in found, f"{body!r} is twice on the queues"
                found[body] = queue, returned
        assert found.keys() == self.letters.keys(), "messages are lost"
        return found

    def _entries(self, queue: str) -> list[Entry]:
        return [(bare(body), md.Feedback) for md, body in self.world.messages(queue)]

    def _make_run(self) -> None:
        execution = self.world.plan(RULES, **self.controls)
        self.runs.append(execution.run.run_id)
        listed = self._entries("DLQ")
        ids = self.world.ledger.messages.of_run(execution.run.run_id)
        for message, (body, _) in zip(ids, listed, strict=True):
            self.lengths[message.message_id] = len(body)
        begun = {queue: len(entries) for queue, entries in self.arrived.items()}
        for _ in range(MOST_PASSES):
            result = self._make_pass(execution)
            if result.next_pass_at is None:
                break
            self.world.clock.now = max(self.world.clock.now, result.next_pass_at)
        else:
            raise AssertionError(f"a run is not at its end after {MOST_PASSES} passes")
        self._check_account(listed, settle(execution))
        self._check_limits()
        for queue, number in begun.items():
            self._check_order(listed, queue, self.arrived[queue][number:])

    def _make_pass(self, execution: Execution) -> PassResult:
        """Make a pass as a task does, and let the targets react."""
        event = next(self.events, Event())
        for queue in TARGETS:
            put = "DISABLED" if queue in event.closed else "ENABLED"
            length = SMALL if queue in event.small else LARGE
            self.world.mqsc(f"ALTER QLOCAL({queue}) PUT({put}) MAXMSGL({length})")
        if event.arrival is not None:
            self._put(event.arrival)
        result = None
        for fault in [*event.faults, ""]:
            embedded_mq.faults.set(fault)
            try:
                result = make_pass(execution)
                break
            except QueueManagerError:
                continue
            finally:
                embedded_mq.faults.set("")
        assert result is not None
        self._check_groups()
        for queue in TARGETS:
            self._observe(queue)
        return result

    def _check_groups(self) -> None:
        """No message of a group is on the queue without the others."""
        places = self.places()
        for bodies in self.groups if self._has("groups") else ():
            assert len({places[body][0] == "DLQ" for body in bodies}) == 1, "a group is divided"

    def _has(self, key: str) -> bool:
        """Whether the handler has this key in `sequences`."""
        return key in self.controls.get("sequences", {})

    def _observe(self, queue: str) -> None:
        """Take note of the messages that have arrived at a target, and let it react."""
        entries = self._entries(queue)
        self.arrived[queue] += [one for one in entries if one not in self.arrived[queue]]
        if queue == "B" and "in_flight" in str(self.controls):
            assert len(entries) <= IN_FLIGHT
        self.world.mqsc(f"ALTER QLOCAL({queue}) PUT(ENABLED) MAXMSGL({LARGE})")
        react(self.world, self._is_returned, takes=1 if queue == "B" else 99, source=queue)

    def _is_returned(self, body: bytes, returned: int) -> bool:
        return returned < returns_of(self.letters[body], self.controls)

    def _check_account(self, listed: list[Entry], booked: Counter[Outcome]) -> None:
        """Compare the outcomes of a run with the queues."""
        moved = set(listed) - set(self._entries("DLQ"))
        limit = limit_of(self.controls)
        over = {one for one in listed if limit is not None and one[1] >= limit}
        assert booked.total() == len(listed)
        assert booked[Outcome.DELIVERED] == len(moved - over)
        assert booked[Outcome.FORWARDED] == len(moved & over)
        assert booked[Outcome.QUARANTINED] == len(over - moved)
        if "forward" not in str(self.controls.get("loops")):
            assert not moved & over

    def _check_limits(self) -> None:
        """Compare all moves with the limits."""
        ledger, limits = self.world.ledger, self.controls.get("limits", {})
        moves = read_moves(ledger, self.runs)
        check_ramps(ledger, self.runs, group=GROUP if self._has("groups") else 1)
        if "messages_per_run" in limits:
            check_budget(moves, limits["messages_per_run"])
        to_a = [move for move in moves if move.target_q == "A"]
        items = str(limits.get("destinations"))
        if "messages_per_second" in items:
            check_rate(to_a, [1] * len(to_a), RATE, BURST)
        if "closed" in items:
            closed = [move for move in to_a if move.at.minute % WINDOW_BEGINS < WINDOW_LASTS]
            assert not closed, f"{closed} moved in a closed window"
        if "bytes_per_second" in limits:
            lengths = [
                self.lengths[move.message_id] + (DLH_LENGTH if move.target_q == "PARKED" else 0)
                for move in moves
            ]
            check_rate(moves, lengths, BYTES_PER_SECOND, BYTES_PER_SECOND)

    def _in_order(self, listed: list[Entry]) -> list[Entry]:
        """Return messages in the order in which they move: a group as a whole, at its first."""
        if not self._has("groups"):
            return listed
        together = {body: bodies for bodies in self.groups for body in bodies}
        entries = ((one, returned) for body, returned in listed for one in together[body])
        return list(dict.fromkeys(entries))

    def _check_order(self, listed: list[Entry], queue: str, arrived: list[Entry]) -> None:
        """Compare the order of each key: no message has overtaken an earlier one."""
        if not self._has("key"):
            return
        limit, left = limit_of(self.controls), set(self._entries("DLQ"))
        for key in (1, 2):
            line = [
                (body, returned)
                for body, returned in self._in_order(listed)
                if (self.letters[body].target, self.letters[body].key) == (queue, key)
                and (limit is None or returned < limit)
            ]
            came = [one for one in arrived if one in line]
            assert came == line[: len(came)], f"the key {key} to {queue} is out of order"
            assert not set(line[: len(came)]) & left
