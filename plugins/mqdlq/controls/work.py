"""The messages of a run that have a step to try, the attempts of a pass, and what holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Flag, auto
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from mqdlq.controls.key_index import KeyIndex, key_of
from mqdlq.controls.repair import Repair
from mqdlq.controls.repair.changes import explain_delivery
from mqdlq.controls.settings import Controls
from mqdlq.headers import DLH_LENGTH
from mqdlq.ledger.messages import RunMessage
from mqdlq.ledger.tables import MessageRepair
from mqdlq.model import DEPARTED, Action, Destination, Outcome, PutAuthority, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution

if TYPE_CHECKING:
    from mqdlq.controls.sequences.control import Group


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a due message is not tried now: `why` completes "not attempted: …" in reports.

    The run may try it from `until` on; None: not any more. `outcome` is that of a message that is
    still held when the run ends.
    """

    why: Reason
    until: datetime | None = None
    outcome: Outcome = Outcome.NOT_ATTEMPTED


def of_group(hold: Hold) -> Hold:
    """Return the hold of a message that must stay with another message of its group."""
    return Hold(Why.OTHER_OF_GROUP_HELD(why=hold.why), hold.until)


@dataclass(slots=True)
class WorkItem:
    """One message of a run: its planned steps, its attempts, and its outcome if it has one.

    `planned` are the steps as the plan has them, `steps` those steps with the tries that are left.
    `is_in_doubt`: its last attempt is unknown. `was_seen`: the last browse of the queue met it.
    `withheld_reason` says why its next step must not be carried out, `hold` why a control does not
    let the pass try it now. `moved_because` is the reason of its outcome if a step succeeds, None
    for the usual one. `was_moved_elsewhere`: another run moved it, so that a message with its key
    on the queue is an equal or a new one. `cause_id` is "" if no control of the run acts by cause,
    `group` None if it moves alone.
    """

    message: RunMessage
    steps: tuple[Step, ...]
    attempts_made: int
    outcome: Outcome | None
    last_attempt_at: datetime | None = None
    is_in_doubt: bool = False
    was_seen: bool = False
    withheld_reason: Reason | None = None
    hold: Hold | None = None
    moved_because: Reason | None = None
    was_moved_elsewhere: bool = False
    cause_id: str = ""
    changes: MessageRepair | None = None
    planned: tuple[Step, ...] = ()
    group: Group | None = field(default=None, repr=False, compare=False)

    @property
    def has_departed(self) -> bool:
        return self.was_moved_elsewhere or self.outcome in DEPARTED

    @property
    def step(self) -> Step | None:
        return choose_step(self.steps, self.attempts_made)

    @property
    def is_due(self) -> bool:
        return self.due_step is not None

    def was_tried_since(self, moment: datetime) -> bool:
        return self.last_attempt_at is not None and self.last_attempt_at >= moment

    @property
    def due_step(self) -> Step | None:
        step = None if self.outcome is not None or self.withheld_reason else self.step
        return None if step is None or step.action is Action.IGNORE else step

    @property
    def open_step(self) -> Step | None:
        """The step to try next; if its rules are exhausted, the last one; None if it has ended."""
        if self.outcome is not None or self.withheld_reason or not self.steps:
            return None
        if (step := self.step) is None:
            return self.steps[-1]
        return None if step.action is Action.IGNORE else step


class BrowsedItem(NamedTuple):
    """A message on the queue; `item` is None if it is not one of the run's messages."""

    key: bytes
    browsed: BrowsedMessage
    item: WorkItem | None


def choose_step(steps: Sequence[Step], attempts_made: int) -> Step | None:
    """Choose among a message's matching rules as IBM's handler does.

    An IGNORE that is reached is taken. Otherwise each rule adds its RETRY to a running total, and
    the first rule whose total exceeds the attempts already made is tried; RETRY(3) means three
    attempts in all (IBM MQ docs, "How the rules table is processed").
    """
    budget = 0
    for step in steps:
        if step.action is Action.IGNORE:
            return step
        budget += step.tries
        if budget > attempts_made:
            return step
    return None


