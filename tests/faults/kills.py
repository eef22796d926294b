"""The steps of an execution at which a child may be killed, counted and chosen."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import event

import embedded_mq
from mqdlq.ledger import Ledger

CALLS = (
    "MQCONNX",
    "MQGET[DLQ]",  # browses and gets
    "MQPUT1[PAYMENTS]",
    "MQPUT1[ORDERS]",
    "MQPUT1[PARKED]",
    "MQPUT1[SMALL]",
    "MQINQ[PAYMENTS]",  # by ramps, and by the limit in_flight
    "MQPUT1[MQDLQ.STATE]",  # markers put
    "MQGET[MQDLQ.STATE]",  # markers read, and cleared
    "MQCMIT",
    "MQBACK",
    "MQCLOSE",
    "MQDISC",
)
LEDGER = ("statement", "commit", "begin")
BY_CHANCE = "by chance"
WEIGHTS = {"MQCMIT": 4, "statement": 3, "commit": 3, BY_CHANCE: 3}
"""How often a kind of step is chosen: most often where what happened is hardest to tell."""


@dataclass(frozen=True)
class Kill:
    """Where a child dies: at the nth of some step, before or after it, or by chance."""

    step: str
    nth: int = 0
    when: str = "before"
    after_s: float = 0.0

    def __str__(self) -> str:
        if self.step == BY_CHANCE:
            return f"{self.step}, after {self.after_s * 1000:.1f} ms"
        return f"{self.when} {self.step} number {self.nth}"

    def prepare(self, ledger: Ledger) -> None:
        """Make this process die there."""
        if self.step in CALLS:
            embedded_mq.faults.set(f"{self.step}:{self.nth}:kill:{self.when}")
        elif self.step in LEDGER:
            count_ledger(ledger, self._die_at_last, self.when)

    def _die_at_last(self, step: str, number: int) -> None:
        if (step, number) == (self.step, self.nth):
            os.kill(os.getpid(), signal.SIGKILL)


def count_ledger(ledger: Ledger, tell: Callable[[str, int], None], when: str = "before") -> None:
    """Call `tell` with each step of the ledger and its number: statements, commits, begins.

    A begin comes after the commit before it, and before anything is done.
    """
    numbers: Counter[str] = Counter()

    def note(step: str) -> None:
        numbers[step] += 1
        tell(step, numbers[step])

    name = "before_cursor_execute" if when == "before" else "after_cursor_execute"
    event.listen(ledger.engine, name, lambda *_: note("statement"))
    event.listen(ledger.engine, "commit", lambda *_: note("commit"))
    event.listen(ledger.engine, "begin", lambda *_: note("begin"))


def count_calls() -> None:
    """Count the MQ calls of this process from now on."""
    never = 999_999_999
    embedded_mq.faults.set(",".join(f"{call}:{never}:kill:before" for call in CALLS))


def calls_counted() -> Counter[str]:
    """Return how many there were of each kind."""
    return Counter({CALLS[place]: number for place, number in embedded_mq.faults._calls.items()})
