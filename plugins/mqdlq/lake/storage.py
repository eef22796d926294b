"""Files of the lake: an fsspec location in; private directories, atomic files and text out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, EFBIG, EIO, ENOSPC, EROFS
from pathlib import Path
from typing import IO, Any, Final

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from mqdlq.errors import LakeError

_PRIVATE_DIRECTORY: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_OF_THE_FILE_SYSTEM: Final = {ENOSPC, EDQUOT, EROFS, EACCES, EIO, EFBIG}


def filesystem(location: str) -> tuple[Any, str]:
    """Return the fsspec file system of a location, and its path there."""
    try:
        files, path = url_to_fs(location)
    except (ImportError, ValueError) as error:
        raise LakeError(f"{location} is no location fsspec can open: {error}") from error
    return files, str(path)


def uri(location: str) -> str:
    """Return a location as Spark reads it on any cluster: with its scheme, file: if it has none."""
    files, path = filesystem(location)
    if isinstance(files, LocalFileSystem):
        return f"file://{path}"
    # Hadoop's file system for S3 goes by another name than everybody else's.
    return f"s3a://{path}" if location.startswith("s3://") else location


def exists(location: str) -> bool:
    """Say whether there is a file or a directory."""
    files, path = _fresh(location)
    return bool(files.exists(path))


def read_text(location: str) -> str | None:
    """Return a file's text (UTF-8), None where there is no such file."""
    files, path = filesystem(location)
    try:
        return bytes(files.cat_file(path)).decode()
    except FileNotFoundError:
        return None


def make_empty_directory(location: str, leftovers: tuple[str, ...]) -> None:
    """Create a directory for its owner alone, or empty it of what an unfinished writing left.

    `leftovers` are the beginnings of names that may be removed; anything else there means that
    the directory is not ours, a `LakeError`.
    """
    files, path = _fresh(location)
    if files.exists(path):
        for name in _names(files, path):
            if not name.startswith(leftovers):
                raise LakeError(f"{location} holds {name}, which was not written here")
        files.rm(path, recursive=True)
    make_directory(location)


def make_directory(location: str) -> None:
    """Create a directory, and those above it, for their owner alone, where it is missing."""
    files, path = filesystem(location)
    if not isinstance(files, LocalFileSystem):
        files.makedirs(path, exist_ok=True)
        return
    with _naming(location):
        for directory in (*reversed(Path(path).parents), Path(path)):
            if not directory.exists():
                directory.mkdir(_PRIVATE_DIRECTORY, exist_ok=True)
                _sync(directory.parent)


def rename(location: str, new: str) -> None:
    """Give a file another name on the same file system."""
    files, path = _fresh(location)
    files.mv(path, filesystem(new)[1])


def remove_directory(location: str, first: str = "") -> None:
    """Remove a directory with all that is in it, a file called `first` before anything else."""
    files, path = _fresh(location)
    if first and files.exists(f"{path}/{first}"):
        files.rm(f"{path}/{first}")
    if files.exists(path):
        files.rm(path, recursive=True)


def size(location: str) -> int:
    """Return how many bytes the files of a directory hold."""
    files, path = _fresh(location)
    return int(sum(entry["size"] or 0 for entry in files.find(path, detail=True).values()))


def settle(directory: str) -> None:
    """Make what another program wrote into a local directory durable, and the owner's alone."""
    files, path = filesystem(directory)
    if not isinstance(files, LocalFileSystem):
        return
    for entry in (Path(path), *Path(path).rglob("*")):
        entry.chmod(_PRIVATE_DIRECTORY if entry.is_dir() else _PRIVATE_FILE)
        _sync(entry)


def file_names(directory: str, suffix: str) -> list[str]:
    """List the files of a directory whose names end so, sorted."""
    files, path = _fresh(directory)
    names = _names(files, path)
    return sorted(name for name in names if name.endswith(suffix) and name[0] not in "._")


def matching(root: str, pattern: str) -> list[str]:
    """List what stands below a directory and matches a glob pattern that begins with a /."""
    files, path = _fresh(root)
    top = path.rstrip("/")
    found = (str(entry)[len(top) :] for entry in files.glob(f"{top}{pattern}"))
    return sorted(f"{root.rstrip('/')}{entry}" for entry in found)


def _fresh(location: str) -> tuple[Any, str]:
    """Return a location's file system without what it remembers: other processes write, too."""
    files, path = filesystem(location)
    files.invalidate_cache()
    return files, path


def _names(files: Any, path: str) -> list[str]:
    return [str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in files.ls(path, detail=False)]


@contextmanager
def new_file(location: str) -> Iterator[IO[bytes]]:
    """Write a file that appears whole under its name when the block ends, or not at all.

    On a local file system it is written beside, synced and renamed. Object stores show an object
    only when its upload is completed, which is not done where the block fails. Raises LakeError,
    naming the place, where the file system is full or does not let us write.
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
                remote.closed = True  # or what is left of it would be sent when it is collected
            raise
        remote.commit()
        return
    with _naming(location), _new_local_file(Path(path)) as local:
        yield local


@contextmanager
def _naming(location: str) -> Iterator[None]:
    """Raise LakeError for a file system that is full or closed to us; it does not say where."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_FILE_SYSTEM:
            raise  # of something else that was done while the file was open
        raise LakeError(f"{location} cannot be written: {error.strerror}") from error


@contextmanager
def _new_local_file(final: Path) -> Iterator[IO[bytes]]:
    handle, temporary = tempfile.mkstemp(dir=final.parent, prefix=f".{final.name}.")
    try:
        with os.fdopen(handle, "wb") as local:
            yield local
            local.flush()
            os.fsync(local.fileno())
        Path(temporary).replace(final)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(final.parent)


def write_text(location: str, text: str) -> None:
    """Write a small file atomically."""
    with new_file(location) as file:
        file.write(text.encode())


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
