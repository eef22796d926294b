"""The controls of a run: what each needs of others, and the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from mqdlq.controls.limits.control import ClosedWindows, Moves, RateLimits, RunBudget
from mqdlq.controls.loops.control import IdentityRecorder, LoopGuard
from mqdlq.controls.ramp.control import CauseControl
from mqdlq.controls.sequences.groups import GroupControl
from mqdlq.controls.sequences.key_order import KeyOrder
from mqdlq.controls.settings import Controls, read_controls
from mqdlq.controls.work import (
    BrowsedItem,
    Browses,
    Control,
    Hold,
    Planned,
    PlannedAttempt,
    WorkItem,
    WorkList,
    of_group,
)
from mqdlq.headers import IDENTITY_PREFIX
from mqdlq.ledger.tables import Run
from mqdlq.mqi.browse import HEADER_ONLY, BrowseCursor
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
    Registered(
        "windows",
        ("limits",),
        lambda run, keys: ClosedWindows(run, keys.limits) if keys.limits.has_windows else None,
    ),
)
"""In the order in which they are asked: the first one that holds a message gives the reason."""


def browsed_length(run: Run) -> int:
    """Return how many bytes of each body a run browses: more if a control reads headers."""
    return IDENTITY_PREFIX if read_controls(run.controls).reads_headers else HEADER_ONLY


def open_controls(execution: Execution) -> ControlChain:
    return ControlChain(build_controls(execution))


def build_controls(execution: Execution) -> list[Control]:
    keys, has_given_action = read_controls(execution.run.controls), execution.run.has_given_action
    asked = (one for one in REGISTRY if one.for_given_actions or not has_given_action)
    return [found for one in asked if (found := one.open(execution, keys)) is not None]


C = TypeVar("C", bound=Control)


class ControlChain:
    """The controls of a run. A message is held by the first control that holds it.

    Some questions are for one control only, such as to wait for a rate: its class finds it.
    """

    def __init__(self, controls: Sequence[Control]) -> None:
        self._controls = controls
        self._groups = _find(controls, GroupControl)
        self._keys = _find(controls, KeyOrder)
        self._budget = _find(controls, RunBudget)
        self._rates = _find(controls, RateLimits)

    def observe_queue(self, work: WorkList, cursor: BrowseCursor) -> None:
        """Browse the queue for the controls that observe it in a pass."""
        if any(Browses.BEFORE_MOVES in control.observes for control in self._controls):
            for _ in self._show(Browses.BEFORE_MOVES, work, cursor):
                pass

    def observe_settling(self, work: WorkList, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        """Browse the queue, and yield each message after the controls have observed it."""
        return self._show(Browses.SETTLING, work, cursor)

    def _show(self, browse: Browses, work: WorkList, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        observers = [control for control in self._controls if browse in control.observes]
        for control in observers:
            control.begin_observation(cursor, work)
        for met in work.browse(cursor):
            for control in observers:
                control.observe(met)
            yield met
        for control in observers:
            control.end_observation()

    @property
    def room(self) -> int | None:
        """How many messages the pass moves at most; None without a limit."""
        return None if self._budget is None else self._budget.room

    def gather(self, met: BrowsedItem) -> Sequence[BrowsedItem]:
        """Return the messages that move together with one that a pass meets, in their order."""
        return (met,) if self._groups is None else self._groups.gather(met)

    def hold_or_admit(self, planned: Planned, moves: Moves) -> bool:
        """Ask for a planned attempt; return whether the pass may make it.

        Otherwise the hold is recorded in each item: a hold of one message of a group holds all. A
        control may pause the moves, and wait.
        """
        items = [one.item for one in planned.tries]
        # A wait takes time, and the moves before it may have been committed: ask once more.
        hold = self._hold_any(items) or self._pace(planned, moves) or self._hold_any(items)
        if hold is not None:
            for item in items:
                item.hold = item.hold or of_group(hold)
            return False
        for one in planned.tries:
            for control in self._controls:
                control.admit(one)
        return True

    def _pace(self, planned: Planned, moves: Moves) -> Hold | None:
        hold = None if self._rates is None else self._rates.pace(planned, moves)
        for one in planned.tries if hold is not None else ():
            one.item.hold = hold
        return hold

    def _hold_any(self, items: Sequence[WorkItem]) -> Hold | None:
        """Record in each item whether a control holds it; return the first hold."""
        for item in items:
            item.hold = self._find_hold(item)
        return next((item.hold for item in items if item.hold), None)

    def hold_all(self, work: WorkList) -> None:
        """Record the holds in all items again; an item without one keeps an earlier hold."""
        for item in work.items:
            item.hold = self._find_hold(item) or item.hold
        if self._groups is not None:
            self._groups.spread_holds()

    def is_held_to_the_end(self, item: WorkItem) -> bool:
        """Return whether a control holds a message for the rest of the run."""
        hold = self._find_hold(item)
        return hold is not None and hold.until is None

    def _find_hold(self, item: WorkItem) -> Hold | None:
        """Return the first hold; a control may name the outcome of an exhausted message, too."""
        if item.open_step is None:
            return None
        holds = (control.find_hold(item) for control in self._controls)
        return next(filter(None, holds), None)

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Return whether an admitted message may move although moves before it have failed."""
        return self._keys is None or self._keys.may_still_move(planned)

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        for control in self._controls:
            control.confirm(tries)

    def leave(self, planned: PlannedAttempt, reason: int = 0) -> None:
        for control in self._controls:
            control.leave(planned, reason)

    def finish(self) -> None:
        if self._rates is not None:
            self._rates.finish()


def _find(controls: Sequence[Control], kind: type[C]) -> C | None:
    return next((control for control in controls if isinstance(control, kind)), None)
