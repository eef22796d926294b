"""In every world the handler does what a small model of it does, and the account adds up.

The handler must come to the same queues in the same order, the same attempts at the same times and
the same outcomes as the model, with any faults meanwhile. Then an action is given for some
messages by name. MQDLQ_WORLDS says how many worlds are tried.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import embedded_mq
from mqdlq.errors import QueueManagerError
from mqdlq.headers import DLH_LENGTH
from mqdlq.model import AttemptState
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import PassResult, make_pass, settle
from tests.property.handling_model import (
    ASSORTED,
    BY_NAME,
    CROWDED,
    DEFINITIONS,
    MEANWHILE,
    OPEN,
    QUEUES,
    RETRYINT,
    RIVAL,
    ROOM,
    SHUT,
    SMALL,
    Letter,
    Meanwhile,
    Model,
    Rule,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

WORLDS = int(os.environ.get("MQDLQ_WORLDS", "25"))


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
    table_and_letters=ASSORTED | CROWDED,
    meanwhile=st.lists(MEANWHILE, min_size=1, max_size=5),
    moves=st.tuples(
        st.sampled_from(["pymqi", "ibmmq"]),
        st.sampled_from([1, 3, 128, 128]),
        st.sampled_from([1, 4]),
    ),
    by_name=BY_NAME,
)
def test_the_handler_does_what_its_model_does_in_random_worlds(
    world: World,
    table_and_letters: tuple[list[Rule], list[Letter]],
    meanwhile: list[Meanwhile],
    moves: tuple[str, int, int],
    by_name: tuple[set[int], Rule],
) -> None:
    rules, letters = table_and_letters
    client, unit, world.connections = moves
    both = Both(world, rules, letters, client, unit)

    both.run(meanwhile)

    assert both.handler_attempts() == [message.attempts for message in both.model.messages]
    assert both.handler_outcomes() == both.model.settle()
    both.assert_queues_are_the_same()

    some, action = by_name
    if remaining := both.model.remaining():
        numbers = {remaining[one % len(remaining)] for one in some}
        assert both.act_on(numbers, action) == both.model.act_on(numbers, action)
        both.assert_queues_are_the_same()


class Both:
    """The handler and its model in the same world."""

    def __init__(
        self, world: World, rules: list[Rule], letters: list[Letter], client: str, unit: int
    ) -> None:
        self.world, self.number = world, world.runs
        for queue in ("DLQ", "MQDLQ.STATE", *QUEUES):
            # The target of an alias is not known before the first put: units are split by it.
            world.mqsc(f"CLEAR QLOCAL({queue}{'.BASE' if queue == SMALL else ''})")
        world.mqsc(f"ALTER QLOCAL({SHUT}) PUT(DISABLED)")
        world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
        embedded_mq.faults.set("")
        bodies = [self._body(n, letter.length) for n, letter in enumerate(letters)]
        self.model = Model(rules, list(zip(bodies, letters, strict=True)))
        for body, letter in zip(bodies, letters, strict=True):
            if letter.is_bare:
                world.put("DLQ", body)
            else:
                world.dead_letter(body, dest_q=letter.dest_q, reason=letter.reason)
        table = [f"RETRYINT({RETRYINT}) WAIT(NO)", *(rule.text() for rule in rules)]
        self.started = world.clock.now
        self.execution = world.plan("\n".join(table), max_messages_per_unit=unit)

    def _body(self, number: int, length: int = 8) -> bytes:
        return b"%d.%d" % (self.number, number) + b" " * (length - 8)

    def run(self, meanwhile: list[Meanwhile]) -> None:
        """Make passes to the end, with what happens before and in each of them."""
        events = iter(meanwhile)
        result: PassResult | None = None
        while result is None or result.next_pass_at is not None:
            event = next(events, Meanwhile(shut=self.model.is_shut))
            if result is not None and result.next_pass_at is not None:
                self.world.clock.now = result.next_pass_at
            self._let_happen(event)
            result = self._make_pass(event.faults)
            self.model.make_pass()
        settle(self.execution)

    def _make_pass(self, faults: tuple[str, ...]) -> PassResult:
        """Make a pass as a task does: what ends by an error is made again."""
        for fault in [*faults, ""]:
            embedded_mq.faults.set(fault)
            try:
                return make_pass(self.execution)
            except QueueManagerError:
                continue
            finally:
                embedded_mq.faults.set("")
        raise AssertionError("a pass without faults failed")

    def _let_happen(self, event: Meanwhile) -> None:
        self.model.is_shut = event.shut
        self.world.mqsc(f"ALTER QLOCAL({SHUT}) PUT({'DISABLED' if event.shut else 'ENABLED'})")
        if event.drain:
            self.world.mqsc(f"CLEAR QLOCAL({ROOM})")
            self.model.queues[ROOM].clear()
        if event.arrival:
            body = self._body(100 + self.model.passes)
            self.world.dead_letter(body, dest_q=OPEN)
            self.model.strangers.append(body)
        if event.taken is not None:
            self._take(event.taken)
        if event.rival:
            self._rival()

    def _take(self, number: int) -> None:
        """Somebody gets the nth message of the run, if it is still there."""
        left = [m for m in self.model.messages if m.body in self.model.on_the_dlq()]
        if number >= len(left):
            return
        with self.world.connect() as other:
            module, constants = other.client.module, other.client.CMQC
            queue = other.open("DLQ", constants.MQOO_INPUT_SHARED)
            (md,) = [
                md for md, body in self.world.messages("DLQ") if bare(body) == left[number].body
            ]
            gmo = module.GMO(Options=constants.MQGMO_NO_SYNCPOINT)
            queue.get(None, module.MD(MsgId=md.MsgId), gmo)
            queue.close()
        left[number].outcome = "taken"

    def _rival(self) -> None:
        other = self.world.plan(f"WAIT(NO)\nACTION(FWD) FWDQ({RIVAL})")
        assert make_pass(other).pending == 0
        settle(other)
        self.model.rival()

    def act_on(self, numbers: set[int], action: Rule) -> Counter[str]:
        """Do an action to messages by name; return the outcomes of that run."""
        listed = self.world.ledger.messages.of_run(self.execution.run.run_id)
        named = tuple(listed[number].message_key.hex() for number in sorted(numbers))
        table = f"RETRYINT({RETRYINT}) WAIT(NO)\nACTION(IGNORE)"
        execution = self.world.plan(table, message_keys=named, action=action.text())
        result = make_pass(execution)
        while result.next_pass_at is not None:
            self.world.clock.now = result.next_pass_at
            result = make_pass(execution)
        return Counter({str(outcome): n for outcome, n in settle(execution).items()})

    # The handler's result

    def assert_queues_are_the_same(self) -> None:
        for queue in QUEUES:  # in the order of the snapshot, pass by pass
            assert self.bodies(queue) == self.model.queues[queue], queue
        assert self.bodies("DLQ") == self.model.on_the_dlq()

    def handler_attempts(self) -> list[list[tuple[int, int, bool]]]:
        run_id, ledger = self.execution.run.run_id, self.world.ledger
        found: dict[int, list[tuple[int, int, bool]]] = {
            message.message_id: [] for message in ledger.messages.of_run(run_id)
        }
        for attempt in ledger.attempts.of_run(run_id):
            assert attempt.state not in {AttemptState.INTENDED, AttemptState.UNKNOWN}
            if attempt.state is not AttemptState.BACKED_OUT_WITH_BATCH:
                at = int((attempt.at - self.started).total_seconds())
                moved = attempt.state is AttemptState.CONFIRMED
                found[attempt.message_id].append((at, attempt.rule, moved))
        return list(found.values())

    def handler_outcomes(self) -> list[str]:
        return list(self.world.outcomes(self.execution.run).values())

    def bodies(self, queue: str) -> list[bytes]:
        return [bare(body) for body in self.world.bodies(queue)]


def bare(body: bytes) -> bytes:
    return body[DLH_LENGTH:] if body.startswith(b"DLH ") else body
