"""Check which of the messages that a run names are on its queue and can be acted on.

Without this check, a wrong message key would look like a message without work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mqdlq.errors import HandlerError
from mqdlq.lake import snapshot_rows
from mqdlq.ledger.tables.runs import Run
from mqdlq.model import MessageClass, QueueKind
from mqdlq.plan import needs_a_dlh
from mqdlq.rules import parse

_STRAYS: Final = {
    QueueKind.DEAD_LETTER: "have no valid MQDLH",
    QueueKind.BACKOUT: "begin with an MQDLH",
}
_REPAIRABLE: Final = (MessageClass.DEAD_LETTER, MessageClass.NO_DLH)
_SHOWN_DIGITS = 12
"""How many digits of a message_key are shown; they distinguish messages well enough for people."""


def check_named_messages(run: Run, location: str) -> Iterator[str]:
    """Yield warnings about named messages that the run will not act on.

    Raises HandlerError if none of them is on the queue, or if the given action cannot be carried
    out on one of them.
    """
    named = run.named
    if not named:
        return
    classes = _classify_named_messages(run, location)
    place = f"{run.queue} of {run.queue_manager}"
    if not classes:
        raise HandlerError(
            "MQDLQ-120",
            f"none of the messages named in message_keys is on {place}: they have left the queue,"
            " or the keys are not those of the JSON report; name messages that are on the queue",
        )
    if absent := named - set(classes):
        keys = _format_keys(absent)
        yield f"{len(absent)} of {len(named)} named messages are not on {place}: {keys}"
    if run.has_given_action:
        check_given_action(run, location)
    elif strays := [key for key, cls in classes.items() if cls != run.queue_kind.acts_on]:
        yield (
            f"{len(strays)} of {len(named)} named messages {_STRAYS[run.queue_kind]}, so that no"
            f" rule applies to them; they stay unless `action` is given: {_format_keys(strays)}"
        )


def check_given_action(run: Run, location: str) -> None:
    """Raise HandlerError if a given action cannot be carried out on a named message."""
    if not run.has_given_action:
        return
    classes = _classify_named_messages(run, location)
    if run.repair and (invalid := [key for key, cls in classes.items() if cls not in _REPAIRABLE]):
        raise HandlerError(
            "MQDLQ-522",
            f"repair is refused for {len(invalid)} of {len(run.named)} named messages, whose MQDLH"
            f" is not valid: {_format_keys(invalid)}; name messages with a valid MQDLH or with"
            " none",
        )
    without = _find_without_dlh(classes)
    if without and (needed := needs_a_dlh(parse(run.rules_text, frozen=True).rules[0])):
        raise HandlerError(
            "MQDLQ-121",
            f"{needed} is refused for {len(without)} of {len(run.named)} named messages, which"
            f" have no valid MQDLH: {_format_keys(without)}; forward such messages to a queue given"
            " by its name, discard or ignore them",
        )


def _classify_named_messages(run: Run, location: str) -> dict[bytes, str]:
    """Return the classes of the named messages in a snapshot by key."""
    named = run.named
    return {
        row["message_key"]: row["class"]
        for row in snapshot_rows(location, ["message_key", "class"])
        if row["message_key"] in named
    }


def _find_without_dlh(classes: Mapping[bytes, str]) -> list[bytes]:
    return [key for key, cls in classes.items() if cls != MessageClass.DEAD_LETTER]


def _format_keys(keys: Iterable[bytes]) -> str:
    return ", ".join(f"{key[:_SHOWN_DIGITS]}…" for key in sorted(key.hex() for key in keys))
