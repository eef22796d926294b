"""How far a run in progress is: what it has moved, how fast, and what holds it until when."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mqdlq.controls.limits import find_reopening
from mqdlq.controls.settings import read_controls
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import AuditEvent, Run
from mqdlq.model import RampPhase
from mqdlq.reasons import words_of
from mqdlq.words import place, span, visible

RECENT: Final = timedelta(minutes=1)
"""The rate of a run is that of this last time of its pass."""
Holding = tuple[str, datetime | None]
"""What holds messages, in words, and until when; None if that does not depend on the time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, by the ledger alone.

    Of the `planned` messages some have `moved`; `rate` counts those of a second, None between
    passes. `holdings` are what it waits for. `stop` is the request to stop it, `has_ended` says
    that its report is recorded.
    """

    planned: int
    moved: int
    rate: float | None
    holdings: tuple[Holding, ...]
    stop: AuditEvent | None
    has_ended: bool
    read_at: datetime
    is_asked: bool

    @property
    def at(self) -> str:
        """The point of the run, of which its page shows other parts."""
        if self.has_ended or self.is_asked:
            return "its end" if self.has_ended else "its approval"
        return "its plan" if self.planned else ""

    @property
    def ends_at(self) -> datetime | None:
        """When all planned messages have moved if the rate lasts, None if that is not known."""
        left = self.planned - self.moved
        if not self.rate or not left or self.holdings:
            return None
        return self.read_at + timedelta(seconds=left / self.rate)


def read_progress(run: Run, ledger: Ledger, now: datetime) -> Progress:
    began = ledger.runs.last_pass_of(run.run_id)
    next_pass = ledger.messages.next_pass(run.run_id, now)
    has_ended = ledger.accounts.verdict_of(run.run_id) is not None
    is_moving = began is not None and next_pass is None and not has_ended
    since = max(began, now - RECENT) if began is not None and is_moving else None
    approval = ledger.plans.last_approval(run.run_id)
    is_asked = approval is not None and approval.decision == "asked"
    planned, moved, lately = ledger.run_messages.moved(run.run_id, since)
    return Progress(
        planned,
        moved,
        lately / max(1.0, (now - since).total_seconds()) if since else None,
        tuple(_find_holdings(run, ledger, next_pass, now, is_asked)) if not has_ended else (),
        ledger.audit.stop_of(run.run_id),
        has_ended,
        now,
        is_asked,
    )


def _find_holdings(
    run: Run, ledger: Ledger, next_pass: datetime | None, now: datetime, is_asked: bool
) -> Iterator[Holding]:
    if is_asked:
        yield "the answer to the approval of its plan", None
    if next_pass is not None:
        yield f"its next pass (RETRYINT is {span(run.retry_interval_s)})", next_pass
    for meter, until in ledger.meters.refusals(run.run_id, now).items():
        yield f"the limit of {visible(meter.subject)}", until
    yield from _held_by_controls(run, ledger, now)


def _held_by_controls(run: Run, ledger: Ledger, now: datetime) -> Iterator[Holding]:
    controls = read_controls(run.controls)
    for limit in controls.limits.destinations:
        if until := find_reopening(limit.closed, now):
            yield f"the window of queue {visible(limit.queue)}, which is closed", until
    if controls.act_by_cause:
        for subject, state in ledger.ramps.current(run.queue_manager, run.queue).items():
            if state.run_id == run.run_id and state.phase is not RampPhase.COMPLETE:
                to = place(subject.target_q, subject.target_q_mgr)
                yield f"{words_of(state.why)}, to {to}", state.until
