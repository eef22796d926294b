"""Settle the units of work that an interruption left open."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from mqdlq.mqi.state_queue import Marker, Markers
from mqdlq.stages.units.resources import Resources

T = TypeVar("T")


class OpenMoves(Protocol[T]):
    """The moves that are intended in the ledger, or unknown; `standing` are all markers there."""

    def confirm(self, standing: Sequence[Marker]) -> None:
        """Book the moves whose unit has a marker: it committed."""

    def back_out(self, standing: Sequence[Marker]) -> list[T]:
        """Book the moves whose unit was provably backed out; return the other intended ones."""

    def give_up(self, moves: Sequence[T]) -> None:
        """Book moves as unknown."""


def settle_open_moves(
    moves: OpenMoves[T], markers: Markers, resources: Resources, patience: timedelta
) -> list[Marker]:
    """Settle what earlier attempts left open; return the markers on the state queue.

    A marker is there exactly if its unit committed. What its absence proves depends on the moves.
    Where nothing proves anything within `patience`, they are `unknown`: we do not guess.
    """
    deadline = resources.clock() + patience
    while True:
        standing = markers.markers()
        moves.confirm(standing)
        rest = moves.back_out(standing)
        if not rest:
            return standing
        if resources.clock() >= deadline:
            moves.give_up(rest)
            return standing
        resources.sleep(1.0)
