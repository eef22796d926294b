"""Interrupting a run by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from mqdlq.cli.certify import Interruption, interruptible

NUMBERS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("next_call", [Interruption.check, lambda found: found.sleep(0)])
def test_an_interruption_ends_the_run_at_its_next_check(
    number: signal.Signals, next_call: Callable[[Interruption], None]
) -> None:
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt):
        interrupt(number, next_call)

    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", NUMBERS)
def test_a_second_interruption_ends_a_call_that_does_not_return(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(number, lambda _: signal.raise_signal(number))


def interrupt(number: signal.Signals, next_call: Callable[[Interruption], None]) -> None:
    with interruptible() as interruption:
        interruption.check()
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            pytest.fail("a unit of work stays open")
        next_call(interruption)
        pytest.fail("the run goes on")
