"""A run that names its messages and its snapshot in, what a person should know of those names out.

A name that is nobody's would otherwise pass for a message that needed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqdlq.errors import HandlerError
from mqdlq.lake import parked_rows, snapshot_rows
from mqdlq.ledger import Run

_SHOWN = 12
"""As many digits of a message_key tell messages apart for people."""


def told_of_named(run: Run, location: str) -> Iterator[str]:
    """Yield what is to be told of named messages that will not be acted on.

    Raises HandlerError where not one of them is on the queue.
    """
    named = set(run.message_keys)
    if not named:
        return
    full = {row["message_key"].hex() for row in snapshot_rows(location, ["message_key"])}
    settled = {
        key.hex()
        for batch in parked_rows(location, ["message_key"])
        for key in batch.column("message_key").to_pylist()
    }
    place = f"{run.queue} of {run.queue_manager}"
    absent = sorted(named - full - settled)
    if len(absent) == len(named):
        raise HandlerError(
            f"of the messages named in message_keys none is on {place}: they have left it, or the"
            " keys are not those of the JSON report's `message_key`"
        )
    if absent:
        yield f"{len(absent)} of {len(named)} named messages are not on {place}: {_shown(absent)}"
    if waiting := sorted(named & settled - full):
        yield (
            f"{len(waiting)} of {len(named)} named messages are settled under these rules and stay"
            f" as they are, unless `action` or other rules are given: {_shown(waiting)}"
        )


def _shown(keys: list[str]) -> str:
    return ", ".join(f"{key[:_SHOWN]}…" for key in keys)
