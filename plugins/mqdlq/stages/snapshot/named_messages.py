"""The messages that a run names: which of them the run can act on, by its snapshot.

Without this check, a key of no message would look like a message that needed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mqdlq.errors import HandlerError
from mqdlq.lake import snapshot_rows
from mqdlq.ledger import Run
from mqdlq.model import MessageClass
from mqdlq.plan import needs_a_dlh
from mqdlq.rules import parse

_SHOWN = 12
"""As many digits of a message_key tell messages apart for people."""


def check_named(run: Run, location: str) -> Iterator[str]:
    """Yield warnings about named messages that the run will not act on.

    Raises HandlerError where none of them is on the queue, and where the given action cannot be
    carried out on one of them.
    """
    named = run.named
    if not named:
        return
    classes = _classes(run, location)
    place = f"{run.queue} of {run.queue_manager}"
    if not classes:
        raise HandlerError(
            "MQDLQ-120",
            f"none of the messages named in message_keys is on {place}: they have left the queue,"
            " or the keys are not those of the JSON report; name messages that are on the queue",
        )
    if absent := named - set(classes):
        yield f"{len(absent)} of {len(named)} named messages are not on {place}: {_shown(absent)}"
    if run.has_given_action:
        check_action(run, location)
    elif without := _without_a_dlh(classes):
        yield (
            f"{len(without)} of {len(named)} named messages have no valid MQDLH, so that no rule"
            f" applies to them; they stay unless `action` is given: {_shown(without)}"
        )


def check_action(run: Run, location: str) -> None:
    """Raise HandlerError where an action is given that cannot be carried out on a named message."""
    if not run.has_given_action:
        return
    without = _without_a_dlh(_classes(run, location))
    if without and (needed := needs_a_dlh(parse(run.rules_text).rules[0])):
        raise HandlerError(
            "MQDLQ-121",
            f"{needed} is refused for {len(without)} of {len(run.named)} named messages, which"
            f" have no valid MQDLH: {_shown(without)}; forward such messages to a queue given by"
            " its name, discard or ignore them",
        )


def _classes(run: Run, location: str) -> dict[bytes, str]:
    """Return the classes of the named messages in a snapshot by key."""
    named = run.named
    return {
        row["message_key"]: row["class"]
        for row in snapshot_rows(location, ["message_key", "class"])
        if row["message_key"] in named
    }


def _without_a_dlh(classes: Mapping[bytes, str]) -> list[bytes]:
    return [key for key, cls in classes.items() if cls != MessageClass.DEAD_LETTER]


def _shown(keys: Iterable[bytes]) -> str:
    return ", ".join(f"{key[:_SHOWN]}…" for key in sorted(key.hex() for key in keys))
