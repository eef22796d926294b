"""Messages are found by their keys, each once, also those with equal keys."""

from __future__ import annotations

import random
from collections import defaultdict
from hashlib import sha256

import pytest

from mqdlq.controls.key_index import KEY_LENGTH, KeyIndex

SAME_HEAD = [bytes(8) + bytes([number]) * 24 for number in range(4)]


def key(number: int) -> bytes:
    return sha256(str(number).encode()).digest()


def test_a_key_is_found_at_its_place_and_only_once() -> None:
    index = KeyIndex(b"".join(map(key, range(3))))

    assert [index.find(key(number)) for number in (0, 1, 1, 2, 7, 0)] == [0, 1, -1, 2, -1, -1]
    assert index.is_all_found


def test_equal_keys_are_found_in_order_and_those_in_doubt_last() -> None:
    index = KeyIndex(key(1) * 4, last=[0, 2])

    assert [index.find(key(1)) for _ in range(5)] == [1, 3, 0, 2, -1]


def test_keys_that_begin_alike_are_told_apart() -> None:
    index = KeyIndex(b"".join(SAME_HEAD))

    assert [index.find(one) for one in reversed(SAME_HEAD)] == [3, 2, 1, 0]


def test_places_that_are_left_out_are_not_found_until_the_next_time() -> None:
    index = KeyIndex(key(1) + key(2) + key(1))
    index.begin(without=bytearray([1, 0, 0]))

    assert (index.find(key(1)), index.find(key(1))) == (2, -1)
    assert index.unfound == [1]
    index.begin()
    assert [index.find(key(1)), index.find(key(1))] == [0, 2]


def test_an_index_of_nothing_finds_nothing() -> None:
    index = KeyIndex(b"")

    assert (len(index), index.find(bytes(KEY_LENGTH)), index.is_all_found) == (0, -1, True)


@pytest.mark.parametrize("seed", range(20))
def test_the_kth_message_with_a_key_is_the_kth_place_that_has_it(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 (a test repeats it)
    keys = [chosen.choice([key(chosen.randrange(12)), *SAME_HEAD]) for _ in range(60)]
    absent = bytearray(chosen.randrange(5) == 0 for _ in keys)
    last = {place for place in range(len(keys)) if chosen.randrange(6) == 0}
    waiting = defaultdict[bytes, list[int]](list)
    for place in sorted(range(len(keys)), key=lambda one: (one in last, one)):
        if not absent[place]:
            waiting[keys[place]].append(place)
    index = KeyIndex(b"".join(keys), last=sorted(last))
    index.begin(absent)
    met = [*keys, key(99), *chosen.sample(keys, len(keys))]

    assert [index.find(one) for one in met] == [
        waiting[one].pop(0) if waiting[one] else -1 for one in met
    ]
