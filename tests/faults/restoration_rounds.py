"""A round of restoring: archived copies, a restoration that dies, and what must be true."""

from __future__ import annotations

from dataclasses import replace

from mqdlq.ledger import Ledger
from mqdlq.model import RestorationState
from mqdlq.mqi.connect import connect
from mqdlq.stages.restore.restoration import restore, settle_open_units
from mqdlq.stages.units.interruptions import hold_state_queue
from tests.faults.rounds import Round
from tests.faults.targets import bare
from tests.support.restorations import attempt_and_count, copy_states, discard, prepare_restoration
from tests.support.world import World

OPEN = {RestorationState.INTENDED, RestorationState.UNKNOWN}


class RestorationRound(Round):
    """Copies that a run archived, and a restoration that puts them to a queue."""

    def __init__(self, world: World, messages: int, *, header: bool) -> None:
        super().__init__(world)
        self.bodies = [b"%d.%02d" % (world.runs, number) for number in range(messages)]
        self.header = header
        discard(world, *self.bodies)
        self.name = f"restoration-{world.runs}"
        self.work = prepare_restoration(world, self.name, to_queue="PAYMENTS", header=header)

    def attempt(self, ledger: Ledger) -> None:
        restore(replace(self.work, ledger=ledger))

    def is_open(self) -> bool:
        return any(state.state in OPEN for state in copy_states(self.world, self.name))

    def restored(self, name: str) -> list[bool]:
        found = copy_states(self.world, name)
        return [state.state is RestorationState.RESTORED for state in found]

    def check_what_is_known(self) -> None:
        work = self.work
        with (
            connect(work.settings) as queue_manager,
            hold_state_queue(queue_manager, work.restoration.state_queue, work) as markers,
        ):
            settle_open_units(work, markers)
        assert not self.is_open(), "a unit of work is still unsettled"
        put = [bare(body) for body in self.world.bodies("PAYMENTS")]
        for body, is_restored in zip(self.bodies, self.restored(self.name), strict=True):
            assert put.count(body) == is_restored, f"{body!r}: not as booked"

    def finish(self, *, by_another_run: bool) -> None:
        self.ended = [self.name]
        if by_another_run:
            other = f"{self.name}-other"
            attempt_and_count(
                prepare_restoration(self.world, other, to_queue="PAYMENTS", header=self.header)
            )
            self.ended.append(other)
        attempt_and_count(self.work)

    def check_the_end(self) -> None:
        put = [bare(body) for body in self.world.bodies("PAYMENTS")]
        assert put == self.bodies, "PAYMENTS does not hold each message once, in order"
        for copies in zip(*map(self.restored, self.ended), strict=True):
            assert sum(copies) == 1, "a copy is booked as restored twice, or not at all"
