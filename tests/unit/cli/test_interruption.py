"""Interrupting a run by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from mqdlq.cli.certify.interruption import interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_python_drops_ends_the_run_at_the_next_check(
    number: signal.Signals,
) -> None:
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt):
        run_that_drops_an_interruption(number)

    assert signal.getsignal(number) is before


def run_that_drops_an_interruption(number: signal.Signals) -> None:
    with interruptible() as interruption:
        with suppress(KeyboardInterrupt):  # as Python does in a destructor
            signal.raise_signal(number)
        interruption.check()
        pytest.fail("the run goes on")
