"""The messages that a run names: which of them the run can act on, by its snapshot.

Without this check, a key of no message would look like a message that needed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    classes = {
        row["message_key"]: row["class"]
        for row in snapshot_rows(location, ["message_key", "class"])
        if row["message_key"] in named
    }
    place = f"{run.queue} of {run.queue_manager}"
    if not classes:
        raise HandlerError(
            f"of the messages named in message_keys none is on {place}: they have left it, or the"
            " keys are not those of the JSON report's `message_key`"
        )
    if absent := named - set(classes):
        yield f"{len(absent)} of {len(named)} named messages are not on {place}: {_shown(absent)}"
    without = [key for key, cls in classes.items() if cls != MessageClass.DEAD_LETTER]
    if not without:
        return
    which = f"{len(without)} of {len(named)} named messages"
    if not run.has_given_action:
        yield (
            f"{which} have no valid MQDLH, so that no rule applies to them; they stay unless"
            f" `action` is given: {_shown(without)}"
        )
    elif needed := needs_a_dlh(parse(run.rules_text).rules[0]):
        raise HandlerError(
            f"{needed} is refused for {which}: without a valid MQDLH a message can only be"
            f" forwarded to a queue given by its name, discarded or ignored: {_shown(without)}"
        )


def _shown(keys: Iterable[bytes]) -> str:
    return ", ".join(f"{key[:_SHOWN]}…" for key in sorted(key.hex() for key in keys))
