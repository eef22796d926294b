"""Declare behaviours of a queue manager on which the handler relies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from mqdlq.stages.certify.bench import Bench

Check = Callable[[Bench], str | None]
"""Try a behaviour; return a remark for the report, or None.

Raises DeviationError, NotTriedError, or QueueManagerError for a call that must not fail.
"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A behaviour: its name, the statement that holds, and what a difference means."""

    name: str
    statement: str
    consequence: str
    check: Check


def behaviour(consequence: str) -> Callable[[Check], Behaviour]:
    """Turn the decorated function into a behaviour.

    Its docstring's first line is the statement. `consequence` says what a difference means for the
    handler, and what to do.
    """

    def declare(check: Check) -> Behaviour:
        statement = (inspect.getdoc(check) or "").partition("\n")[0]
        return Behaviour(check.__name__, statement, consequence, check)

    return declare
