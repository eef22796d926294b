"""Check ramps, breakers and limits against the moves that the ledger has, after runs were killed.

Nothing here asks the product what it would allow: the rows of the ledger are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import RowMapping, select

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import Subject, attempts, messages, ramp_states
from mqdlq.model import Action, AttemptState, RampPhase


@dataclass(frozen=True)
class RecordedMove:
    """A move off the queue: when its unit of work committed, and when that was recorded."""

    run_id: str
    message_id: int
    target_q: str
    subject: Subject
    at: datetime
    seq: int


def read_moves(ledger: Ledger, run_ids: Collection[str]) -> list[RecordedMove]:
    """Return the moves of these runs that are known to be committed, in order.

    `at` is when the attempt was recorded as intended, just before MQCMIT; `seq` is that of the
    row that confirmed it.
    """
    intended: dict[tuple[str, int], datetime] = {}
    moves = []
    for row in _attempts(ledger, run_ids):
        key = row["unit"], row["message_id"]
        if row["state"] is AttemptState.INTENDED:
            intended[key] = row["at"]
        elif row["state"] is AttemptState.CONFIRMED and row["action"] is not Action.DISCARD:
            subject = _subject_of(row)
            found = row["run_id"], row["message_id"], row["target_q"], subject
            moves.append(RecordedMove(*found, intended[key], row["seq"]))
    return sorted(moves, key=lambda move: move.at)


def check_ramps(ledger: Ledger, run_ids: Collection[str], group: int = 1) -> None:
    """No step moved more than it allows, and an open breaker let nothing through.

    A step may move the rest of a group of `group` messages of which it allows one.
    """
    moved = defaultdict[Subject, list[RecordedMove]](list)
    for move in read_moves(ledger, run_ids):
        moved[move.subject].append(move)
    made = defaultdict[Subject, list[datetime]](list)
    for row in _attempts(ledger, run_ids):
        if row["state"] in {AttemptState.INTENDED, AttemptState.FAILED}:
            made[_subject_of(row)].append(row["at"])
    for subject, states in _states(ledger, run_ids).items():
        for number, state in enumerate(states):
            after, later = state["step_from"], states[number + 1 :]
            if state["phase"] is RampPhase.OPEN:
                _check_pause(made[subject], state)
            if state["phase"] is not RampPhase.MOVING:
                continue
            ends = [one["step_from"] for one in later if one["step_from"] > after]
            of_step = {
                move.message_id
                for move in moved[subject]
                if after < move.seq <= min(ends, default=move.seq)
            }
            assert len(of_step) < state["allowed"] + group, (
                f"step {state['step']} allows {state['allowed']}, moved {len(of_step)} messages"
            )


def _check_pause(made: Sequence[datetime], state: RowMapping) -> None:
    """No attempt was made while the breaker was open."""
    for at in made:
        in_pause = state["at"] < at < state["until"]
        assert not in_pause, f"an attempt at {at}, but the breaker is open until {state['until']}"


def check_rate(
    moves: Sequence[RecordedMove], amounts: Sequence[float], per_second: float, burst: float
) -> None:
    """Between any two moves, no more left than the rate and the burst allow."""
    for first in range(len(moves)):
        total = 0.0
        for last in range(first, len(moves)):
            total += amounts[last]
            time = moves[last].at - moves[first].at
            allowed = burst + per_second * time.total_seconds()
            assert total <= allowed + 1e-6, (
                f"{total:g} within {time}, but {per_second:g} a second and a burst of {burst:g}"
            )


def count_openings(ledger: Ledger, run_ids: Collection[str]) -> int:
    """Return how often these runs opened a breaker."""
    states = [one for some in _states(ledger, run_ids).values() for one in some]
    return sum(state["phase"] is RampPhase.OPEN for state in states)


def check_budget(moves: Sequence[RecordedMove], messages_per_run: int) -> None:
    """No run moved more messages than its budget."""
    for run_id, number in Counter(move.run_id for move in moves).items():
        assert number <= messages_per_run, f"{run_id} moved {number} messages"


def _states(ledger: Ledger, run_ids: Collection[str]) -> dict[Subject, list[RowMapping]]:
    """Return the states of ramps and breakers that these runs recorded, in order, by subject."""
    query = select(ramp_states).where(ramp_states.c.run_id.in_(run_ids)).order_by("seq")
    found = defaultdict[Subject, list[RowMapping]](list)
    with ledger.engine.connect() as connection:
        for row in connection.execute(query).mappings():
            found[_subject_of(row)].append(row)
    return found


def _subject_of(row: RowMapping) -> Subject:
    return Subject(*(row[name] for name in Subject._fields))


def _attempts(ledger: Ledger, run_ids: Collection[str]) -> Iterator[RowMapping]:
    """Yield the rows of attempts of these runs, in order, with the queue of their messages."""
    query = (
        select(attempts, messages.c.queue_manager, messages.c.queue)
        .join(messages, messages.c.message_id == attempts.c.message_id)
        .where(attempts.c.run_id.in_(run_ids))
        .order_by(attempts.c.seq, attempts.c.place)
    )
    with ledger.engine.connect() as connection:
        yield from connection.execute(query).mappings().all()
