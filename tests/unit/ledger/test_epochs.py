"""A ledger counts its passes and restorations, and knows which numbers it has counted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.model import WorkNumber
from tests.support.world import NOON

LATER = NOON + timedelta(hours=1)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def test_tasks_that_count_at_once_get_different_numbers_of_one_epoch(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(lambda _: ledger.epochs.next_number(NOON), range(12)))

    assert sorted(one.number for one in numbers) == list(range(1, 13))
    assert len({(one.epoch, one.name) for one in numbers}) == 1
    assert all(map(ledger.epochs.knows, numbers))


def test_a_new_ledger_knows_no_number(ledger: Ledger) -> None:
    assert ledger.epochs.newest() is None
    assert not ledger.epochs.knows(WorkNumber(1, 1, "other"))


def test_an_epoch_that_a_person_begins_is_above_all_that_are_known(ledger: Ledger) -> None:
    first = ledger.epochs.next_number(NOON)
    taken = ledger.epochs.begin(7, "alex", "disk lost", "1 restoration", LATER)

    assert taken.epoch == 8
    assert ledger.epochs.next_number(LATER) == WorkNumber(8, 1, taken.name)
    assert ledger.epochs.knows(first)
    assert ledger.epochs.knows(WorkNumber(7, 99, "of the other ledger"))
    assert ledger.epochs.lost_since(NOON) == ledger.epochs.taken_on()
    assert ledger.epochs.lost_since(LATER + timedelta(seconds=1)) is None


def test_a_ledger_that_nobody_took_on_has_lost_nothing(ledger: Ledger) -> None:
    ledger.epochs.next_number(LATER)

    assert ledger.epochs.taken_on() is None
    assert ledger.epochs.lost_since(NOON) is None


def test_a_number_is_read_from_the_text_in_which_it_is_written() -> None:
    number = WorkNumber(2, 15, "9f3c")

    assert str(number) == "000002-0000000015-9f3c"
    assert WorkNumber.parse(str(number)) == number
