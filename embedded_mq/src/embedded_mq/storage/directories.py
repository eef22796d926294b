"""Find and create the directories of queue managers.

Each queue manager is a subdirectory of one directory. The first of these that is set is used: the
argument of the caller, the directory of the block `in_directory`, that of `set_directory`,
EMBEDDED_MQ_HOME, the directory that an installed distribution names by the entry point group
`embedded_mq.home` (a function that returns a path), and `queue_managers` in the current directory.
A connection stays with the queue manager of the directory that it was made in.
"""

import json
import os
import pwd
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType

from embedded_mq.engine.objects.attributes import (
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    SYSTEM_QUEUES,
    Value,
    defaults,
)
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage.store import DATABASE, Store

NAME = re.compile(r"[A-Za-z0-9._/%]{1,48}")
# Substitutes for characters that file names cannot have, as in IBM MQ's own data directories.
_IN_FILE_NAMES = str.maketrans({".": "!", "/": "&"})

NO_ATTRIBUTES: Mapping[str, Value] = MappingProxyType({})

_configured_directory: Path | None = None
_directory_of_block: ContextVar[Path | None] = ContextVar("directory", default=None)


@cache
def process_user() -> str:
    """Return the name, or else the number, of the user of this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@cache
def process_program() -> str:
    """Return the name of this process's program, as its puts and its handles show it."""
    return Path(sys.executable or "python").name


def set_directory(directory: Path) -> None:
    """Set the directory of queue managers for callers that name none."""
    global _configured_directory  # noqa: PLW0603 (one process, one place)
    _configured_directory = directory.absolute()


@contextmanager
def in_directory(directory: Path | str) -> Iterator[None]:
    """Let names mean the queue managers of this directory, in this thread, within the block.

    A connection that is made in the block stays with its queue manager after the block.
    """
    token = _directory_of_block.set(Path(directory).absolute())
    try:
        yield
    finally:
        _directory_of_block.reset(token)


def directory_of(name: str, directory: Path | None = None) -> Path:
    """Return the directory of a queue manager, whether it exists or not."""
    parent = (
        directory
        or _directory_of_block.get()
        or _configured_directory
        or os.environ.get("EMBEDDED_MQ_HOME")
    )
    return Path(parent or _default_parent()) / name.translate(_IN_FILE_NAMES)


def _default_parent() -> Path:
    """Return the directory that a distribution names; its error becomes an error of this one."""
    try:
        return _home()()
    except Exception as error:  # of that distribution, whose errors have no name here
        raise EmbeddedQueueManagerError(str(error)) from error


@cache
def _home() -> Callable[[], Path]:
    for entry_point in entry_points(group="embedded_mq.home"):
        named: Callable[[], Path] = entry_point.load()
        return named
    return lambda: Path("queue_managers").absolute()


def exists(name: str, directory: Path | None = None) -> bool:
    """Return whether a queue manager with this name exists."""
    return NAME.fullmatch(name) is not None and (directory_of(name, directory) / DATABASE).is_file()


def find_existing(name: str, directory: Path | None = None) -> Path:
    """Return the directory of an existing queue manager (EmbeddedQueueManagerError)."""
    if not exists(name, directory):
        known = ", ".join(names(directory)) or "none"
        raise EmbeddedQueueManagerError(
            f"queue manager {name} does not exist in {directory_of(name, directory).parent}"
            f" (existing: {known}); `embedded-mq create {name}` creates it"
        )
    return directory_of(name, directory)


def names(directory: Path | None = None) -> list[str]:
    """Return the names of all queue managers in the directory."""
    parent = directory_of("x", directory).parent
    back = str.maketrans({"!": ".", "&": "/"})
    found = (path.parent.name for path in parent.glob(f"[!.]*/{DATABASE}"))
    return sorted(name.translate(back) for name in found)


def create(
    name: str,
    directory: Path | None = None,
    prepare: Callable[[Path], None] | None = None,
    attributes: Mapping[str, Value] = NO_ATTRIBUTES,
) -> Path:
    """Create a queue manager and return its directory, which only its owner can read.

    `attributes` are the queue manager's attributes that are not defaults, by MQSC keyword. The
    queue manager has the queues that PCF needs and no dead-letter queue. `prepare` gets its
    directory before other processes can see it, and may define more; if `prepare` fails, no queue
    manager is created. Raises EmbeddedQueueManagerError for an invalid or existing name.
    """
    if not NAME.fullmatch(name):
        raise EmbeddedQueueManagerError(
            f"{name!r} is not a valid queue manager name; use 1 to 48 of A-Z a-z 0-9 . _ / %"
        )
    path = directory_of(name, directory)
    if path.exists():
        raise EmbeddedQueueManagerError(f"queue manager {name} already exists in {path}")
    for missing in (*reversed(path.parent.parents), path.parent):
        missing.mkdir(mode=0o700, exist_ok=True)
    # Created in another directory and moved: no process sees an incomplete queue manager.
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as building:
        made = directory_of(name, Path(building))
        made.mkdir(mode=0o700)
        values = {"QMNAME": name, **defaults(QUEUE_MANAGER_ATTRIBUTES), **attributes}
        Store.create(made, values, _system_queues(), process_user())
        (made / DATABASE).chmod(0o600)
        if prepare is not None:
            prepare(Path(building))
        try:
            made.rename(path)
        except OSError as error:
            raise EmbeddedQueueManagerError(
                f"queue manager {name} already exists in {path}"
            ) from error
    return path


def _system_queues() -> Iterator[tuple[str, int, str]]:
    for name, (queue_type, others) in SYSTEM_QUEUES.items():
        yield name, queue_type, json.dumps(defaults(QUEUE_ATTRIBUTES[queue_type]) | dict(others))
