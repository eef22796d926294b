"""What is under way, known to all connections: events in, who holds what and the depths out.

A message that is put or got and not committed, or locked by a browse, is *held*: nobody but its
owner sees it. That, how deep each queue is, where the next message is placed and whether the
definitions have changed stands in a file that every connection maps, and costs no transaction.

The file is a log of events. Whoever has the turn to write appends one, whole before it counts: a
kill leaves it there or not. Each connection folds the events into the state it keeps, and reads
what others have added before it looks. A full log is begun again with the state alone.
"""

from __future__ import annotations

import mmap
import os
import platform
import struct
import tempfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Events. A put or a got message is its owner's until the unit of work ends, a locked one until it
# is freed; a message TAKEN_BACK has been put and got in the same unit. ADDED and REMOVED happen
# outside units of work. DEPTH says what the depth is, whatever was counted before.
PUT, GOT, LOCKED, FREED, TAKEN_BACK = 1, 2, 3, 4, 5
COMMITTED, BACKED_OUT, DISCONNECTED = 6, 7, 8
ADDED, REMOVED, DEPTH = 9, 10, 11
_ENDS = frozenset({COMMITTED, BACKED_OUT, DISCONNECTED})
_SHOWN = frozenset({FREED, ADDED})
_CHANGES = {PUT: 1, GOT: -1, LOCKED: 0, FREED: 0, TAKEN_BACK: -1, ADDED: 1, REMOVED: -1}  # of depth

_EVENT = struct.Struct("=BBHIQq")  # kind, rank, unit, owner, queue, place (of DEPTH: the depth)
UNITS = 2**16
"""Units of work are numbered by so many numbers, of which two are in use at a time."""

_HEADER = 4096
_MARK, _HEAD, DEFINITIONS, _NEXT_PLACE, _LOGS = 0, 1, 2, 3, 4
"""Words of the header. That of DEFINITIONS changes with them, and is odd while someone is at it."""
_LAYOUT = 0x6D71646C71000001
_EPOCH = 2**32  # the head is the number of the log, times this, plus how many events it holds
_FIRST_CAPACITY = 2048

IS_ORDERED = platform.machine() in {"x86_64", "AMD64"}
"""Whether all processors see one's writes in their order, so that reading needs no turn."""


class Held(NamedTuple):
    """Who holds a message, as what, in which of its units of work."""

    kind: int
    rank: int
    unit: int
    owner: int
    queue_id: int
    place: int

    def freed(self) -> tuple[int, ...]:
        """Return the event that frees a locked message."""
        return FREED, self.rank, 0, self.owner, self.queue_id, self.place


