"""A queue manager with a dead-letter queue for each handler of the long tests, and those handlers.

A handler for each thing that may befall one, so that what one test leaves is in no other's way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from mqdlq.headers import DeadLetterHeader
from tests.support.world import DEFINITIONS, World

CONNECTION: Final = json.dumps(
    {"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}
)
POOL: Final = "one_at_a_time"
_WAIT: Final = "WAIT(300) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n"
_ASK: Final = "WAIT(NO) RETRYINT(2)\nDESTQ(QUOTES) ACTION(DISCARD)\nACTION(IGNORE)\n"

TABLES: Final = {
    "plain": "WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(QUOTES) ACTION(DISCARD)\n",
    "ask": _ASK,
    "silent": _ASK,
    "race": _WAIT,
    "change": _WAIT,
    "outlive": _WAIT,
    "onward": "WAIT(40) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n",
    "always": "RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n",
    "event": "RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n",
    "retry": (
        "WAIT(NO) RETRYINT(14)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
        "DESTQ(CLOSED) ACTION(FWD) FWDQ(PARKED)\n"
    ),
    "overlap": (
        "WAIT(NO) RETRYINT(900)\nDESTQ(CLOSED) ACTION(RETRY) RETRY(2)\n"
        "DESTQ(PAYMENTS) ACTION(RETRY)\n"
    ),
    "ramp": "WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n",
}
"""The handlers' tables, but for the name of the queue."""

KEYS: Final = {
    "plain": f"pool: {POOL}\n",
    "ask": "approval: {discard: yes, timeout: PT30M}\n",
    "silent": "approval: {discard: yes, timeout: PT30S}\n",
    "always": "schedule: '@continuous'\nrescan_interval: P1D\n",
    "event": "schedule: event\nrescan_interval: P1D\n",
    # Nothing else could take the second message.
    "onward": "schedule: '0 0 1 1 *'\n",
    "retry": "task_retries: 2\n",
    "ramp": "ramp: {steps: [1, 3], watch: PT12S}\n",
}


class Place:
    """The queue manager QM1 with the queues, and the handlers' files."""

    def __init__(self, directory: Path) -> None:
        self.world = World(directory, definitions=DEFINITIONS)
        self.rules = directory / "rules"
        self.rules.mkdir(exist_ok=True)
        for name, table in TABLES.items():
            self.world.mqsc(f"DEFINE QLOCAL(DLQ.{name.upper()})")
            (self.rules / f"{name}.rules").write_text(f"INPUTQ(DLQ.{name.upper()}) {table}")
            (self.rules / f"{name}.yaml").write_text(
                f"connection: mq_long\nrules: {name}.rules\n{KEYS.get(name, '')}"
            )

    def put(self, handler: str, dest_q: str) -> None:
        """Put a dead letter for this destination on a handler's queue."""
        header = DeadLetterHeader(
            2053, dest_q, "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
        )
        body = header.encode(encoding=546, ccsid=819) + dest_q.encode()
        fields: dict[str, Any] = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819}
        self.world.put(f"DLQ.{handler.upper()}", body, **fields)

    def depths(self, *queues: str) -> tuple[int, ...]:
        return self.world.depths(*queues)
