"""Errors of MQI calls, with their completion code and reason code."""

import logging

from embedded_mq.constants import MQRC, reason_text

MQCC_OK, MQCC_WARNING, MQCC_FAILED = 0, 1, 2

log = logging.getLogger("embedded_mq")


class CallFailedError(Exception):
    """A call fails with MQCC_FAILED and this reason code, and has changed nothing."""

    def __init__(self, reason: str | int) -> None:
        """Take the name of a reason code (``MQRC_Q_FULL``), or the number that a fault sets."""
        self.completion = MQCC_FAILED
        self.reason = MQRC[reason] if isinstance(reason, str) else reason
        super().__init__(reason_text(self.reason))


def not_emulated(feature: str, reason: str = "MQRC_OPTIONS_ERROR") -> CallFailedError:
    """Return the error of a function that is not emulated, and log it."""
    log.warning("%s is not emulated; the call fails with %s", feature, reason_text(MQRC[reason]))
    return CallFailedError(reason)


def check_bits(value: int, known: int, family: str, names: dict[int, str]) -> None:
    """Refuse option bits outside `known`, and log their names (MQRC_OPTIONS_ERROR)."""
    unknown = value & ~known
    if unknown:
        bits = [1 << place for place in range(unknown.bit_length()) if unknown >> place & 1]
        named = ", ".join(names.get(bit, f"{family} bit {bit:#x}") for bit in bits)
        raise not_emulated(named)
