"""The old names that still work for one release, declared once, each with its new name.

Nothing but these tables knows an old name. `docs/adr/0021-say-one-term-for-one-thing.md` has the
reasons. The ledger is not among them: a revision of its schema renames what it holds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

REMOVED_IN: Final = "0.2.0"
"""The release of mqdlq that no longer takes the old names."""

KEYS: Final = {
    "attempts": "count_attempts",
    "messages_in_a_unit": "max_messages_per_unit",
    "approval.within": "timeout",
    "alerts.notify.on": "events",
}
"""Keys of a handler's YAML file: the path of the old key, and its new name."""

CHOICES: Final = {
    "count_attempts": {"run": "per_run", "ledger": "across_runs"},
    "alerts.notify.events": {"conservation": "unaccounted"},
}
"""Values of such keys, by the path of the key."""

OPTIONS: Final = {"--needs-a-person": "--needs-attention", "--park": "--parking-queue"}
"""Options of commands."""

STORED: Final = {
    "no_rule": "unmatched",
    "left_no_rule": "unmatched",
    "owned_by_run": "leased_by_run",
}
"""Values in the plans and snapshots of a lake. They are read without a warning."""

MANIFEST: Final = {"parked": "settled"}
"""Fields of a snapshot's manifest, up to schema version 2."""

_warned: set[str] = set()


def sentence(old: str, new: str) -> str:
    """Return the warning about an old name."""
    return f"{old} is now {new}; mqdlq {REMOVED_IN} will no longer take {old}"


def warn_once(text: str) -> None:
    """Log a warning, once in a process."""
    if text not in _warned:
        _warned.add(text)
        logging.getLogger("mqdlq").warning("%s", text)


def old_options(arguments: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the old options among a command's arguments, with their new names."""
    given = {argument.partition("=")[0] for argument in arguments}
    return {old: new for old, new in OPTIONS.items() if old in given and new in known}
