"""Keep what was read from files until the next process needs it, as Python keeps its bytecode.

The dag-processor parses in a new process each time, and reading a thousand handlers takes seconds.
A value is kept under the digest of all that it was made from, so that it cannot be out of date.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pydantic import VERSION

from mqdlq import directories
from mqdlq.errors import HomeError

Value = TypeVar("Value")

_CODE: Final = Path(__file__).parents[1]
_MADE_BY: Final = ("handlers", "controls", "rules")
"""The packages whose code decides what is read from a file, beside the modules above them."""


class Kept:
    """Values made from files of a directory for one purpose, in a file of the state directory.

    Loading a pickle can run code: the file is used only if it belongs to this user and others
    cannot change it. A file that is damaged, or made by another version, is passed over and
    replaced. Where no file can be written, nothing is kept.

    Used as a context: at its end the file gets the values that were asked for, and no others.
    Several processes may do that at once; the last one's file stays, complete.
    """

    def __init__(self, purpose: str, directory: Path) -> None:
        try:
            home = directories.home()
        except HomeError:
            home = Path(os.devnull)
        name = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:16]
        self._file = home / "kept" / f"{purpose}-{name}.pickle"
        self._code = _stamp_code()
        self._known = self._load()
        self._used: dict[bytes, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._used.keys() != self._known.keys():
            with suppress(OSError):
                self._store()

    def value(self, made_from: object, make: Callable[[], Value]) -> Value:
        """Return the value that `make` has returned for the same things before, else what it does.

        `made_from` has all that the value depends on beside the code: its `repr` says everything.
        An exception of `make` is not kept.
        """
        key = hashlib.sha256(repr(made_from).encode()).digest()
        found = self._known[key] if key in self._known else make()
        self._used[key] = found
        return found

    def _load(self) -> dict[bytes, Any]:
        try:
            with self._file.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    return {}
                digest, data = file.read(32), file.read()
            if hashlib.sha256(self._code + data).digest() == digest:
                return dict(pickle.loads(data))  # noqa: S301 (our own file)
        except Exception:  # noqa: BLE001 (whatever it is, the files are read instead)
            return {}
        return {}

    def _store(self) -> None:
        directories.make_private_directory(self._file.parent)
        data = pickle.dumps(self._used, pickle.HIGHEST_PROTOCOL)
        descriptor, new = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.stem}-")
        try:
            with os.fdopen(descriptor, "wb") as written:
                written.write(hashlib.sha256(self._code + data).digest() + data)
            Path(new).replace(self._file)
        except BaseException:
            Path(new).unlink()
            raise


def _stamp_code() -> bytes:
    """Return a digest of the code that reads files: of its versions, and of when it changed."""
    return hashlib.sha256(repr((sys.version, VERSION, [*_stamps()])).encode()).digest()


def _stamps() -> Iterator[tuple[str, int, int]]:
    places = [_CODE.glob("*.py"), *((_CODE / package).rglob("*.py") for package in _MADE_BY)]
    for file in sorted(chain.from_iterable(places)):
        found = file.stat()
        yield str(file), found.st_mtime_ns, found.st_size
