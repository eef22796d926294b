"""A log of the MQI calls and PCF commands of this process, for tests of what a program never does.

A PCF command follows the MQPUT that sent it, or the MQCMIT that made it visible.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

_OPTIONS = slice(8, 12)
"""Where the MQGMO and the MQPMO have their options."""


class LoggedCall(NamedTuple):
    """One call: `verb` is an MQI call or an MQCMD, `name` that of the object as it was opened.

    `connection` is the number of the connection at its queue manager, for an MQCMD that of the
    command server; `options` are those of MQOPEN, MQGET, MQPUT and MQPUT1.
    """

    connection: int
    verb: str
    name: str = ""
    options: int = 0


_logs: list[list[LoggedCall]] = []


@contextmanager
def log_of_calls() -> Iterator[list[LoggedCall]]:
    """List the calls of this process, of all its threads, during the block."""
    log: list[LoggedCall] = []
    _logs.append(log)
    try:
        yield log
    finally:
        _logs[:] = [other for other in _logs if other is not log]


def is_on() -> bool:
    """Return whether a block lists the calls."""
    return bool(_logs)


def note(connection: int, verb: str, name: str, arguments: Sequence[Any] = ()) -> None:
    """Add a call that starts, with the arguments of its operation."""
    options = 0
    if verb == "MQOPEN":
        options = arguments[1]
    elif verb in {"MQGET", "MQPUT", "MQPUT1"}:
        options = int.from_bytes(arguments[2][_OPTIONS], sys.byteorder)
    for log in _logs:
        log.append(LoggedCall(connection, verb, name, options))
