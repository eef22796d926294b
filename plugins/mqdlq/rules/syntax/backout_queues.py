"""Find the parts of a rule that have no meaning for the messages on a backout queue.

These messages have no MQDLH: nothing says why they were backed out, or where they were to go. A
rule can forward them unchanged to a queue that it names, discard them, or ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mqdlq.model import Action, QueueKind
from mqdlq.rules.diagnostics import shortened
from mqdlq.rules.keywords import KNOWN

_WHY: Final = "which messages on a backout queue do not have"

MISSING_INPUT_QUEUE: Final = (
    "the table of a backout queue names no INPUTQ; add control data such as INPUTQ(ORDERS.BACKOUT)"
)


def find_needs_of_dlh(values: Mapping[str, str | int | None]) -> Iterator[tuple[str, str]]:
    """Yield each keyword of a rule that needs an MQDLH, with the error; None is a faulty value."""
    for name, value in values.items():
        if needed := _need_of_dlh(name, value):
            yield name, needed


def _need_of_dlh(name: str, value: str | int | None) -> str:
    keyword = KNOWN[name]
    if keyword.is_extension and not keyword.column_on(QueueKind.BACKOUT):
        return f"{name} compares {keyword.field}, for which it needs an MQDLH, {_WHY}; remove it"
    if keyword.is_pattern and not keyword.column_on(QueueKind.BACKOUT):
        return f"{name} compares MQDLH.{keyword.field}, {_WHY}; remove the pattern"
    if name == "ACTION" and value == Action.RETRY:
        return (
            f"ACTION(RETRY) needs the destination in the MQDLH, {_WHY}; use ACTION(FWD) with FWDQ"
        )
    if name == "HEADER":
        return f"HEADER keeps or removes the MQDLH, {_WHY}; remove it"
    if name in ("FWDQ", "FWDQM") and str(value).startswith("&"):
        what = "queue" if name == "FWDQ" else "queue manager"
        return (
            f"{name}({shortened(str(value))}) takes the target from the message, which rules of a"
            f" dead-letter queue do; name a {what}"
        )
    return ""
