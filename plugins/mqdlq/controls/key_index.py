"""Find messages by their keys: a list of a million messages takes fifty bytes for each."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mqdlq.headers import message_key
from mqdlq.mqi.browse import BrowsedMessage

KEY_LENGTH: Final = 32
"""The bytes of a message key."""


def key_of(browsed: BrowsedMessage) -> bytes:
    return message_key(browsed.descriptor, browsed.total_length, browsed.prefix)


class KeyIndex:
    """Keys of messages by their places in a list; each place is found once.

    Equal keys are found in the order of their places, those of `last` after the others.
    """

    def __init__(self, keys: bytes | bytearray, last: Sequence[int] = ()) -> None:
        """Index keys that are joined in the order of their places; they are not copied."""
        self._joined = memoryview(keys)
        self.keys = np.frombuffer(self._joined, ">u8").reshape(-1, KEY_LENGTH // 8)
        is_last = np.zeros(len(self.keys), bool)
        is_last[list(last)] = True
        heads = self.keys[:, 0].astype(np.uint64)
        self._places = np.lexsort((is_last, heads)).astype(np.int32)
        self._heads: npt.NDArray[np.uint64] = heads[self._places]
        is_same = self._heads[1:] == self._heads[:-1]
        repeated = np.zeros(len(heads), np.uint8)
        repeated[self._places[1:][is_same]] = repeated[self._places[:-1][is_same]] = 1
        self._is_repeated = repeated.tobytes()
        self.begin()

    def __len__(self) -> int:
        return len(self._is_repeated)

    def begin(self, without: bytes | bytearray | None = None) -> None:
        """Begin to find places again, but for those that have a 1 in `without`."""
        self._is_found = bytearray(len(self) if without is None else without)
        self._next = 0

    def key(self, place: int) -> bytes:
        return bytes(self._joined[place * KEY_LENGTH : (place + 1) * KEY_LENGTH])

    def find(self, key: bytes) -> int:
        """Return the first place with a key that was not found yet, or -1."""
        # A browse meets messages in the order of the list, so the next place is nearly always it.
        place = self._is_found.find(0, self._next)
        if place >= 0 and not self._is_repeated[place] and self.key(place) == key:
            return self._find(place)
        head = int.from_bytes(key[:8], "big")
        for at in range(bisect_left(self._heads, head), len(self)):
            if self._heads[at] != head:
                break
            place = int(self._places[at])
            if not self._is_found[place] and self.key(place) == key:
                return self._find(place)
        return -1

    def _find(self, place: int) -> int:
        self._is_found[place] = 1
        self._next = place + 1
        return place

    @property
    def unfound(self) -> list[int]:
        """The places that were not found, in order."""
        found: list[int] = np.flatnonzero(np.frombuffer(self._is_found, np.uint8) == 0).tolist()
        return found

    @property
    def is_all_found(self) -> bool:
        return 0 not in self._is_found
