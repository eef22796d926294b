"""The controls of a run: what each needs of others, and the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqdlq.controls.chain import ControlChain
from mqdlq.controls.control import Control
from mqdlq.controls.limits.budget import RunBudget
from mqdlq.controls.limits.rate_limits import RateLimits
from mqdlq.controls.loops.guard import LoopGuard
from mqdlq.controls.loops.returns import IdentityRecorder
from mqdlq.controls.ramp.by_cause import CauseControl
from mqdlq.controls.sequences.groups import GroupControl
from mqdlq.controls.sequences.key_order import KeyOrder
from mqdlq.controls.settings import Controls, read_controls
from mqdlq.controls.windows.closing import ClosedWindows
from mqdlq.controls.windows.settings import ClosedWindow
from mqdlq.headers import IDENTITY_PREFIX
from mqdlq.ledger import Run
from mqdlq.model import Destination
from mqdlq.mqi.browse import HEADER_ONLY
from mqdlq.resources import Execution


@dataclass(frozen=True, slots=True)
class Registered:
    """A control: its name, its keys in a handler's file, and how a run opens it.

    `needs` names the controls whose notes it reads; they are asked before it. `open` returns None
    for a run whose handler does not have the keys. A control that is not `for_given_actions` does
    not hold messages for which a person gives the action by name: the person decides about them.
    """

    name: str
    keys: tuple[str, ...]
    open: Callable[[Execution, Controls], Control | None]
    needs: tuple[str, ...] = ()
    for_given_actions: bool = True


def _open_groups(run: Execution, keys: Controls) -> Control | None:
    return GroupControl(run) if keys.sequences and keys.sequences.groups else None


def _open_key_order(run: Execution, keys: Controls) -> Control | None:
    return KeyOrder(run, keys.sequences) if keys.sequences and keys.sequences.key else None


def _open_budget(run: Execution, keys: Controls) -> Control | None:
    allowed = keys.limits.messages_per_run
    return RunBudget(run, allowed) if allowed is not None else None


def _open_windows(run: Execution, keys: Controls) -> Control | None:
    def find_windows(destination: Destination) -> tuple[ClosedWindow, ...]:
        queue, queue_manager = destination
        item = keys.limits.of_destination(queue, queue_manager or run.run.queue_manager)
        return item.closed if item is not None else ()

    return ClosedWindows(run, find_windows) if keys.limits.has_windows else None


REGISTRY: Final = (
    Registered(
        "returns",
        ("loops", "ramp", "breaker"),
        lambda run, keys: IdentityRecorder(run) if keys.recognise_returns else None,
    ),
    Registered(
        "loops",
        ("loops",),
        lambda run, keys: LoopGuard(run, keys.loops) if keys.loops else None,
        needs=("returns",),
        for_given_actions=False,
    ),
    Registered("groups", ("sequences",), _open_groups, for_given_actions=False),
    Registered(
        "key order", ("sequences",), _open_key_order, needs=("groups",), for_given_actions=False
    ),
    # No message moves after the budget is used up, so the run must not wait for a step of a ramp.
    Registered("budget", ("limits",), _open_budget, needs=("groups",)),
    Registered(
        "ramp",
        ("ramp", "breaker"),
        lambda run, keys: CauseControl(run, keys) if keys.act_by_cause else None,
        needs=("returns",),
    ),
    Registered(
        "rates",
        ("limits",),
        lambda run, keys: RateLimits(run, keys.limits) if keys.limits.has_pace else None,
    ),
    Registered("windows", ("limits",), _open_windows),
)
"""In the order in which they are asked: the first one that holds a message gives the reason."""


def browsed_length(run: Run) -> int:
    """Return how many bytes of each body a run browses: more if a control reads headers."""
    return IDENTITY_PREFIX if read_controls(run.controls).reads_headers else HEADER_ONLY


def open_controls(execution: Execution) -> ControlChain:
    """Return the controls that the run has recorded at its start."""
    return ControlChain(build_controls(execution))


def build_controls(execution: Execution) -> list[Control]:
    """Return the controls of a run in the order in which they are asked."""
    keys, has_given_action = read_controls(execution.run.controls), execution.run.has_given_action
    asked = (one for one in REGISTRY if one.for_given_actions or not has_given_action)
    return [found for one in asked if (found := one.open(execution, keys)) is not None]
