"""Report how far the ramps and breakers of a run's causes are."""

from dataclasses import dataclass
from datetime import datetime

from mqdlq.controls.loops.round_trips import causes_of
from mqdlq.controls.settings import read_controls
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import RampState, Run, Subject
from mqdlq.model import RampPhase
from mqdlq.reasons import code_of, words_of
from mqdlq.words import place


@dataclass(frozen=True, slots=True)
class RampRow:
    """How far the ramp or the breaker of one cause and target is.

    `cause` and `why` are in words. `is_open`: the breaker has opened, and has not closed since.
    `until` is None if the state does not depend on the time.
    """

    cause_id: str
    cause: str
    target_q: str
    target_q_mgr: str
    phase: RampPhase
    is_open: bool
    why: str
    why_code: str
    until: datetime | None


def ramp_rows(run: Run | None, ledger: Ledger, settled_at: datetime | None) -> tuple[RampRow, ...]:
    """Return the states that the ramps and breakers of a run had at its end, oldest first.

    They are the states that the run has recorded, and those of earlier runs that hold messages of
    the run. Until the run has settled its messages, at `settled_at`, and in a run for some
    messages, these are the states of all its causes.
    """
    if run is None or not read_controls(run.controls).act_by_cause:
        return ()
    known = causes_of(run, ledger)
    states = ledger.ramps.current(run.queue_manager, run.queue, settled_at)
    knows_all = settled_at is not None and not run.is_for_some
    awaited = ledger.ramps.awaited_targets(run.run_id) if knows_all and states else None
    return tuple(
        RampRow(
            cause_id=subject.cause_id,
            cause=known.get(subject.cause_id, f"cause {subject.cause_id}"),
            target_q=subject.target_q,
            target_q_mgr=subject.target_q_mgr,
            phase=state.phase,
            is_open=_is_open(state),
            why=words_of(state.why),
            why_code=code_of(state.why),
            until=state.until,
        )
        for subject, state in states.items()
        if state.run_id == run.run_id
        or (
            state.phase is not RampPhase.COMPLETE
            and subject.cause_id in known
            and _is_awaited(subject, awaited)
        )
    )


def _is_awaited(subject: Subject, awaited: set[tuple[str | None, str, str]] | None) -> bool:
    """Whether messages that stay on the queue may be for a ramp or a breaker."""
    target = subject.target_q, subject.target_q_mgr
    causes = (subject.cause_id, None)
    return awaited is None or any((cause, *target) in awaited for cause in causes)


def _is_open(state: RampState) -> bool:
    is_try = state.step == 0 and state.phase is not RampPhase.COMPLETE
    return is_try or state.phase is RampPhase.OPEN


def ramp_in_words(row: RampRow) -> str:
    return f"{row.cause}, to {place(row.target_q, row.target_q_mgr)}: {row.why}"
