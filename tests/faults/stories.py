"""Rounds of controls: runs that a control holds back, over a target that reacts, and a kill.

A story has as many passes and runs as it needs. Its target takes messages, returns them, or is
closed for a time. A child plays one of the runs, to the end of its account, and is killed in it.
Then the account must add up, the other runs must bring the story to the same end as without the
kill, and no move may exceed what the control allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mqdlq.ledger import Ledger
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import Execution, make_pass, settle
from tests.faults.recorded_moves import (
    RecordedMove,
    check_budget,
    check_ramps,
    check_rate,
    count_openings,
    read_moves,
)
from tests.faults.rounds import MOST_PASSES, Round
from tests.faults.targets import bare, react
from tests.support.world import World

RULES = "WAIT(NO) RETRYINT(60)\nACTION(RETRY) RETRY(9)"
QUEUES = ("DLQ", "PAYMENTS", "PARKED", "ACCEPTED")
ALWAYS = 99
MOST_RUNS = 40
"""So many are never needed; a state that no run can leave would need more."""

Check = Callable[["StoryRound", Sequence[RecordedMove]], None]


@dataclass(frozen=True)
class Story:
    """The controls of a handler, a target, and where all messages come in the end.

    The target returns every `each`-th message, `returns` times, and takes up to `takes` of the
    others after each pass; with None it leaves them on its queue. It is closed for `closed_for`
    from the begin. `trips` is how often all messages make a round trip before a child plays a run;
    the least one is drawn. `check` is called with all moves of the story.
    """

    keys: Mapping[str, Any]
    place: str = "PAYMENTS"
    returns: int = 0
    each: int = 1
    takes: int | None = None
    closed_for: timedelta = timedelta(0)
    trips: int = 0
    group: int = 0
    """How many messages have a GroupId in common; they arrive in reverse order."""
    begins: timedelta = timedelta(0)
    """How long after a full hour the story begins."""
    opens: int = 0
    """How often the breaker opens, at least."""
    check: Check | None = None
    trips_made: Callable[[int], int] = lambda _: 0
    """How often the nth message has made a round trip in the end."""


class StoryRound(Round):
    """Dead letters, and the runs of a handler with controls that move them."""

    def __init__(self, world: World, story: Story, messages: int, trips: int) -> None:
        super().__init__(world)
        self.story = story
        self._align_clock()
        self.bodies = [b"%d.%02d" % (world.runs, number) for number in range(messages)]
        for fields, body in self._arrange():
            world.dead_letter(body, **fields)
        self.opens_at = world.clock.now + story.closed_for
        world.mqsc(f"ALTER QLOCAL(PAYMENTS) PUT({'DISABLED' if story.closed_for else 'ENABLED'})")
        self.runs: list[str] = []
        for _ in range(trips):
            self._play(self._plan(), world.ledger)
        self.execution = self._plan()

    def _arrange(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the messages as they arrive, with the fields of their groups."""
        if not self.story.group:
            yield from (({}, body) for body in self.bodies)
            return
        for members in self._groups():
            group_id = members[0].ljust(24, b"\0")
            for seq, body in reversed([*enumerate(members, start=1)]):
                flags = IN_GROUP | (LAST_IN_GROUP if seq == len(members) else 0)
                yield {"GroupId": group_id, "MsgSeqNumber": seq, "MsgFlags": flags}, body

    def _groups(self) -> list[list[bytes]]:
        size = self.story.group
        return [self.bodies[first : first + size] for first in range(0, len(self.bodies), size)]

    def _align_clock(self) -> None:
        clock = self.world.clock
        hour = clock.now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        clock.now = hour + self.story.begins

    def _plan(self) -> Execution:
        execution = self.world.plan(RULES, **self.story.keys)
        self.runs.append(execution.run.run_id)
        return execution

    def attempt(self, ledger: Ledger) -> None:
        self._play(self.execution, ledger)

    def _play(self, execution: Execution, ledger: Ledger) -> None:
        """Make the passes of a run as they are due, let the target react, and settle the run."""
        execution = replace(execution, ledger=ledger)
        for _ in range(MOST_PASSES):
            result = make_pass(execution)
            self._react()
            if result.next_pass_at is None:
                break
            self.world.clock.now = max(self.world.clock.now, result.next_pass_at)
        else:
            raise AssertionError(f"a run is not at its end after {MOST_PASSES} passes")
        settle(execution)

    def _react(self) -> None:
        if self.world.clock.now >= self.opens_at:
            self.world.mqsc("ALTER QLOCAL(PAYMENTS) PUT(ENABLED)")
        if self.story.returns or self.story.takes is not None:
            react(self.world, self._is_returned, takes=self.story.takes)

    def _is_returned(self, body: bytes, returned: int) -> bool:
        is_one_of_them = self.bodies.index(body) % self.story.each == 0
        return is_one_of_them and returned < self.story.returns

    # Invariants

    def is_open(self) -> bool:
        return bool(self.world.ledger.attempts.intended("QM1", "DLQ"))

    def places(self) -> dict[bytes, tuple[str, int]]:
        """Return where each message is, and how often the target has returned it."""
        found: dict[bytes, tuple[str, int]] = {}
        for queue in QUEUES:
            for md, body in self.world.messages(queue):
                assert bare(body) not in found, f"{bare(body)!r} is twice on the queues"
                found[bare(body)] = queue, md.Feedback
        assert found.keys() == set(self.bodies), f"{set(self.bodies) - found.keys()} are lost"
        return found

    def check_what_is_known(self) -> None:
        idle = self.world.plan("ACTION(IGNORE)")
        make_pass(idle)
        settle(idle)
        assert not self.is_open(), "a unit of work is still unsettled"
        self._check_moves()

    def _check_moves(self) -> None:
        """Check that the ledger has each move, and that no control forbids one of them."""
        ledger, places = self.world.ledger, self.places()
        unknown = [a for run in self.runs for a in ledger.attempts.of_run(run)]
        assert not any(a.state is AttemptState.UNKNOWN for a in unknown), "an attempt is unknown"
        moves = read_moves(ledger, self.runs)
        made = sum(returned + (queue != "DLQ") for queue, returned in places.values())
        assert len(moves) == made, f"{made} moves were made, {len(moves)} are booked"
        check_ramps(ledger, self.runs)
        for members in self._groups() if self.story.group else ():
            found = {places[body] for body in members}
            assert len(found) == 1, f"a group is divided: {found}"
        if self.story.check is not None:
            self.story.check(self, moves)

    def finish(self, *, by_another_run: bool) -> None:
        self._react()  # so that messages of several round trips are on the queue together
        if by_another_run:
            self._play(self._plan(), self.world.ledger)
        self._play(self.execution, self.world.ledger)
        while not self._is_at_the_end():
            assert len(self.runs) < MOST_RUNS, f"{MOST_RUNS} runs do not end it: {self.places()}"
            self._play(self._plan(), self.world.ledger)

    def _is_at_the_end(self) -> bool:
        wanted = {
            body: (self.story.place, self.story.trips_made(number))
            for number, body in enumerate(self.bodies)
        }
        if self.places() != wanted:
            return False
        booked = self.world.ledger.outcomes.counts(self.runs[-1])
        return self.story.place != "DLQ" or booked[Outcome.QUARANTINED] == len(self.bodies)

    def check_the_end(self) -> None:
        """Each move is the outcome of one run, and the ledger has them all."""
        self._check_moves()
        booked: Counter[Outcome] = Counter()
        for run_id in self.runs:
            booked += self.world.ledger.outcomes.counts(run_id)
        trips = sum(returned for _, returned in self.places().values())
        messages = len(self.bodies)
        delivered = trips + (messages if self.story.place in {"PAYMENTS", "ACCEPTED"} else 0)
        assert booked[Outcome.DELIVERED] == delivered, f"{delivered} deliveries, booked {booked}"
        forwarded = messages if self.story.place == "PARKED" else 0
        assert booked[Outcome.FORWARDED] == forwarded, f"{forwarded} forwards, booked {booked}"
        opened = count_openings(self.world.ledger, self.runs)
        assert opened >= self.story.opens, f"the breaker opened only {opened} times"
        if not self.story.returns:
            ended = [bare(body) for body in self.world.bodies(self.story.place)]
            assert ended == self.bodies, f"{self.story.place} is out of order"

    def clear(self) -> None:
        super().clear()
        self.world.clear("ACCEPTED")


