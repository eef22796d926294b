"""Check the steps of ramps in the ledger after runs were killed."""

from __future__ import annotations

from itertools import pairwise

from sqlalchemy import select

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.messages import attempts
from mqdlq.ledger.tables.ramps import ramp_states
from mqdlq.model import AttemptState, RampPhase


def check_ramp_steps(ledger: Ledger) -> None:
    """No step of a ramp moved more messages than it allows. All rows are of one subject."""
    phases = (RampPhase.MOVING, RampPhase.COMPLETE)
    begins = select(ramp_states).where(ramp_states.c.phase.in_(phases))
    confirmed = select(attempts.c.seq).where(
        attempts.c.state == AttemptState.CONFIRMED, attempts.c.cause_id != ""
    )
    with ledger.engine.connect() as connection:
        steps = connection.execute(begins.order_by(ramp_states.c.seq)).mappings().all()
        moved = list(connection.scalars(confirmed))
    for step, later in pairwise(steps):
        if step["phase"] is RampPhase.MOVING:
            number = sum(step["step_from"] < seq <= later["step_from"] for seq in moved)
            assert number <= step["allowed"], f"step {step['step']} moved {number} messages"