_MANY: Final = 4096


class WorkList:
    """The messages of a run that have not departed, which a browse recognises by their keys.

    A message with an open step has a `WorkItem` from the time when a browse meets it, any message
    from when all `items` are asked for, until it has departed: a million items would not fit into a
    task's memory.
    """

    def __init__(
        self,
        keys: KeyIndex,
        make_item: Callable[[int], WorkItem],
        steps: Collection[Step] = (),
        elsewhere: Iterable[int] = (),
    ) -> None:
        """Make an item by its place in the list, those that are `elsewhere` at once.

        `steps` are all different ones of the messages.
        """
        self.steps = steps
        self._keys, self._make_item = keys, make_item
        self._made: dict[int, WorkItem] = {}
        self._has_departed, self._was_seen = bytearray(len(keys)), bytearray(len(keys))
        for place in elsewhere:
            self._item_at(place).was_moved_elsewhere = True

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def items(self) -> list[WorkItem]:
        """The items of all messages that had not departed when this was asked last, in order."""
        return [self._item_at(place) for place in self._places()]

    def glance(self) -> Iterator[WorkItem]:
        """Return the items only to be read: those that do not exist yet are not kept."""
        return map(self._find_item, self._places())

    def browse(self, cursor: BrowseCursor) -> Iterator[BrowsedItem]:
        """Browse the queue from its head and recognise the run's messages.

        The k-th message with a key on the queue is the k-th of the run's messages with that key
        that have not departed. Messages in doubt are assigned last.
        """
        self._forget_departed()
        is_absent, self._was_seen = bytearray(self._has_departed), bytearray(len(self))
        for place, item in self._made.items():
            item.was_seen = False
            is_absent[place] = item.has_departed
        self._keys.begin(is_absent)
        many = _MANY
        for browsed in cursor.messages():
            key = key_of(browsed)
            place = self._keys.find(key)
            recognised = None
            if place >= 0:
                self._was_seen[place] = True
                recognised = self._find_item(place)
                recognised.was_seen = True
                if recognised.open_step is not None:
                    self._made[place] = recognised
                if len(self._made) > many:
                    self._forget_departed()
                    many = _MANY + 2 * len(self._made)
            yield BrowsedItem(key, browsed, recognised)

    def mark_moved_elsewhere(self, elsewhere: Collection[int]) -> None:
        """Mark the messages that another run has moved since the browse.

        Messages with equal keys are indistinguishable. If the browse met one of them, the met
        message is an equal that is still on the queue.
        """
        if not elsewhere:
            return
        unmet: dict[bytes, list[WorkItem]] = defaultdict(list)
        items = self.items
        for item in items:
            item.was_moved_elsewhere |= item.message.message_id in elsewhere
            if not item.was_seen and not item.has_departed:
                unmet[item.message.message_key].append(item)
        for item in items:
            if item.was_seen and item.was_moved_elsewhere and unmet.get(item.message.message_key):
                unmet[item.message.message_key].pop(0).was_seen = True
                item.was_seen = False

    def find_pending_items(self) -> list[WorkItem]:
        """Return what a later pass tries again: of the messages that the last browse met."""
        return [
            item
            for _, item in sorted(self._made.items())
            if item.was_seen and item.is_due and (item.hold is None or item.hold.until is not None)
        ]

    def _item_at(self, place: int) -> WorkItem:
        return self._made.setdefault(place, self._find_item(place))

    def _find_item(self, place: int) -> WorkItem:
        """Return the item of a message, or one that is not kept."""
        item = self._made.get(place)
        if item is None:
            item = self._make_item(place)
            item.was_seen = bool(self._was_seen[place])
        return item

    def _places(self) -> Iterator[int]:
        return (place for place, gone in enumerate(self._has_departed) if not gone)

    def _forget_departed(self) -> None:
        """Drop the items of messages whose departure is booked."""
        for place in [at for at, item in self._made.items() if item.outcome in DEPARTED]:
            self._has_departed[place] = True
            del self._made[place]


