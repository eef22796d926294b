"""Settle the units of work that an interruption left open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.units.resources import Resources

T = TypeVar("T")


class OpenMoves(Protocol[T]):
    """The moves recorded as intended or unknown; `standing` are the markers on the state queue."""

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Record as committed the moves whose unit has a marker."""

    def back_out(self, standing: Sequence[Marker]) -> list[T]:
        """Record the moves of units that were provably backed out; return the undecided moves."""

    def mark_unknown(self, moves: Sequence[T]) -> None:
        """Record moves as unknown."""


def settle_open_moves(
    moves: OpenMoves[T], markers: Markers, resources: Resources, patience: timedelta
) -> list[Marker]:
    """Settle the moves that earlier attempts left open; return the markers on the state queue.

    A marker exists if and only if its unit committed. Whether a missing marker proves a backout
    depends on the moves. Moves that stay undecided for `patience` are recorded as unknown.
    """
    deadline = resources.clock() + patience
    while True:
        standing = markers.markers()
        moves.confirm(standing)
        rest = moves.back_out(standing)
        if not rest:
            return standing
        if resources.clock() >= deadline:
            moves.mark_unknown(rest)
            return standing
        resources.sleep(1.0)