class Board:
    """One connection's view of the file."""

    def __init__(self, path: Path) -> None:
        """Map the file, and make it first if there is none: without messages or depths."""
        self._path = path
        self._map()
        self._epoch = -1
        self._count = 0
        self._seen = -1
        self.held: dict[int, tuple[int, ...]] = {}
        self.depths: dict[int, int] = defaultdict(int)
        self.fronts: dict[int, tuple[int, int]] = {}
        """Per queue the rank and place up to which every message is held, where that is known."""
        self._of: dict[int, dict[int, tuple[int, ...]]] = defaultdict(dict)
        self.catch_up()

    # The file

    def _map(self) -> None:
        if not self._path.exists():
            _make(self._path)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._memory = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        self.words = memoryview(self._memory).cast("Q")

    def close(self) -> None:
        """Let go of the file."""
        self.words.release()
        self._memory.close()

    def catch_up(self) -> None:
        """Take in what others have added."""
        head = self.words[_HEAD]
        if head != self._seen:
            self._read(head)

    @property
    def position(self) -> int:
        """How far the log has been read: unchanged as long as nothing happens."""
        return self._seen

    def _read(self, head: int) -> None:
        while True:
            epoch, count = divmod(head, _EPOCH)
            start = self._count if epoch == self._epoch else 0
            offset, capacity = self._log(epoch)
            if offset + capacity * _EVENT.size > len(self._memory):
                self.words.release()
                self._map()
            data = self._memory[offset + start * _EVENT.size : offset + count * _EVENT.size]
            now = self.words[_HEAD]
            if now // _EPOCH == epoch:  # the log read is not the one being written anew
                break
            head = now
        if epoch != self._epoch:
            self._forget_everything()
            self._epoch, self._offset, self._capacity = epoch, offset, capacity
        self._count, self._seen = count, head
        for event in _EVENT.iter_unpack(data):
            self._apply(event)

    def _log(self, epoch: int) -> tuple[int, int]:
        word = _LOGS + epoch % 2 * 2
        return self.words[word], self.words[word + 1]

    def _forget_everything(self) -> None:
        self.held.clear()
        self.depths.clear()
        self.fronts.clear()
        self._of.clear()

    # Events

    def append(self, *event: int) -> None:
        """Let an event happen, with the turn and all caught up."""
        if self._count == self._capacity:
            self._begin_again()
        _EVENT.pack_into(self._memory, self._offset + self._count * _EVENT.size, *event)
        self._count += 1
        self._seen += 1
        self.words[_HEAD] = self._seen
        self._apply(event)

    def _begin_again(self) -> None:
        """Write the state to the other log, and count that one from now on."""
        events = list(self.held.values())
        # Depths come last: what is held has been counted into them.
        events += [(DEPTH, 0, 0, 0, queue, depth) for queue, depth in self.depths.items()]
        epoch = self._epoch + 1
        offset, capacity = self._log(epoch)
        if capacity < 2 * len(events):
            offset, capacity = len(self._memory), 4 * len(events)
            os.truncate(self._path, offset + capacity * _EVENT.size)
            self.words.release()
            self._map()
            word = _LOGS + epoch % 2 * 2
            self.words[word], self.words[word + 1] = offset, capacity
        data = b"".join(_EVENT.pack(*event) for event in events)
        self._memory[offset : offset + len(data)] = data
        self._epoch, self._offset, self._capacity = epoch, offset, capacity
        self._count = len(events)
        self._seen = epoch * _EPOCH + self._count
        self.words[_HEAD] = self._seen

    def _apply(self, event: tuple[int, ...]) -> None:
        kind, rank, _, owner, queue, place = event
        if kind in _ENDS:
            self._end(kind, owner)
            return
        if kind == DEPTH:
            self.depths[queue] = place
            return
        self.depths[queue] += _CHANGES[kind]
        if kind <= LOCKED:
            self.held[place] = self._of[owner][place] = event
        elif kind <= TAKEN_BACK:
            self.held.pop(place, None)
            self._of[owner].pop(place, None)
        if kind in _SHOWN:
            self._show(queue, rank, place)

    def _end(self, kind: int, owner: int) -> None:
        """End what an owner has under way; locks outlive a unit of work."""
        mine = self._of.pop(owner, {})
        for place, event in mine.items():
            what, rank, _, _, queue, _ = event
            if what == LOCKED and kind != DISCONNECTED:
                self._of[owner][place] = event
                continue
            del self.held[place]
            if kind != COMMITTED and what != LOCKED:
                self.depths[queue] += 1 if what == GOT else -1
            if queue in self.fronts and (kind != COMMITTED or what == PUT):
                self._show(queue, rank, place)

    def _show(self, queue: int, rank: int, place: int) -> None:
        """Look for messages from here on again, if the front is behind it."""
        if queue in self.fronts and (rank, place) <= self.fronts[queue]:
            self.fronts[queue] = rank, place - 1

    # Questions

    def held_by(self, owner: int) -> list[Held]:
        """Return what a connection holds."""
        return [Held(*event) for event in self._of.get(owner, {}).values()]

    def all_held(self) -> list[Held]:
        """Return what anyone holds."""
        return [Held(*event) for event in self.held.values()]

    def owners(self) -> set[int]:
        """Return the connections that hold anything."""
        return {owner for owner, held in self._of.items() if held}

    def next_place(self) -> int:
        """Return a place nobody has had, with the turn."""
        place = self.words[_NEXT_PLACE]
        self.words[_NEXT_PLACE] = place + 1
        return place

    def places_begin_after(self, place: int) -> None:
        """Give no place up to this one, with the turn."""
        self.words[_NEXT_PLACE] = max(self.words[_NEXT_PLACE], place + 1)

    # The definitions of the queue manager, kept in its database

    def change_definitions(self) -> None:
        """Make the word odd: whoever looks now must look into the database."""
        self.words[DEFINITIONS] |= 1

    def definitions_stand(self) -> None:
        """Make it even again, and another number, when they are changed or were not after all."""
        self.words[DEFINITIONS] = (self.words[DEFINITIONS] | 1) + 1


def _make(path: Path) -> None:
    """Make the file, whole when it can be seen; someone else may have been faster."""
    words = [0] * (_HEADER // 8)
    size = _FIRST_CAPACITY * _EVENT.size
    words[_MARK], words[_NEXT_PLACE] = _LAYOUT, 1
    words[_LOGS : _LOGS + 4] = _HEADER, _FIRST_CAPACITY, _HEADER + size, _FIRST_CAPACITY
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".board-") as file:
        file.write(struct.pack(f"{len(words)}Q", *words) + bytes(2 * size))
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, path)
