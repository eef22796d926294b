"""Hostile headers: their cost for each byte, compared with SHA-256 of the same bytes.

Each kind of tests/support/wire/hostile_messages.py is built at a hundredth, a tenth and the whole
of its hostile size. `read` is mqdlq's decoding of all headers (`describe`), `browsed` the embedded
queue manager's part of an MQGET with a message handle, which extracts properties from MQRFH2s. A
ratio is processor time divided by that of the hash. `growth` is the cost of a byte at full size
divided by that at a tenth: 1 is linear, 10 quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from time import process_time
from typing import Any

from embedded_mq.engine.messages.delivery import locate_rfh2_headers
from embedded_mq.structures import MQMD
from mqdlq.headers import DeadLetterHeader, describe
from tests.support.wire.hostile_messages import GROWING

SIZES = (100, 10, 1)
LETTER = DeadLetterHeader(2053, "PAYMENTS", "QM1", put_date="20261121", put_time="11000000")
ENOUGH_S = 0.02
"""The time of repetitions, long compared with the clock's resolution."""


def measure() -> dict[str, Any]:
    """Return ratios to the floor, and the growth of the cost of a byte with the size."""
    kinds = {name: of_kind(name) for name in GROWING}
    return {
        "kinds": kinds,
        "worst_read_growth": max(kind["read_growth"] for kind in kinds.values()),
        "worst_browsed_growth": max(kind["browsed_growth"] for kind in kinds.values()),
    }


def of_kind(name: str) -> dict[str, Any]:
    """Return the cost of one kind of headers at each size."""
    _, count = GROWING[name]
    costs = [cost(name, max(1, count // divisor)) for divisor in SIZES]
    _, tenth, full = costs
    return {
        "bytes": [each["bytes"] for each in costs],
        "read_ratios": [each["read"] / each["hash"] for each in costs],
        "browsed_ratios": [each["browsed"] / each["hash"] for each in costs],
        "read_growth": full["read"] / tenth["read"],
        "browsed_growth": full["browsed"] / tenth["browsed"],
    }


def cost(name: str, count: int) -> dict[str, float]:
    """Return nanoseconds of processor time for a byte."""
    hostile = GROWING[name][0](count)
    body = hostile.behind(LETTER)
    md = MQMD.unpack(bytes(MQMD.length))
    md.encoding, md.coded_char_set_id, md.format = 546, 1208, b"MQDEAD  "
    return {
        "bytes": len(body),
        "hash": per_byte(lambda: sha256(body), body),
        "read": per_byte(
            lambda: describe(body, len(body), encoding=546, ccsid=819, format="MQDEAD"),
            body,
        ),
        "browsed": per_byte(lambda: browsed(md, body), body),
    }


def browsed(md: MQMD, body: bytes) -> None:
    """Extract the properties from a body, like MQGET."""
    around = locate_rfh2_headers(md, body)
    around.properties()
    around.rebuild(md.copy(), body, [])


def per_byte(done: Callable[[], object], body: bytes) -> float:
    """Repeat a function for long enough, and return nanoseconds for each byte."""
    times, started = 0, process_time()
    while (passed := process_time() - started) < ENOUGH_S:
        done()
        times += 1
    return passed * 1e9 / times / len(body)
