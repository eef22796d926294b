"""A small model of the handler, and strategies that draw worlds for it and the handler.

The model knows nothing of units of work, ledgers, or crashes: one attempt for each message and
pass, RETRY values that add up, an IGNORE taken when it is reached, queues that take what fits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import strategies as st

from mqdlq.headers import DLH_LENGTH

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
    """A dead letter: where it was to go, why it did not, and how long its body is.

    One that is `bare` has no MQDLH: no rule may ever touch it.
    """

    dest_q: str
    reason: int
    length: int
    is_bare: bool = False


@dataclass(frozen=True)
class Meanwhile:
    """Events before a pass, and faults in it."""

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
    st.sampled_from([False, False, True]),
)
BY_NAME = st.tuples(
    st.sets(st.integers(0, 11), min_size=1, max_size=6),
    st.builds(
        Rule,
        action=st.sampled_from(["FWD", "FWD", "DISCARD", "IGNORE"]),
        retry=st.integers(1, 2),
        fwd_q=st.sampled_from(TARGETS),
        header=st.booleans(),
    ),
)
"""Which of the messages that remain are named, and the action that is given for them."""
CROWD = st.lists(
    st.builds(
        Letter,
        st.just(SMALL),
        st.just(2053),
        st.sampled_from([8] * 10 + [40, 250]),
        st.sampled_from([False] * 7 + [True]),
    ),
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
            if not letter.is_bare
            and rule.dest_q in {"", letter.dest_q}
            and rule.reason in {0, letter.reason}
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
        if step.action == "FWD" and step.header and not message.letter.is_bare:
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
            is_free = not message.outcome and message.owned_until <= now
            if is_free and not message.letter.is_bare:
                self.queues[RIVAL].append(message.body)
                message.outcome = "leased_by_run"
        self.queues[RIVAL] += self.strangers
        self.strangers = []

    def settle(self) -> list[str]:
        for message in self.messages:
            step = message.step()
            if not message.outcome and not message.steps:
                message.outcome = "unprocessable" if message.letter.is_bare else "unmatched"
            elif not message.outcome:
                message.outcome = "left_by_rule" if step else "exhausted"
        return [message.outcome for message in self.messages]

    def remaining(self) -> list[int]:
        """Return which of the run's messages are on the queue."""
        there = set(self.on_the_dlq())
        return [number for number, one in enumerate(self.messages) if one.body in there]

    def act_on(self, numbers: set[int], action: Rule) -> Counter[str]:
        """Do the given action to the messages with these numbers, as often as it says.

        All others stay, dead letters as well as bare messages. Returns the run's outcomes.
        """
        self.rules, there = [action], self.on_the_dlq()
        named = [self.messages[number] for number in sorted(numbers)]
        for message in named:
            message.steps, message.attempts, message.outcome = [action], [], ""
        for _ in range(action.retry):
            for message in named:
                if message.due():
                    self._try(message)
        self.settle()
        outcomes = Counter(message.outcome for message in named)
        return outcomes + Counter({"not_selected": len(there) - len(named)})

    def on_the_dlq(self) -> list[bytes]:
        gone = {"delivered", "forwarded", "discarded", "taken", "leased_by_run"}
        stay = [message.body for message in self.messages if message.outcome not in gone]
        return stay + self.strangers
