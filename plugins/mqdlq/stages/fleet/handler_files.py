"""Check the files of many handlers, each once for each content."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdlq import directories
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, handler_names, load_handler
from mqdlq.handlers.checking import check_handler
from mqdlq.rules import Diagnostic, Severity

CHECK_FOR_S: Final = 1.0
"""How long one request checks rules that it does not show; 1,000 tables take some seconds."""


@dataclass(frozen=True, slots=True)
class RulesCheck:
    """The findings of `mqdlq rules check` in a handler's file and its rules table."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandlerFile:
    """The file of a handler in the rules directory.

    `handler` is None if the file is rejected; then `fault` says why. `rules` is the check of its
    rules, None if they are not checked yet.
    """

    name: str
    handler: Handler | None
    fault: str
    rules: RulesCheck | None

    @property
    def errors(self) -> tuple[str, ...]:
        """Why no run could start with these files."""
        of_rules = self.rules.errors if self.rules is not None else ()
        return of_rules or ((self.fault,) if self.fault else ())


class HandlerFiles:
    """The files of a rules directory; what is known of them is kept by the digest of their content.

    `read` reads the bytes of each file, and parses the changed files.
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, bytes], tuple[Handler | None, str]] = {}
        self._checked: dict[tuple[Path, bytes, bytes], RulesCheck] = {}

    def read(
        self,
        directory: Path | None = None,
        *,
        shown: Collection[str] = (),
        check_for_s: float = CHECK_FOR_S,
    ) -> dict[str, HandlerFile]:
        """Return the files by name of the handler.

        The rules of `shown` handlers are checked in any case, the others' while time is left.
        """
        folder = directory or directories.rules_directory()
        until = time.monotonic() + check_for_s
        found, loaded, checked = {}, {}, {}
        names = handler_names(folder)
        for name in sorted(names, key=lambda one: one not in shown):
            path = folder / f"{name}.yaml"
            digest = _digest(path, folder)
            handler, fault = self._loaded.get((path, digest)) or _load(name, folder)
            loaded[path, digest] = handler, fault
            table = path if handler is None or handler.rules is None else folder / handler.rules
            key = (path, digest, _digest(table, folder))
            rules = self._checked.get(key)
            if rules is None and (name in shown or time.monotonic() < until):
                rules = _check(path)
            if rules is not None:
                checked[key] = rules
            found[name] = HandlerFile(name, handler, fault, rules)
        self._loaded, self._checked = loaded, checked
        return found


def _digest(path: Path, folder: Path) -> bytes:
    try:
        return hashlib.sha256(directories.read_rules_file(path, folder)).digest()
    except OSError:
        return b""


def _load(name: str, folder: Path) -> tuple[Handler | None, str]:
    try:
        return load_handler(name, folder), ""
    except HandlerError as error:
        return None, error.text


def _check(path: Path) -> RulesCheck:
    try:
        found = check_handler(path, directories.read_rules_file(path, path.parent))
    except OSError as error:
        return RulesCheck((f"{path} cannot be read: {error.strerror}",), ())
    diagnostics = [*found.diagnostics, *(found.table.diagnostics if found.table else ())]
    return RulesCheck(
        tuple(_line(one) for one in diagnostics if one.severity is Severity.ERROR),
        tuple(_line(one) for one in diagnostics if one.severity is not Severity.ERROR),
    )


def _line(found: Diagnostic) -> str:
    """Return the first line of a finding: place and words, without the source below them."""
    line = str(found).splitlines()[0]
    return line.replace(found.path, directories.shown(found.path), 1)


Files = Mapping[str, HandlerFile]
