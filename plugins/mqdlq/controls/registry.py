"""The controls of a run, in the order in which they are asked."""

from __future__ import annotations

from mqdlq.controls.chain import ControlChain
from mqdlq.controls.control import Control
from mqdlq.controls.limits.budget import RunBudget
from mqdlq.controls.limits.rate_limits import RateLimits
from mqdlq.controls.loops.guard import LoopGuard
from mqdlq.controls.loops.returns import IdentityRecorder
from mqdlq.controls.ramp.by_cause import CauseControl
from mqdlq.controls.sequences.groups import GroupControl
from mqdlq.controls.sequences.key_order import KeyOrder
from mqdlq.controls.settings import read_controls
from mqdlq.headers import IDENTITY_PREFIX
from mqdlq.ledger import Run
from mqdlq.mqi.browse import HEADER_ONLY
from mqdlq.resources import Execution


def browsed_length(run: Run) -> int:
    """Return how many bytes of each body a run browses: more if a control reads headers."""
    return IDENTITY_PREFIX if read_controls(run.controls).reads_headers else HEADER_ONLY


def open_controls(execution: Execution) -> ControlChain:
    """Return the controls that the run has recorded at its start."""
    return ControlChain(build_controls(execution))


def build_controls(execution: Execution) -> list[Control]:
    """Return the controls of a run in the order in which they are asked."""
    configured = read_controls(execution.run.controls)
    controls: list[Control] = []
    if configured.recognise_returns:
        controls.append(IdentityRecorder(execution))
    # A person who gives an action for messages by name decides about them.
    if configured.loops is not None and not execution.run.has_given_action:
        controls.append(LoopGuard(execution, configured.loops))
    sequences = None if execution.run.has_given_action else configured.sequences
    messages_per_run, groups = configured.limits.messages_per_run, None
    budget = None if messages_per_run is None else RunBudget(execution, messages_per_run)
    if sequences is not None and sequences.groups:
        groups = GroupControl(execution, budget)
        controls.append(groups)
    if sequences is not None and sequences.key:
        controls.append(KeyOrder(execution, sequences, groups))
    # No message moves after the budget is used up, so the run must not wait for a step of a ramp.
    if budget is not None:
        controls.append(budget)
    if configured.act_by_cause:
        controls.append(CauseControl(execution, configured))
    if configured.limits.has_pace:
        controls.append(RateLimits(execution, configured.limits))
    return controls
