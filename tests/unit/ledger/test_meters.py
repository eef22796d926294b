"""Meters keep limited rates over all runs that share a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Meter, Rate
from tests.support.postgresql import ledger_url_fixture

__all__ = ["ledger_url_fixture"]

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ORDERS = Meter("queue ORDERS at QM1", "messages")
TEN = Rate(10, 10)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def reserve(
    ledger: Ledger,
    amount: float,
    at: float = 0,
    *,
    rate: Rate = TEN,
    handler: str = "one",
    latest: float = 60,
) -> tuple[datetime, timedelta]:
    return ledger.meters.reserve(
        ORDERS, rate, amount, handler=handler, now=after(at), latest=after(latest)
    )


def ready(ledger: Ledger, *amounts: float, rate: Rate = TEN) -> list[float]:
    """Reserve amounts at noon; return after how many seconds each is ready."""
    found = [reserve(ledger, amount, rate=rate)[0] for amount in amounts]
    return [(moment - NOON).total_seconds() for moment in found]


def test_a_burst_is_ready_at_once_and_later_amounts_follow_at_the_rate(ledger: Ledger) -> None:
    assert ready(ledger, 5, 5, 5, 5, 10) == [0, 0, 0.5, 1, 2]


def test_an_amount_above_the_burst_waits_for_a_full_bucket_and_is_paid_in_full(
    ledger: Ledger,
) -> None:
    assert ready(ledger, 30, 30, 1) == [0, 3, 5.1]


def test_a_refused_amount_is_not_used(ledger: Ledger) -> None:
    reserve(ledger, 30)

    refused = reserve(ledger, 10, latest=1)
    granted = reserve(ledger, 10)

    assert refused == (after(3), timedelta(0))
    assert granted == (after(3), timedelta(seconds=1))


def test_a_part_that_is_given_back_is_ready_earlier(ledger: Ledger) -> None:
    reserve(ledger, 20)
    ledger.meters.give_back(ORDERS, timedelta(seconds=0.5))

    assert reserve(ledger, 10)[0] == after(1.5)


def test_a_bucket_holds_no_more_than_its_burst(ledger: Ledger) -> None:
    reserve(ledger, 10)
    reserve(ledger, 10, 3600, latest=4000)

    assert reserve(ledger, 10, 3600, latest=4000)[0] == after(3601)


def test_the_stricter_limit_of_two_handlers_applies(ledger: Ledger) -> None:
    reserve(ledger, 2, rate=Rate(2, 2), handler="strict")

    lenient = reserve(ledger, 10, handler="lenient")

    assert lenient == (after(1), timedelta(seconds=5))


def test_a_handler_may_relax_its_own_limit(ledger: Ledger) -> None:
    reserve(ledger, 2, rate=Rate(2, 2))

    assert reserve(ledger, 10)[1] == timedelta(seconds=1)


def test_a_stricter_limit_ends_an_hour_after_its_last_use(ledger: Ledger) -> None:
    reserve(ledger, 1, rate=Rate(1, 1), handler="strict")

    within = reserve(ledger, 10, 3599, handler="lenient", latest=9000)
    later = reserve(ledger, 10, 3700, handler="lenient", latest=9000)

    assert (within[1].total_seconds(), later[1].total_seconds()) == (10, 1)


def test_a_meter_knows_the_last_run_that_was_refused(ledger: Ledger) -> None:
    ledger.meters.record_refusal(ORDERS, "run-1", after(60))
    reserve(ledger, 1)

    assert ledger.meters.refusals("run-1", after(59)) == {ORDERS: after(60)}
    assert ledger.meters.refusals("run-1", after(60)) == {}
    assert ledger.meters.refusals("run-2", NOON) == {}