# -- the stories

IN_GROUP, LAST_IN_GROUP = 8, 16
"""MQMF_MSG_IN_GROUP and MQMF_LAST_MSG_IN_GROUP"""
K = 2
"""The limit of round trips."""
RATE, BURST = 0.05, 3
"""Twelve messages take the three minutes for which a pass waits at most."""
BYTES_PER_SECOND = 40
"""Messages of 4 to 6 bytes."""
IN_FLIGHT, TAKES = 4, 3
BUDGET = 7
WINDOW_BEGINS, WINDOW_ENDS = 15, 45
"""Minutes of each hour."""


def _keeps_its_rate(one: StoryRound, moves: Sequence[RecordedMove]) -> None:
    del one
    check_rate(moves, [1] * len(moves), RATE, BURST)


def _keeps_its_bytes(one: StoryRound, moves: Sequence[RecordedMove]) -> None:
    lengths = [len(one.bodies[0])] * len(moves)
    check_rate(moves, lengths, BYTES_PER_SECOND, BYTES_PER_SECOND)


def _keeps_its_window(one: StoryRound, moves: Sequence[RecordedMove]) -> None:
    del one
    for move in moves:
        is_closed = WINDOW_BEGINS <= move.at.minute < WINDOW_ENDS
        assert not is_closed, f"a message moved at {move.at}, in a closed window"