@dataclass(slots=True)
class PlannedAttempt:
    """One step to be tried on one browsed message, which the put repairs if `repair` is set."""

    item: WorkItem
    step: Step
    browsed: BrowsedMessage
    repair: Repair | None = None

    @property
    def length(self) -> int:
        """How many bytes the step puts, with or without the MQDLH; a DISCARD counts all bytes."""
        if self.repair is not None and self.repair.body_length is not None:
            return self.repair.body_length
        keeps_its_header = self.step.action is Action.FWD and self.step.header
        is_whole = self.step.destination is None or keeps_its_header
        return self.browsed.total_length - (0 if is_whole else DLH_LENGTH)

    @property
    def how(self) -> Reason | None:
        """How the attempt delivers the message, and why it was moved; None if that is usual."""
        because = self.item.moved_because
        if self.repair is None or self.item.changes is None:
            return because
        repaired = explain_delivery(self.item.changes)
        return Why.REPAIRED_BECAUSE(repaired=repaired, because=because) if because else repaired

    @property
    def precedes_discard(self) -> bool:
        """Whether the step after this one is a DISCARD if this attempt fails."""
        step = choose_step(self.item.steps, self.item.attempts_made + 1)
        return step is not None and step.action is Action.DISCARD


@dataclass(slots=True)
class Planned:
    """A move of a pass: one step for a message, or for all of a group, in one unit of work.

    `reached` is the index of the message whose get or put was tried last.
    """

    tries: tuple[PlannedAttempt, ...]
    reached: int = 0
    # The engine asks for them again and again.
    destination: Destination | None = field(init=False)
    lengths: Sequence[int] = field(init=False)

    is_got: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.destination = self.tries[0].step.destination
        self.lengths = [one.length for one in self.tries]

    @property
    def message_key(self) -> bytes:
        return b"".join(one.item.message.message_key for one in self.tries)

    @property
    def descriptors(self) -> list[bytes]:
        return [one.browsed.descriptor for one in self.tries]

    @property
    def authority(self) -> PutAuthority:
        return self.tries[0].step.put_authority


class Browses(Flag):
    """The browses of the whole queue: before the first move of a pass, and the last of the run."""

    NONE = 0
    BEFORE_MOVES = auto()
    SETTLING = auto()


class Control:
    """Holds due messages. A control overrides the methods that it needs.

    Each pass opens its controls, as does the settling of the run: the ledger holds the state of a
    control. A crash may come between any two calls.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    """Its keys in a handler's file."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The controls whose notes on a message it reads; they are asked before it."""
    for_given_actions: ClassVar[bool] = True
    """Whether it holds messages for which a person gives the action by name: who does that has
    decided about them."""
    observes: ClassVar[Browses] = Browses.NONE

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        """Return the control of a run, None if its handler does not have the keys."""

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        """Forget earlier observations: `observe` is called on each message of this browse."""

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message on the queue."""

    def end_observation(self) -> None:
        """Take note that `observe` was called for every message on the queue."""

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return why the next step of a message is not tried now, or None.

        A pass asks in browse order, immediately before it tries the step, and once more after
        a wait. Settling asks again, for every message that still has a step to try.
        """

    def awaits_results(self, item: WorkItem) -> bool:
        """Return whether the results of moves on their way may change the answer of `find_hold`."""
        del item
        return False

    def admit(self, planned: PlannedAttempt) -> None:
        """Take note that no control holds a message: the pass tries its step."""

    def may_begin(self, planned: PlannedAttempt) -> bool:
        """Return whether an admitted message may still move, now that results are known.

        It is asked where moves wait for others, immediately before the move begins.
        """
        del planned
        return True

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        """Take note that a unit of work with these attempts committed."""

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Take note that an admitted message has not moved.

        `reason` is that of its failed put; 0 if it was not tried, or its move was undone.
        """
