"""Select the messages of a queue that a run is for: those named by keys, or that meet a condition.

A condition with a snapshot is for the messages that met it there; they are recognised by their
keys, so that no message that arrived since is among them. Without one it is for the messages that
meet it in the run's own snapshot. Nothing here needs DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.errors import HandlerError
from mqdlq.lake import Snapshot
from mqdlq.lake.filters import Presence, Where, mask_of, parse_where
from mqdlq.lake.row_masks import KeySet, Mask, all_of, keys_of
from mqdlq.lake.selected import rows_that_meet
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.message_facts import UNKNOWN_MESSAGE
from mqdlq.model import Action, MessageClass
from mqdlq.plan import needs_a_dlh
from mqdlq.resources import Execution
from mqdlq.rules import parse

REPAIRABLE: Final = (MessageClass.DEAD_LETTER, MessageClass.NO_DLH)


class Selection:
    """The messages that a run is for.

    `wanted` has their keys, or is None if the run's own rows decide by the condition. `unfit`
    counts the rows that meet the condition and on which the given action cannot be carried out,
    because of their class or of a legal hold.
    """

    def __init__(
        self,
        wanted: KeySet | None,
        mask: Mask,
        classes: tuple[MessageClass, ...] = (),
        holds: HeldMessages = (),
    ) -> None:
        self.wanted, self._mask, self.unfit = wanted, mask, 0
        self._classes, self._holds = pa.array([*classes], pa.string()), holds

    @classmethod
    def of(cls, execution: Execution) -> Selection | None:
        """Return the selection of a run, None for all messages.

        Raises LakeError if the snapshot of the condition is gone, and HandlerError if it is of
        another queue.
        """
        run, ledger = execution.run, execution.ledger
        if not run.condition:
            named = [np.array(sorted(run.named), "S32")]
            return cls(KeySet(named), all_of(())) if run.named else None
        chosen, classes = parse_where(run.condition), tuple[MessageClass, ...]()
        holds: HeldMessages = ()
        if run.has_given_action:
            rule = parse(run.rules_text, frozen=True).rules[0]
            holds = held_messages(run.handler, ledger) if rule.action is not Action.IGNORE else ()
            classes = (MessageClass.DEAD_LETTER,) if needs_a_dlh(rule) else ()
        if run.repair and not classes:
            classes = REPAIRABLE
        queue = run.queue_manager, run.queue
        mask = with_state(chosen, ledger, queue)
        if not run.as_of:
            return cls(None, mask, classes, holds)
        snapshot = Snapshot.named(execution.lake_root, run.as_of)
        if snapshot.queue != queue:
            raise HandlerError(
                "MQDLQ-528",
                f"as_of: snapshot {run.as_of} is of {snapshot.queue[1]} of {snapshot.queue[0]};"
                f" expected one of {run.queue} of {run.queue_manager}",
            )
        found = rows_that_meet(snapshot.directory, mask, ())
        keys = KeySet(keys_of(batch.column("message_key")) for batch in found)
        return cls(keys, all_of(()), classes, holds)

    @property
    def absent(self) -> int:
        """How many of the messages were not met."""
        return self.wanted.missing if self.wanted is not None else 0

    def select(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which of the rows the run is for."""
        if self.wanted is None:
            is_meant = self._mask.rows(rows)
        else:
            is_meant = pa.array(self.wanted.meet(keys_of(rows.column("message_key"))))
        if not len(self._classes) and not self._holds:
            return is_meant
        is_fit = pa.array(np.ones(len(rows), bool))
        if len(self._classes):
            is_fit = pc.is_in(rows.column("class"), value_set=self._classes)
        for _, held in self._holds:
            is_fit = pc.and_not(is_fit, pa.array(are_held(held, rows)))
        self.unfit += pc.sum(pc.and_not(is_meant, is_fit)).as_py() or 0
        return pc.and_(is_meant, is_fit)


def with_state(chosen: Where, ledger: Ledger, queue: tuple[str, str]) -> Mask:
    """Return the condition, with the wanted last outcome as the ledger has it."""
    mask = mask_of(chosen)
    if chosen.state in {None, Presence.ON_QUEUE}:  # a run sees what is there
        return mask

    def of(batch: pa.RecordBatch) -> pa.Array:
        fits = mask.rows(batch)
        keys = batch.column("message_key").to_pylist()
        meant = [key for key, fit in zip(keys, fits.to_pylist(), strict=True) if fit]
        states = ledger.message_facts.states(*queue, meant)
        has_state = {key for key in meant if chosen.is_met_by(states.get(key, UNKNOWN_MESSAGE))}
        return pa.array([key in has_state for key in keys], pa.bool_())

    return Mask(mask.columns | {"message_key"}, of)


HeldMessages = Sequence[tuple[int, KeySet | None]]
"""Legal holds by their numbers, with the keys of the messages, None for all of the handler."""


def held_messages(handler: str, ledger: Ledger) -> HeldMessages:
    """Return the legal holds that may cover messages of a handler."""
    found: list[tuple[int, KeySet | None]] = []
    for hold in ledger.holds.all():
        keys = [bytes.fromhex(hold.message_key)] if hold.message_key else []
        if hold.run_id:
            keys = [one.message_key for one in ledger.messages.of_run(hold.run_id)]
        if keys or hold.handler == handler:
            found.append((hold.hold_id, KeySet([np.array(keys, "S32")]) if keys else None))
    return found


def are_held(held: KeySet | None, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    if held is None:
        return np.ones(len(rows), bool)
    return held.find(keys_of(rows.column("message_key"))) >= 0
