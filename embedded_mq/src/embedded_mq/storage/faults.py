"""Faults for tests: chosen calls fail with a reason code, are delayed, lie, or kill the process.

A fault has the form ``VERB:N:WHAT:WHEN`` or ``VERB[QUEUE]:N:WHAT:WHEN``:

- VERB is the MQI call, QUEUE the name of the queue by which it was opened; without QUEUE, all calls
  of the verb count;
- N is the Nth call after the fault is set, from 1; ``N+`` means the Nth and all later calls;
- WHAT is the number of a reason code, ``kill`` (SIGKILL), ``delay=SECONDS``, or the name of a lie
  (`lies`), for one of its verbs;
- WHEN is ``before`` or ``after`` the call takes effect. MQRC_BACKED_OUT before MQCMIT backs out
  the unit of work, MQRC_CONNECTION_BROKEN breaks the connection.

The name of a lie alone, such as ``commit-lost``, stands for all calls of all its verbs. Several
faults are separated by commas. `faults.set` sets them for this process, as does the
environment variable EMBEDDED_MQ_FAULTS (or MQDLQ_FAULTS) at its start, for example
``MQCMIT:2:2009:after``. The command ``SET FAULT('MQCMIT:2:2009:after')`` sets them for all programs
that use the queue manager.
"""

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass
from threading import RLock

from embedded_mq.constants import MQRC
from embedded_mq.engine.connection import Connection
from embedded_mq.engine.failures import CallFailedError
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage.lies import LIES, expanded

ENVIRONMENT = ("EMBEDDED_MQ_FAULTS", "MQDLQ_FAULTS")
KILL, DELAY = "kill", "delay="
_FORM = re.compile(
    r"(?P<verb>MQ[A-Z0-9]+)(?:\[(?P<queue>[A-Za-z0-9._/%]{1,48})\])?:(?P<nth>[1-9]\d*)(?P<onwards>\+?)"
    r":(?P<what>\d+|kill|delay=\d+(?:\.\d+)?|[a-z-]+):(?P<when>before|after)"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; without a queue it applies to calls on any object."""

    verb: str
    nth: int
    what: str
    when: str
    queue: str = ""
    is_lasting: bool = False

    def applies_to(self, verb: str, queue: str) -> bool:
        """Return whether the fault counts a call."""
        return self.verb == verb and self.queue in {"", queue}

    def is_due(self, calls: int) -> bool:
        """Return whether the fault takes effect at the call with this number."""
        return calls == self.nth or (self.is_lasting and calls > self.nth)


class Faults:
    """The pending faults of this process, with the calls counted so far."""

    def __init__(self, text: str = "") -> None:
        """Parse the faults from text in the form of this module's docstring."""
        self._pending: list[Fault] = []
        self._calls: Counter[int] = Counter()
        self._lock = RLock()  # Python may delete a handle here, whose MQCLOSE comes here, too
        self.set(text)

    def set(self, text: str) -> None:
        """Replace all faults and start counting; empty text removes them."""
        self._pending = [parse(part) for part in split(text)]
        self._calls.clear()

    def __bool__(self) -> bool:
        """Return whether faults are pending."""
        return bool(self._pending)

    def due(self, verb: str, queue: str) -> list[Fault]:
        """Count a starting call, and return the faults that take effect at it."""
        found = []
        with self._lock:  # threads count together
            for place, fault in enumerate(self._pending):
                if fault.applies_to(verb, queue):
                    self._calls[place] += 1
                    if fault.is_due(self._calls[place]):
                        found.append(fault)
        return found


def queue_manager_faults_due(connection: Connection, verb: str, queue: str) -> list[Fault]:
    """Do the same with the queue manager's faults; a fault for a single call is then removed."""
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
    """Apply the faults of a call; this may raise CallFailedError or kill the process."""
    for fault in found:
        if fault.when != when:
            continue
        if fault.what == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.what.startswith(DELAY):
            time.sleep(float(fault.what.removeprefix(DELAY)))
        elif fault.what not in LIES:
            _fail(int(fault.what), fault, connection)


def _fail(reason: int, fault: Fault, connection: Connection | None) -> None:
    if connection is not None:
        if reason == MQRC["MQRC_CONNECTION_BROKEN"]:
            connection.break_connection()
        elif reason == MQRC["MQRC_BACKED_OUT"] and (fault.verb, fault.when) == ("MQCMIT", "before"):
            connection.back_out()
    raise CallFailedError(reason)


def split(text: str) -> list[str]:
    """Return the text of each fault in a list of faults and names of lies."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [fault for part in parts for fault in expanded(part)]


def parse(text: str) -> Fault:
    """Parse one fault."""
    match = _FORM.fullmatch(text)
    what = match["what"] if match else ""
    is_known = what[:1].isdigit() or what == KILL or what.startswith(DELAY) or what in LIES
    if match is None or not is_known:
        raise EmbeddedQueueManagerError(
            f"{text!r} is not a fault; use VERB:N:REASON|kill|delay=SECONDS|LIE:before|after,"
            " with VERB[QUEUE] for one queue and N+ for the Nth and all later calls,"
            " for example MQCMIT:2:2009:after; or the name of a LIE alone, such as commit-lost"
        )
    if what in LIES and (match["verb"] not in LIES[what].verbs or match["when"] != "before"):
        raise EmbeddedQueueManagerError(
            f"{text!r} is not a fault; use {what} with before and"
            f" {' or '.join(LIES[what].verbs)}, for example {LIES[what].verbs[0]}:1+:{what}:before"
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
