"""Locations of snapshots and plans in a lake, and its files in an fsspec location.

Directories are private, and writes atomic.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EACCES, EDQUOT, EFBIG, EIO, ENOSPC, EROFS
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from mqdlq import directories
from mqdlq.errors import LakeError

_PRIVATE_DIRECTORY: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_OF_THE_FILE_SYSTEM: Final = {ENOSPC, EDQUOT, EROFS, EACCES, EIO, EFBIG}
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def snapshot_directory(root: str, queue_manager: str, queue: str, snapshot_id: str) -> str:
    """Return the directory of a snapshot.

    Queue names may contain `/` and `%`. They are percent-encoded, because Spark and Arrow decode
    the values of `name=value` directories. Raises `LakeError` for a blank name or an invalid id.
    """
    for noun, name in (("queue manager", queue_manager), ("queue", queue)):
        if not name.strip():
            raise LakeError("MQDLQ-426", f"a snapshot needs the name of its {noun}, found {name!r}")
    place = f"queue_manager={quote(queue_manager, safe='')}/queue={quote(queue, safe='')}"
    return f"{root.rstrip('/')}/snapshots/{place}/{checked_id('snapshot', snapshot_id)}"


def plan_directory(root: str, plan_id: str) -> str:
    """Return the directory of a plan; raise `LakeError` for an invalid id."""
    return f"{root.rstrip('/')}/plans/{checked_id('plan', plan_id)}"


def plan_id(snapshot_id: str, rules_digest: str) -> str:
    """Return the id of the plan for this snapshot and these rules; it is deterministic."""
    return f"{snapshot_id}-{rules_digest[:12]}"


def checked_id(noun: str, identifier: str) -> str:
    if not _ID.fullmatch(identifier):
        raise LakeError(
            "MQDLQ-427",
            f"{noun} id {identifier!r} cannot name a directory; expected letters, digits, and `.`,"
            " `_`, `-` after the first",
        )
    return identifier


def filesystem(location: str) -> tuple[Any, str]:
    """Return the fsspec file system of a location, and its path there."""
    try:
        files, path = url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise LakeError(
            "MQDLQ-414", f"{location} is not a location that fsspec can open: {error}"
        ) from error
    return files, str(path)


def is_local(location: str) -> bool:
    return isinstance(filesystem(location)[0], LocalFileSystem)


def uri(location: str) -> str:
    """Return a location for Spark, with its scheme, or file: if it has none."""
    return f"file://{filesystem(location)[1]}" if is_local(location) else location


def exists(location: str) -> bool:
    files, path = _fresh(location)
    return bool(files.exists(path))


def read_bytes(location: str) -> bytes | None:
    """Return a file's content, or None if it does not exist."""
    files, path = filesystem(location)
    try:
        return bytes(files.cat_file(path))
    except FileNotFoundError:
        return None


def read_text(location: str) -> str | None:
    """Return a file's text (UTF-8), or None if it does not exist."""
    found = read_bytes(location)
    return None if found is None else found.decode()


def written_at(location: str) -> datetime:
    files, path = _fresh(location)
    found: datetime = files.modified(path)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def make_empty_directory(location: str, leftovers: tuple[str, ...]) -> None:
    """Create a directory that only its owner can access, or remove files of an unfinished write.

    `leftovers` are prefixes of names that may be removed. Any other file raises `LakeError`,
    because another program owns the directory.
    """
    files, path = _fresh(location)
    if files.exists(path):
        for name in _names(files, path):
            if not name.startswith(leftovers):
                raise LakeError(
                    "MQDLQ-415",
                    f"{location} holds {name}, which mqdlq did not write; remove it, or name"
                    " another directory",
                )
        files.rm(path, recursive=True)
    make_directory(location)


