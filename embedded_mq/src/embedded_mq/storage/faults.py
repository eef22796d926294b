"""Failures on demand: chosen calls fail with a reason code, take their time, or kill the process.

A fault is written ``VERB:N:WHAT:WHEN`` or ``VERB[QUEUE]:N:WHAT:WHEN``:

- VERB is the MQI call, QUEUE the name it opens or has opened: without one any call of the verb;
- N is the Nth such call from when the fault is set, counting from 1; ``N+`` the Nth and all later;
- WHAT is a reason code's number, ``kill`` (SIGKILL), ``delay=SECONDS``, or, for MQGET, ``trace``:
  a message that is got, not browsed, has other properties `traceparent` and `tracestate` than
  before, as IBM MQ for z/OS gives it with OTELTRAC(ON);
- WHEN is ``before`` or ``after`` the call has had its effect. MQRC_BACKED_OUT before MQCMIT backs
  the unit of work out, MQRC_CONNECTION_BROKEN breaks the connection.

Several are separated by commas. They can be set for this process, by `faults.set` or from its start
by the environment variable EMBEDDED_MQ_FAULTS (or MQDLQ_FAULTS): ``MQCMIT:2:2009:after``. And they
can be set for a queue manager, whichever program makes the call, by the command
``SET FAULT('MQCMIT:2:2009:after')``.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass

from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.errors import EmbeddedQueueManagerError

ENVIRONMENT = ("EMBEDDED_MQ_FAULTS", "MQDLQ_FAULTS")
KILL, DELAY, TRACE = "kill", "delay=", "trace"
_FORM = re.compile(
    r"(?P<verb>MQ[A-Z0-9]+)(?:\[(?P<queue>[A-Za-z0-9._/%]{1,48})\])?:(?P<nth>[1-9]\d*)(?P<onwards>\+?)"
    r":(?P<what>\d+|kill|delay=\d+(?:\.\d+)?|trace):(?P<when>before|after)"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure to come; no queue means any."""

    verb: str
    nth: int
    what: str
    when: str
    queue: str = ""
    is_lasting: bool = False

    def applies_to(self, verb: str, queue: str) -> bool:
        """Whether a call counts."""
        return self.verb == verb and self.queue in {"", queue}

    def is_due(self, calls: int) -> bool:
        """Whether it strikes at the call of this number."""
        return calls == self.nth or (self.is_lasting and calls > self.nth)


class Faults:
    """The failures to come in this process, and the calls counted so far."""

    def __init__(self, text: str = "") -> None:
        """Read the faults from text, in the form of this module's docstring."""
        self._pending: list[Fault] = []
        self._calls: Counter[int] = Counter()
        self.set(text)

    def set(self, text: str) -> None:
        """Replace all faults and count calls from here; no text means none."""
        self._pending = [parse(part.strip()) for part in text.split(",") if part.strip()]
        self._calls.clear()

    def __bool__(self) -> bool:
        """Whether any are pending."""
        return bool(self._pending)

    def due(self, verb: str, queue: str) -> list[Fault]:
        """Count a call that begins; returns the faults that strike at it."""
        found = []
        for place, fault in enumerate(self._pending):
            if fault.applies_to(verb, queue):
                self._calls[place] += 1
                if fault.is_due(self._calls[place]):
                    found.append(fault)
        return found


def queue_manager_faults_due(connection: Connection, verb: str, queue: str) -> list[Fault]:
    """Do the same with the faults set for the queue manager; one that strikes once is used up."""
    store = connection.store
    if not store.catalogue().has_faults:
        return []
    found = []
    with store.transaction():
        for fault_id, text, calls in store.execute("SELECT * FROM fault").fetchall():
            fault = parse(text)
            if not fault.applies_to(verb, queue):
                continue
            store.execute("UPDATE fault SET calls = calls + 1 WHERE fault_id = ?", (fault_id,))
            if fault.is_due(calls + 1):
                found.append(fault)
                if not fault.is_lasting:
                    store.execute("DELETE FROM fault WHERE fault_id = ?", (fault_id,))
                    store.definitions_changed()
    return found


def apply_faults(found: list[Fault], when: str, connection: Connection | None) -> None:
    """Let the faults of a call happen; raises CallFailedError, or does not return at all."""
    for fault in found:
        if fault.when != when:
            continue
        if fault.what == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.what.startswith(DELAY):
            time.sleep(float(fault.what.removeprefix(DELAY)))
        elif fault.what == TRACE:
            if connection is not None:
                connection.changes_trace = True
        else:
            _fail(int(fault.what), fault, connection)


def _fail(reason: int, fault: Fault, connection: Connection | None) -> None:
    if connection is not None:
        if reason == MQRC["MQRC_CONNECTION_BROKEN"]:
            connection.break_connection()
        elif reason == MQRC["MQRC_BACKED_OUT"] and (fault.verb, fault.when) == ("MQCMIT", "before"):
            connection.back_out()
    raise CallFailedError(reason)


def parse(text: str) -> Fault:
    """Read one fault."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise EmbeddedQueueManagerError(
            f"{text!r} is not a fault: VERB:N:REASON|kill|delay=SECONDS|trace:before|after is, with"
            " VERB[QUEUE] for one queue and N+ for the Nth call and all later,"
            " for example MQCMIT:2:2009:after"
        )
    if match["what"] == TRACE and (match["verb"], match["when"]) != ("MQGET", "before"):
        raise EmbeddedQueueManagerError(
            f"{text!r} is not a fault: trace is for MQGET and before, for example"
            " MQGET:1+:trace:before"
        )
    return Fault(
        match["verb"],
        int(match["nth"]),
        match["what"],
        match["when"],
        match["queue"] or "",
        bool(match["onwards"]),
    )


faults = Faults(next((os.environ[name] for name in ENVIRONMENT if name in os.environ), ""))
"""The faults of this process."""
