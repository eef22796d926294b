"""In every world the handler does what a small model of it does, and the account adds up.

The model knows nothing of units of work, ledgers, or crashes: one attempt for each message and
pass, RETRY values that add up, an IGNORE taken when it is reached, queues that take what fits. The
handler must come to the same queues in the same order, the same attempts at the same times and the
same outcomes, whatever is broken while it works. MQDLQ_WORLDS says how many worlds are tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqdlq.errors import QueueManagerError
from mqdlq.execute import PassResult, make_pass, settle
from mqdlq.headers import DLH_LENGTH
from mqdlq.model import AttemptState
from mqdlq.mqi import embedded
from mqdlq.mqi.connect import ConnectionSettings
from world import World

WORLDS = int(os.environ.get("MQDLQ_WORLDS", "25"))
RETRYINT, GRACE = 60, 300
OPEN, ROOM, SHUT, SMALL, MISSING, RIVAL = "OPEN", "ROOM", "SHUT", "SMALL", "MISSING", "RIVAL"
ROOM_FOR, SMALL_LENGTH = 3, 200
DEFINITIONS = f"""
ALTER QMGR DEADQ(DLQ)
DEFINE QLOCAL(DLQ)
DEFINE QLOCAL(MQDLQ.STATE) DEFPSIST(YES)
DEFINE QLOCAL({OPEN})
DEFINE QLOCAL({ROOM}) MAXDEPTH({ROOM_FOR})
DEFINE QLOCAL({SHUT})
DEFINE QLOCAL({SMALL}.BASE) MAXMSGL({SMALL_LENGTH})
DEFINE QALIAS({SMALL}) TARGET({SMALL}.BASE)
DEFINE QLOCAL({RIVAL})
"""
QUEUES = (OPEN, ROOM, SHUT, SMALL, RIVAL)
TARGETS = (OPEN, ROOM, SHUT, SMALL, MISSING)


# A world, as it is drawn


@dataclass(frozen=True)
class Rule:
    """A rule that matches by destination and reason, or by neither."""

    action: str
    dest_q: str = ""
    reason: int = 0
    retry: int = 1
    fwd_q: str = OPEN
    header: bool = True

    def text(self) -> str:
        words = [f"DESTQ({self.dest_q})"] if self.dest_q else []
        words += [f"REASON({self.reason})"] if self.reason else []
        words.append(f"ACTION({self.action}) RETRY({self.retry})")
        if self.action == "FWD":
            words.append(f"FWDQ({self.fwd_q}) HEADER({'YES' if self.header else 'NO'})")
        return " ".join(words)


@dataclass(frozen=True)
class Letter:
    """A dead letter: where it was to go, why it did not, and how long its body is."""

    dest_q: str
    reason: int
    length: int


@dataclass(frozen=True)
class Meanwhile:
    """What happens before a pass, and what breaks in it."""

    shut: bool = True
    drain: bool = False
    arrival: bool = False
    taken: int | None = None
    rival: bool = False
    faults: tuple[str, ...] = ()


RULES = st.builds(
    Rule,
    action=st.sampled_from(["RETRY"] * 4 + ["FWD"] * 3 + ["DISCARD", "IGNORE"]),
    dest_q=st.sampled_from([""] * 5 + list(TARGETS)),
    reason=st.sampled_from([0, 0, 0, 2053, 2085]),
    retry=st.integers(1, 3),
    fwd_q=st.sampled_from(TARGETS),
    header=st.booleans(),
)
LETTERS = st.builds(
    Letter,
    st.sampled_from([SMALL, SMALL, *TARGETS]),
    st.sampled_from([2053, 2085]),
    st.sampled_from([8, 8, 40, 250]),
)
CROWD = st.lists(
    st.builds(Letter, st.just(SMALL), st.just(2053), st.sampled_from([8] * 10 + [40, 250])),
    min_size=10,
    max_size=20,
)
"""Enough for one queue that units of work grow, and some that do not fit and take them apart."""
CROWDED = st.tuples(
    st.builds(
        lambda action, fwd_q, retry: [Rule(action, retry=retry, fwd_q=fwd_q, header=False)],
        st.sampled_from(["RETRY", "FWD"]),
        st.sampled_from([OPEN, SMALL]),
        st.integers(1, 3),
    ),
    CROWD,
)
ASSORTED = st.tuples(
    st.lists(RULES, min_size=1, max_size=4, unique=True),
    st.lists(LETTERS, min_size=1, max_size=12),
)
FAULTS = st.builds(
    "{}:{}:{}".format,
    st.sampled_from(["MQCMIT", "MQPUT1", "MQGET[DLQ]", "MQPUT1[MQDLQ.STATE]"]),
    st.integers(1, 9),
    st.sampled_from(["2009:before", "2009:after"]),
) | st.builds("MQCMIT:{}:2003:before".format, st.integers(1, 5))
MEANWHILE = st.builds(
    Meanwhile,
    shut=st.booleans(),
    drain=st.booleans(),
    arrival=st.booleans(),
    taken=st.none() | st.integers(0, 9),
    rival=st.sampled_from([False, False, True]),
    faults=st.lists(FAULTS, min_size=1, max_size=2).map(tuple),
)


# The model


@dataclass
class Message:
    """A message of the run: the attempts made on it, and how it ended."""

    body: bytes
    letter: Letter
    steps: list[Rule]
    attempts: list[tuple[int, int, bool]] = field(default_factory=list)
    outcome: str = ""
    owned_until: int = 0

    def step(self) -> Rule | None:
        budget = 0
        for rule in self.steps:
            budget += rule.retry
            if rule.action == "IGNORE" or budget > len(self.attempts):
                return rule
        return None

    def due(self) -> bool:
        step = self.step()
        return not self.outcome and step is not None and step.action != "IGNORE"


class Model:
    """The handler as a page of the manual."""

    def __init__(self, rules: list[Rule], letters: list[tuple[bytes, Letter]]) -> None:
        self.rules = rules
        self.messages = [Message(body, letter, self._matching(letter)) for body, letter in letters]
        self.strangers: list[bytes] = []
        self.queues: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
        self.is_shut = True
        self.passes = 0

    def _matching(self, letter: Letter) -> list[Rule]:
        return [
            rule
            for rule in self.rules
            if rule.dest_q in {"", letter.dest_q} and rule.reason in {0, letter.reason}
        ]

    def make_pass(self) -> None:
        for message in self.messages:
            if message.due():
                self._try(message)
        self.passes += 1
        for message in self.messages:
            next_pass = self.passes * (RETRYINT + 1)
            message.owned_until = next_pass + GRACE if message.due() else 0

    def _try(self, message: Message) -> None:
        step = message.step()
        assert step is not None
        at = self.passes * (RETRYINT + 1)
        target = message.letter.dest_q if step.action == "RETRY" else step.fwd_q
        length = len(message.body)
        if step.action == "FWD" and step.header:
            length += DLH_LENGTH
        moved = step.action == "DISCARD" or self._takes(target, length)
        message.attempts.append((at, self.rules.index(step) + 1, moved))
        if not moved:
            return
        ends = {"RETRY": "delivered", "FWD": "forwarded", "DISCARD": "discarded"}
        message.outcome = ends[step.action]
        if step.action != "DISCARD":
            self.queues[target].append(message.body)

    def _takes(self, queue: str, length: int) -> bool:
        is_closed = queue == MISSING or (queue == SHUT and self.is_shut)
        is_full = queue == ROOM and len(self.queues[ROOM]) >= ROOM_FOR
        return not (is_closed or is_full or (queue == SMALL and length > SMALL_LENGTH))

    def rival(self) -> None:
        """Another run forwards all that this one has not waited to try again lately."""
        now = self.passes * (RETRYINT + 1)
        for message in self.messages:
            if not message.outcome and message.owned_until <= now:
                self.queues[RIVAL].append(message.body)
                message.outcome = "owned_by_run"
        self.queues[RIVAL] += self.strangers
        self.strangers = []

    def settle(self) -> list[str]:
        for message in self.messages:
            step = message.step()
            if not message.outcome and not message.steps:
                message.outcome = "left_no_rule"
            elif not message.outcome:
                message.outcome = "left_by_rule" if step else "exhausted"
        return [message.outcome for message in self.messages]

    def on_the_dlq(self) -> list[bytes]:
        gone = {"delivered", "forwarded", "discarded", "taken", "owned_by_run"}
        stay = [message.body for message in self.messages if message.outcome not in gone]
        return stay + self.strangers


# The two side by side


@pytest.fixture(name="world", scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("world")
        patch.setenv("MQDLQ_HOME", str(directory))
        world = World(directory, definitions=DEFINITIONS)
        with world.ledger:
            yield world
    embedded.faults.set("")


@settings(
    max_examples=WORLDS,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    table_and_letters=ASSORTED | CROWDED,
    meanwhile=st.lists(MEANWHILE, min_size=1, max_size=5),
    client=st.sampled_from(["pymqi", "ibmmq"]),
    unit=st.sampled_from([1, 3, 128, 128]),
)
def test_the_handler_does_what_the_model_does(
    world: World,
    table_and_letters: tuple[list[Rule], list[Letter]],
    meanwhile: list[Meanwhile],
    client: str,
    unit: int,
) -> None:
    rules, letters = table_and_letters
    both = Both(world, rules, letters, client, unit)

    both.run(meanwhile)

    assert both.handler_attempts() == [message.attempts for message in both.model.messages]
    assert both.handler_outcomes() == both.model.settle()
    for queue in QUEUES:  # in the order of the snapshot, pass by pass
        assert both.bodies(queue) == both.model.queues[queue], queue
    assert both.bodies("DLQ") == both.model.on_the_dlq()


class Both:
    """The handler and its model in the same world."""

    def __init__(
        self, world: World, rules: list[Rule], letters: list[Letter], client: str, unit: int
    ) -> None:
        self.world, self.number = world, world.runs
        for queue in ("DLQ", "MQDLQ.STATE", *QUEUES):
            # What an alias takes is not known before the first put: units are taken apart by it.
            world.mqsc(f"CLEAR QLOCAL({queue}{'.BASE' if queue == SMALL else ''})")
        world.mqsc(f"ALTER QLOCAL({SHUT}) PUT(DISABLED)")
        world.settings = ConnectionSettings("QM1", transport="embedded", client=client)
        embedded.faults.set("")
        bodies = [self._body(n, letter.length) for n, letter in enumerate(letters)]
        self.model = Model(rules, list(zip(bodies, letters, strict=True)))
        for body, letter in zip(bodies, letters, strict=True):
            world.dead_letter(body, dest_q=letter.dest_q, reason=letter.reason)
        table = [f"RETRYINT({RETRYINT}) WAIT(NO)", *(rule.text() for rule in rules)]
        self.started = world.clock.now
        self.execution = world.plan("\n".join(table), messages_in_a_unit=unit)

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
            embedded.faults.set(fault)
            try:
                return make_pass(self.execution)
            except QueueManagerError:
                continue
            finally:
                embedded.faults.set("")
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

    # What the handler came to

    def handler_attempts(self) -> list[list[tuple[int, int, bool]]]:
        run_id, ledger = self.execution.run.run_id, self.world.ledger
        found: dict[int, list[tuple[int, int, bool]]] = {
            message.message_id: [] for message in ledger.run_messages(run_id)
        }
        for attempt in ledger.attempts(run_id):
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