def _keeps_its_depth(one: StoryRound, moves: Sequence[RecordedMove]) -> None:
    del moves
    depth = one.world.depths("PAYMENTS")[0]
    assert depth <= IN_FLIGHT, f"{depth} messages are on PAYMENTS"


def _keeps_its_budget(one: StoryRound, moves: Sequence[RecordedMove]) -> None:
    del one
    check_budget(moves, BUDGET)


STORIES = {
    "loops, left": Story(
        {"loops": {"limit": K, "then": "leave"}},
        place="DLQ",
        returns=ALWAYS,
        trips=K,
        trips_made=lambda _: K,
    ),
    "loops, forwarded": Story(
        {"loops": {"limit": K, "then": {"forward": "PARKED"}}},
        place="PARKED",
        returns=ALWAYS,
        trips=K,
        trips_made=lambda _: K,
    ),
    "rate": Story(
        {
            "limits": {
                "destinations": [{"queue": "PAYMENTS", "messages_per_second": RATE, "burst": BURST}]
            }
        },
        check=_keeps_its_rate,
    ),
    "bytes": Story({"limits": {"bytes_per_second": BYTES_PER_SECOND}}, check=_keeps_its_bytes),
    "in flight": Story(
        {"limits": {"destinations": [{"queue": "PAYMENTS", "in_flight": IN_FLIGHT}]}},
        place="ACCEPTED",
        takes=TAKES,
        check=_keeps_its_depth,
    ),
    "budget": Story({"limits": {"messages_per_run": BUDGET}}, check=_keeps_its_budget),
    "groups": Story(
        {"sequences": {"groups": "all_or_nothing"}, "limits": {"messages_per_run": BUDGET}},
        group=3,
        check=_keeps_its_budget,
    ),
    "groups and loops": Story(
        {"sequences": {"groups": "all_or_nothing"}, "loops": {"limit": K}},
        place="DLQ",
        returns=ALWAYS,
        trips=K,
        trips_made=lambda _: K,
        group=2,
    ),
    "closed window": Story(
        {
            "limits": {
                "messages_per_second": 1,
                "destinations": [
                    {
                        "queue": "PAYMENTS",
                        "closed": [{"cron": f"{WINDOW_BEGINS} * * * *", "for": 1800}],
                    }
                ],
            }
        },
        begins=timedelta(minutes=WINDOW_BEGINS, seconds=-5),
        check=_keeps_its_window,
    ),
    "breaker over a closed queue": Story(
        {"breaker": {"failures": 3, "pause": 600, "watch": 60}},
        closed_for=timedelta(minutes=15),
        opens=2,
    ),
    "breaker over returns": Story(
        {
            "ramp": {"steps": [1, 4], "watch": 60, "forget_after": 7200},
            "breaker": {"returns": 1, "pause": 600},
            "loops": {"limit": K},
        },
        returns=1,
        each=10,
        opens=1,
        trips_made=lambda number: int(number % 10 == 0),
    ),
}