def make_directory(location: str) -> None:
    """Create a missing directory and its parents, accessible to their owner only."""
    files, path = filesystem(location)
    if not isinstance(files, LocalFileSystem):
        files.makedirs(path, exist_ok=True)
        return
    with _naming(location):
        for directory in (*reversed(Path(path).parents), Path(path)):
            if not directory.exists():
                directory.mkdir(_PRIVATE_DIRECTORY, exist_ok=True)
                _sync(directory.parent)


def move(location: str, new: str) -> None:
    """Move a file to another place in its file system, in one step, in place of a file there."""
    files, path = _fresh(location)
    files.mv(path, filesystem(new)[1])
    _sync_parent(files, filesystem(new)[1])


def remove_directory(location: str, first: str = "") -> None:
    """Remove a directory with its content; remove the file named `first` before all others."""
    files, path = _fresh(location)
    while files.exists(path):
        with suppress(FileNotFoundError):  # two processes may remove it at the same time
            if first and files.exists(f"{path}/{first}"):
                files.rm(f"{path}/{first}")
            files.rm(path, recursive=True)


def remove_file(location: str) -> None:
    files, path = _fresh(location)
    with suppress(FileNotFoundError):  # another process may have removed it
        files.rm(path)
        _sync_parent(files, path)


def size(location: str) -> int:
    files, path = _fresh(location)
    return int(sum(entry["size"] or 0 for entry in files.find(path, detail=True).values()))


def settle(directory: str) -> None:
    """Sync another program's files in a local directory, and restrict them to their owner."""
    files, path = filesystem(directory)
    if not isinstance(files, LocalFileSystem):
        return
    for entry in (Path(path), *Path(path).rglob("*")):
        entry.chmod(_PRIVATE_DIRECTORY if entry.is_dir() else _PRIVATE_FILE)
        _sync(entry)


def file_names(directory: str, suffix: str) -> list[str]:
    """Return the sorted files of a directory whose names have this ending."""
    files, path = _fresh(directory)
    names = _names(files, path)
    return sorted(name for name in names if name.endswith(suffix) and name[0] not in "._")


def matching(root: str, pattern: str) -> list[str]:
    """Return the paths below a directory that match a glob pattern, which begins with a /."""
    files, path = _fresh(root)
    top = path.rstrip("/")
    found = (str(entry)[len(top) :] for entry in files.glob(f"{top}{pattern}"))
    return sorted(f"{root.rstrip('/')}{entry}" for entry in found)


def _fresh(location: str) -> tuple[Any, str]:
    """Return a location's file system with an empty cache, because other processes write too."""
    files, path = filesystem(location)
    files.invalidate_cache()
    return files, path


def _names(files: Any, path: str) -> list[str]:
    return [str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in files.ls(path, detail=False)]


@contextmanager
def new_file(location: str) -> Iterator[IO[bytes]]:
    """Write a file that appears complete under its name when the block ends, or not at all.

    On a local file system it is written under another name, synced and renamed. Object stores show
    an object after its upload completes, which does not happen if the block fails. Raises
    LakeError, which names the place, if the file system is full or not writable.
    """
    files, path = filesystem(location)
    if not isinstance(files, LocalFileSystem):
        remote = files.open(path, "wb", autocommit=False)
        try:
            yield remote
            remote.close()
        except BaseException:
            remote.discard()
            with suppress(AttributeError):
                remote.closed = True  # otherwise the garbage collector would upload the rest
            raise
        remote.commit()
        return
    with _naming(location):
        with directories.new_file(Path(path)) as local:
            yield local
        _sync(Path(path).parent)


def write_text(location: str, text: str) -> None:
    with new_file(location) as file:
        file.write(text.encode())


@contextmanager
def _naming(location: str) -> Iterator[None]:
    """Raise LakeError with the place for a file system that is full or not writable."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_FILE_SYSTEM:
            raise  # from other work while the file was open
        raise LakeError("MQDLQ-416", f"{location} cannot be written: {error.strerror}") from error


def _sync_parent(files: Any, path: str) -> None:
    if isinstance(files, LocalFileSystem):
        _sync(Path(path).parent)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
