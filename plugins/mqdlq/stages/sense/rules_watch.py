"""Detect that the rules of a handler have changed in its files."""

from __future__ import annotations

import logging
from pathlib import Path

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.rules import parse

log = logging.getLogger(__name__)

FileStamps = tuple[tuple[int, int] | None, ...]


class RulesWatch:
    """Reads the rules only if the time or the size of a file has changed since the last check.

    Rules count as changed if their digest differs; a comment makes no difference. Unreadable or
    invalid rules are reported once and count as unchanged, since no run could begin with them.
    """

    def __init__(
        self, handler: str, rules: str | None, digest: str, directory: str | None = None
    ) -> None:
        """Watch a handler's own table, or the table that was named for the run.

        `directory` has the handler's file, None for MQDLQ_RULES_DIR.
        """
        self._handler = handler
        self._directory = Path(directory) if directory else None
        self._rules = rules
        self._digest = digest
        self._files: tuple[Path, ...] = ()
        self._stamp: FileStamps = ()
        self._last_warning = ""

    def have_changed(self) -> bool:
        """Return whether the rules have changed; the files are read only if their stamps differ."""
        if not self._digest:
            return False  # the run's rules were given to it, and are in no file
        if self._files and stamp_files(self._files) == self._stamp:
            return False
        try:
            handler = load_handler(self._handler, self._directory)
            files = find_rule_files(handler, self._rules)
            # Stamped before the files are read, so that the next check sees a change in between.
            self._files, self._stamp = files, stamp_files(files)
            source, text = handler.rules_text(self._rules)
            table = parse(text, source, handler.queue_kind, frozen=True)
            has_changed = table.digest != self._digest
        except MqDlqError as error:
            self._stamp = stamp_files(self._files)
            if str(error) != self._last_warning:
                self._last_warning = str(error)
                log.warning(
                    "the rules of %s cannot be read now; the run waits with the rules that it has"
                    " read: %s [MQDLQ-128]",
                    self._handler,
                    error.text,
                )
            return False
        self._last_warning = ""
        return has_changed


def find_rule_files(handler: Handler, rules: str | None = None) -> tuple[Path, ...]:
    """Return the files that define a handler: its YAML file, and its table or the named one."""
    own = handler.directory / f"{handler.name}.yaml"
    named = rules or handler.rules
    return (own, handler.directory / named) if named else (own,)


def stamp_files(files: tuple[Path, ...]) -> FileStamps:
    """Return the times and sizes of files, which show whether a file has changed."""
    return tuple(map(_stamp_file, files))


def _stamp_file(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
