"""A handler and the digest of its rules in, whether its files hold other rules by now out."""

from __future__ import annotations

import logging
from pathlib import Path

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.rules import parse

log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int] | None, ...]


class RulesWatch:
    """Reads the rules only when the time or the size of a file has changed since the last look.

    Rules are others when their digest is: a comment changes nothing. What cannot be read, or is
    not valid, is told once and changes nothing either, since no run could begin with it.
    """

    def __init__(self, handler: str, rules: str | None, digest: str) -> None:
        """Watch a handler's own table, or the one beside it that was named for the run."""
        self._handler = handler
        self._rules = rules
        self._digest = digest
        self._seen: tuple[Path, ...] = ()
        self._stamp: Stamp = ()
        self._told = ""

    def have_changed(self) -> bool:
        """Look at the files; reading them is left out while they look as they did."""
        if not self._digest:
            return False  # the run's rules were given to it, and are in no file
        if self._seen and stamp(self._seen) == self._stamp:
            return False
        try:
            handler = load_handler(self._handler)
            files = files_of(handler, self._rules)
            # Taken before the reading: what changes meanwhile is seen at the next look.
            self._seen, self._stamp = files, stamp(files)
            source, text = handler.rules_text(self._rules)
            has_changed = parse(text, source).digest != self._digest
        except MqDlqError as error:
            self._stamp = stamp(self._seen)
            if str(error) != self._told:
                self._told = str(error)
                log.warning(
                    "the rules of %s cannot be read now; the run waits with the rules that it has"
                    " read: %s [MQDLQ-128]",
                    self._handler,
                    error.text,
                )
            return False
        self._told = ""
        return has_changed


def files_of(handler: Handler, rules: str | None = None) -> tuple[Path, ...]:
    """Return the files that say what a handler does: its own, and its table or another's name."""
    own = handler.directory / f"{handler.name}.yaml"
    named = rules or handler.rules
    return (own, handler.directory / named) if named else (own,)


def stamp(files: tuple[Path, ...]) -> Stamp:
    """Return the times and sizes by which a change of these files shows."""
    return tuple(map(_file_stamp, files))


def _file_stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
