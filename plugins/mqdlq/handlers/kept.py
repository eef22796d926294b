"""Keep the loaded handlers until the next process needs them, as Python keeps its bytecode.

The dag-processor parses in a new process each time, and reading a thousand handlers takes seconds.
"""

import hashlib
import os
import pickle
import sys
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import VERSION

from mqdlq import directories
from mqdlq.errors import HandlerError, HomeError
from mqdlq.handlers.configuration import Handler, load_handlers
from mqdlq.rules import ControlData

_CODE: Final = Path(__file__).parents[1]
_MADE_BY: Final = ("handlers", "controls", "rules")
"""The packages whose code decides what is read from a file, beside the modules above them."""
_SETTLED_NS: Final = 3_000_000_000
"""The age from which a change of a file would show in its times: no file system's clock is so
coarse, but two changes of one moment look like one."""

_Stamp = tuple[int, ...] | None


class Loaded(NamedTuple):
    """The valid handlers of a directory, the errors of the others, and control data by handler.

    A handler whose rules table cannot be read, or has an error, has no control data.
    """

    handlers: list[Handler]
    faults: list[HandlerError]
    controls: dict[str, ControlData | None]


def load_kept(directory: Path | None = None) -> Loaded:
    """Load the handlers of a directory, unless they are kept and no file has changed since.

    A file has not changed if its inode, length and times are the same. Loading a pickle can run
    code: what is kept is used only if it belongs to this user and others cannot change it. If it is
    damaged, or was made by other code, it is replaced. Where it cannot be written, nothing is kept.
    """
    folder, began = (directory or directories.rules_directory()).absolute(), time.time_ns()
    try:
        home = directories.home()
    except HomeError:
        home = Path(os.devnull)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    place, code = home / "kept" / f"handlers-{name}.pickle", _stamp_code()
    with suppress(OSError, pickle.UnpicklingError, AttributeError, ImportError):
        if (found := _read(place, code)) is not None:
            return found
    loaded = _load(folder)
    with suppress(OSError):
        _write(place, code, loaded, folder, began)
    return loaded


def _load(folder: Path) -> Loaded:
    handlers, faults = load_handlers(folder)
    return Loaded(handlers, faults, {each.name: each.control_data() for each in handlers})


def _read(place: Path, code: bytes) -> Loaded | None:
    with place.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
        digest, data = file.read(32), file.read()
    if hashlib.sha256(code + data).digest() != digest:
        return None
    stamps, loaded = pickle.loads(data)  # noqa: S301 (our own file)
    is_same = all(_stamp(path) == stamp for path, stamp in stamps.items())
    return Loaded(*loaded) if is_same else None


def _write(place: Path, code: bytes, loaded: Loaded, folder: Path, began: int) -> None:
    """Keep what was loaded, unless a file has changed just before that, or meanwhile."""
    tables = (each.directory / each.rules for each in loaded.handlers if each.rules)
    files = {folder, *folder.glob("*.yaml"), *tables}
    stamps = {os.fspath(path): _stamp(path) for path in files}
    if any(max(stamp[-2:]) >= began - _SETTLED_NS for stamp in stamps.values() if stamp):
        return
    # No directory above it: who may create that is not for the first one that parses.
    place.parent.mkdir(mode=0o700, exist_ok=True)
    data = pickle.dumps((stamps, tuple(loaded)), pickle.HIGHEST_PROTOCOL)
    with directories.new_file(place) as file:
        file.write(hashlib.sha256(code + data).digest() + data)


def _stamp(path: str | Path) -> _Stamp:
    """Return what changes with a file or the names in a directory; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a Path costs more than the call)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _stamp_code() -> bytes:
    """Return a digest of the code that reads files: of its versions, and of when it changed."""
    places = [_CODE.glob("*.py"), *((_CODE / package).rglob("*.py") for package in _MADE_BY)]
    files = [(str(file), _stamp(file)) for file in sorted(chain.from_iterable(places))]
    return hashlib.sha256(repr((sys.version, VERSION, files)).encode()).digest()
