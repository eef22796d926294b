"""One round of repairs: named messages get another CodedCharSetId, or one another body."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from mqdlq.lake.archive import read_back
from mqdlq.lake.replacements import write_replacement
from mqdlq.stages.execute import Execution
from tests.faults.rounds import ExecutionRound, Scenario
from tests.support.world import World
from tests.unit.controls.repair.approved_repairs import approve, keys_on_queue

CCSID: Final = 1208
BODY: Final = "repair of the body"
REPAIRS: Final = {
    BODY: ("ACTION(RETRY)", Scenario("ACTION(IGNORE)", ("PAYMENTS",), ("delivered",))),
    "repair": ("ACTION(RETRY)", Scenario("ACTION(IGNORE)", ("PAYMENTS",), ("delivered",))),
    "repair of the destination": (
        "ACTION(FWD) FWDQ(PARKED) HEADER(NO)",
        Scenario("ACTION(IGNORE)", ("PARKED",), ("forwarded",)),
    ),
}
"""By name: the given action, and where it has to bring the messages."""


class RepairRound(ExecutionRound):
    """Dead letters on the queue, and an approved run that repairs all of them by name."""

    def __init__(self, world: World, name: str, messages: int) -> None:
        self.action, scenario = REPAIRS[name]
        self.replaces_a_body = name == BODY
        super().__init__(world, scenario, 1 if self.replaces_a_body else messages)

    def _plan(self) -> Execution:
        keys = keys_on_queue(self.world) or ("0" * 64,)
        repair: dict[str, Any] = {"coded_char_set_id": CCSID}
        if self.replaces_a_body:
            digest = write_replacement(self.world.lake_root, "test", self.replacement)
            repair |= {"body_sha256": digest, "body_length": len(self.replacement)}
        execution = self.world.plan(
            self.scenario.rules,
            message_keys=keys,
            action=self.action,
            repair=repair,
            allows_bodies=self.replaces_a_body,
        )
        approve(self.world, execution)
        return execution

    @property
    def replacement(self) -> bytes:
        return b"instead of " + self.bodies[0]

    def places(self) -> dict[bytes, str]:
        """Return where each message is, a replaced body under its original one."""
        found = super().places()
        if (queue := found.pop(self.replacement, None)) is not None:
            assert self.bodies[0] not in found, "the original and its replacement are there"
            found[self.bodies[0]] = queue
        return found

    def check_what_is_known(self) -> None:
        """Check that the archive has the original of each message that has left, too."""
        super().check_what_is_known()
        self._check_originals()

    def check_the_end(self) -> None:
        """Check that all messages are delivered once, with the new CCSID and the right body."""
        super().check_the_end()
        self._check_originals()
        delivered = self.world.messages(self.scenario.places[0])
        assert Counter(body for _, body in delivered) == Counter(
            [self.replacement] if self.replaces_a_body else self.bodies
        )
        assert {md.CodedCharSetId for md, _ in delivered} == {CCSID}

    def _check_originals(self) -> None:
        places = self.places()
        left = {self.originals[body] for body in self.bodies if places.get(body) != "DLQ"}
        linked: Counter[str] = Counter()
        for run_id in self.runs:
            for copy in self.world.ledger.archive.copies(run_id=run_id):
                assert copy.repair is not None, f"{copy.message_id} has a copy and no changes"
                assert read_back(copy.location)[copy.message_id] == copy.digest
                if not copy.is_provisional:
                    linked[copy.digest] += 1
        assert linked == Counter(left), "the originals are not those of the delivered messages"
