"""Write and read verified archive copies of messages that are about to be discarded."""

import hashlib
import secrets
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.headers import message_key, without_trace_properties
from mqdlq.lake import storage
from mqdlq.lake.files import MissingFileError, Part, find_row, open_parquet
from mqdlq.lake.schema import COPY

_TIME: Final = "%Y%m%dT%H%M%S%fZ"
_ROWS_TO_A_GROUP: Final = 1024
"""How many rows a row group has at most; it is read back alone."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of one message: its packed MQMD (364 bytes) and its whole body.

    Message properties are in an MQRFH2 of the body. Putting the copy with this MQMD and all its
    context recreates the message.
    """

    message_id: int
    descriptor: bytes
    body: bytes

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the message's key and its whole body."""
        return full_digest(self.descriptor, self.body)

    @property
    def steady_digest(self) -> str:
        return steady_digest(self.descriptor, self.body)

    def __repr__(self) -> str:
        """Show no content, because the body is customer data."""
        return f"<Copy of message {self.message_id}, {len(self.body)} bytes>"


def full_digest(descriptor: bytes, body: bytes) -> str:
    """Return the digest (hex) of a whole message, which its copy must have when read back."""
    return hashlib.sha256(message_key(descriptor, len(body), body) + body).hexdigest()


def steady_digest(descriptor: bytes, body: bytes) -> str:
    """Return the digest (hex) without trace properties, which the queue manager may change."""
    return full_digest(*without_trace_properties(descriptor, body))


def write_copies(
    root: str, run_id: str, name: str, copies: Iterable[Copy]
) -> tuple[str, dict[int, str]]:
    """Write the copies to one private file and read it back.

    Returns the file's location, and digests by message id. Raises LakeError if the file differs
    from the copies; then no message may be discarded.
    """
    location = f"{_directory(root, run_id)}/{name}.parquet"
    return location, _write_and_verify(location, copies)


def remove_copies(location: str, message_ids: Collection[int]) -> None:
    """Remove the copies of these messages from a file; remove the file if no other copy is in it.

    The other copies are written to a new file and read back before it replaces the old one. Readers
    find the one or the other. A missing file has no copies. Raises LakeError like `write_copies`.
    """
    while storage.exists(location):
        # A process that rewrites the same file at the same time may remove each of these.
        with suppress(FileNotFoundError, MissingFileError):
            with open_parquet(location) as file:
                held = set(file.read(["message_id"]).column(0).to_pylist())
            if held <= set(message_ids):
                storage.remove_file(location)
            elif held & set(message_ids):
                directory, name = location.rsplit("/", 1)
                _remove_hidden_files(directory, f"*{name}*")
                rest = f"{directory}/.{name}.{secrets.token_hex(4)}"
                kept = (one for one in read_copies(location) if one.message_id not in message_ids)
                _write_and_verify(rest, kept)
                storage.move(rest, location)
            return


def remove_unfinished_files(root: str, run_id: str) -> None:
    """Remove files of a run that were never finished, and the directory if nothing else is in it.

    A copy that the ledger does not know stays: an old ledger may have been restored.
    """
    directory = _directory(root, run_id)
    _remove_hidden_files(directory, "*")
    if storage.exists(directory) and not storage.size(directory):
        storage.remove_directory(directory)


def _remove_hidden_files(directory: str, names: str) -> None:
    """Remove the files of a directory that an interrupted process was writing."""
    for place in storage.matching(directory, f"/.{names}"):
        storage.remove_file(place)


def _write_and_verify(location: str, copies: Iterable[Copy]) -> dict[int, str]:
    digests: dict[int, str] = {}
    with ExitStack() as opened:
        part = Part(location, COPY, opened, _ROWS_TO_A_GROUP)
        part.begin()
        for copy in copies:
            digests[copy.message_id] = digest = copy.digest
            values = (copy.message_id, digest, copy.descriptor, copy.body)
            part.add(dict(zip(COPY.names, values, strict=True)), len(copy.body))
        part.flush()
    if read_back(location) != digests:
        raise LakeError(
            "MQDLQ-428",
            f"{location}: the archive copies, read back, differ from the written messages;"
            " repair the storage",
        )
    return digests


def read_back(location: str) -> dict[int, str]:
    """Return digests by message id, computed from the copies in a file."""
    return {copy.message_id: copy.digest for copy in read_copies(location)}


def read_copies(location: str) -> Iterator[Copy]:
    """Yield the copies in a file, in the order of the messages on their queue.

    Raises LakeError for a file that is missing or damaged.
    """
    with open_parquet(location) as file:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, ["message_id", "descriptor", "body"])
            for number, descriptor, body in zip(*rows.columns, strict=True):
                yield Copy(number.as_py(), descriptor.as_py(), body.as_py())


def find_copy(location: str, message_id: int) -> Copy | None:
    """Return the copy of one message in a file, or None; only its row group is read."""
    row = find_row({location: None}, "message_id", message_id)
    return Copy(message_id, row["descriptor"], row["body"]) if row else None


def file_in_lake(root: str, location: str) -> str:
    """Return where a file of copies is in a lake, from its location in the ledger.

    The ledger has the location at which the file was written. The lake may have moved since, or be
    a copy of another lake.
    """
    run_id, name = location.rsplit("/", 2)[-2:]
    return f"{_directory(root, run_id)}/{name}"


def name_of_copies(at: datetime) -> str:
    return at.strftime(_TIME)


def time_of_copies(location: str) -> datetime:
    name = location.rsplit("/", 1)[-1].removesuffix(".parquet")
    return datetime.strptime(name, _TIME).replace(tzinfo=UTC)


def _directory(root: str, run_id: str) -> str:
    return f"{root.rstrip('/')}/archive/{run_id}"
