"""Keep what was made from files until the next process needs it, as Python keeps its bytecode.

The dag-processor parses in a new process each time, and reading a thousand handlers takes seconds.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from pydantic import VERSION

from mqdlq import directories
from mqdlq.errors import HomeError

Value = TypeVar("Value")

_CODE: Final = Path(__file__).parents[1]
_MADE_BY: Final = ("handlers", "controls", "rules")
"""The packages whose code decides what is made from a file, beside the modules above them."""
_SETTLED_NS: Final = 3_000_000_000
"""The age from which a change of a file would show in its times: no file system's clock is so
coarse, but two changes of one moment look like one."""


class _Entry(NamedTuple):
    stamp: tuple[int, ...] | None
    digest: bytes
    value: Any


class Kept:
    """Values made from files of a directory for one purpose, in a file of the state directory.

    A value is found again while its file has the same content, or the same inode, length and times,
    and while the code is the same. Loading a pickle can run code: the file of the values is used
    only if it belongs to this user and others cannot change it. If it is damaged, or made by
    another version, it is passed over and replaced. Where it cannot be written, nothing is kept.

    Used as a context: at its end the file gets the values that were asked for, and no others.
    Several processes may do that at once; the last one's file stays, complete.
    """

    def __init__(self, purpose: str, directory: Path) -> None:
        try:
            home = directories.home()
        except HomeError:
            home = Path(os.devnull)
        name = hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:16]
        self._directory = directory
        self._file = home / "kept" / f"{purpose}-{name}.pickle"
        self._code = _stamp_code()
        self._known = self._load()
        self._used: dict[tuple[str, object], _Entry] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._used != self._known:
            with suppress(OSError):
                self._store()

    def value(self, path: Path, others: object, make: Callable[[bytes], Value]) -> Value:
        """Return what `make` makes of a file's content, or has made of the same content before.

        `others` is all that this depends on beside the content and the code. Raises OSError as
        `read_rules_file` does. An exception of `make` is not kept.
        """
        name = (os.fspath(path), others)
        stamp, known = _stamp(name[0], os.fspath(self._directory)), self._known.get(name)
        if known is None or stamp is None or known.stamp != stamp:
            data = directories.read_rules_file(path, self._directory)
            digest = hashlib.sha256(data).digest()
            is_same = known is not None and known.digest == digest
            known = _Entry(stamp, digest, known.value if known and is_same else make(data))
        self._used[name] = known
        found: Value = known.value
        return found

    def _load(self) -> dict[tuple[str, object], _Entry]:
        try:
            with self._file.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    return {}
                digest, data = file.read(32), file.read()
            if hashlib.sha256(self._code + data).digest() == digest:
                return dict(pickle.loads(data))  # noqa: S301 (our own file)
        except (OSError, pickle.UnpicklingError, AttributeError, ImportError):
            return {}  # it is not there, or has a value of a class that is not: read the files
        return {}

    def _store(self) -> None:
        # No directory above it: who may create that is not for the first one that parses.
        self._file.parent.mkdir(mode=0o700, exist_ok=True)
        data = pickle.dumps(self._used, pickle.HIGHEST_PROTOCOL)
        descriptor, new = tempfile.mkstemp(dir=self._file.parent, prefix=f".{self._file.stem}-")
        try:
            with os.fdopen(descriptor, "wb") as written:
                written.write(hashlib.sha256(self._code + data).digest() + data)
            Path(new).replace(self._file)
        except BaseException:
            Path(new).unlink()
            raise


def _stamp(path: str, directory: str) -> tuple[int, ...] | None:
    """Return what changes with a file in a directory; None for a link or a file changed just now.

    Taken before the file is read, so that a change meanwhile is seen the next time.
    """
    found = os.lstat(path)
    times = (found.st_mtime_ns, found.st_ctime_ns)
    is_settled = max(times) < time.time_ns() - _SETTLED_NS
    is_within = path.rpartition(os.sep)[0] == directory
    if not (is_settled and is_within and stat.S_ISREG(found.st_mode)):
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mode, *times)


def _stamp_code() -> bytes:
    """Return a digest of the code that reads files: of its versions, and of when it changed."""
    return hashlib.sha256(repr((sys.version, VERSION, [*_stamps()])).encode()).digest()


def _stamps() -> Iterator[tuple[str, int, int]]:
    places = [_CODE.glob("*.py"), *((_CODE / package).rglob("*.py") for package in _MADE_BY)]
    for file in sorted(chain.from_iterable(places)):
        found = file.stat()
        yield str(file), found.st_mtime_ns, found.st_size
