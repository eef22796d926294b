"""Access to the database of a queue manager, with one writer at a time."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage.catalogue import Catalogue, load
from embedded_mq.storage.locks import LockFile
from embedded_mq.storage.schema import (
    BOARD_OF_LAYOUT_3,
    LAYOUT,
    MIGRATIONS,
    SCHEMA,
)

DATABASE = "queue_manager.sqlite"
LOCK_FILE = "queue_manager.lock"


class Store:
    """One open database, for one thread at a time."""

    def __init__(self, directory: Path) -> None:
        """Open the database in a queue manager's directory.

        Raises EmbeddedQueueManagerError if another version of this program created it.
        """
        self.locks = LockFile(directory / LOCK_FILE)
        self._database = sqlite3.connect(
            directory / DATABASE,
            timeout=30,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        self.execute = self._database.execute
        self.execute_many = self._database.executemany
        self.has_written = False
        """Whether a transaction has started since this was last set to False."""
        try:
            self._check_layout(directory)
            self.execute("PRAGMA synchronous = NORMAL")
            self.execute("PRAGMA mmap_size = 268435456")
            self.execute("PRAGMA wal_autocheckpoint = 4000")  # 16 MB: a call writes a few pages
            self.last_catalogue = load(self.execute)
            """The definitions at the last check; every call checks once."""
        except BaseException:
            self.close()
            raise

    def _check_layout(self, directory: Path) -> None:
        if self._layout() in MIGRATIONS:
            with self.locks.write_lock():
                while (change := MIGRATIONS.get(self._layout())) is not None:
                    self._database.executescript(f"BEGIN IMMEDIATE; {change} COMMIT")
                (directory / BOARD_OF_LAYOUT_3).unlink(missing_ok=True)
        if self._layout() != LAYOUT:
            raise EmbeddedQueueManagerError(
                f"the queue manager in {directory} was created by another version of embedded-mq"
                " and cannot be used by this one; delete the directory and create the queue manager"
                " again"
            )

    def _layout(self) -> int:
        return int(self.fetch_value("PRAGMA application_id"))

    @classmethod
    def create(
        cls,
        directory: Path,
        queue_manager: Mapping[str, int | str],
        queues: Iterable[tuple[str, int, str]],
        owner: str,
    ) -> None:
        """Create the database of a queue manager with these attributes and queues.

        A queue is a name, a type and attributes in JSON.
        """
        database = sqlite3.connect(directory / DATABASE, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA application_id = {LAYOUT}")
            database.executescript(f"BEGIN; {SCHEMA}")
            database.executemany("INSERT INTO queue_manager VALUES(?, ?)", queue_manager.items())
            database.executemany(
                "INSERT INTO queue(name, type, attributes) VALUES(?, ?, ?)", queues
            )
            database.execute("INSERT INTO operation VALUES('RUNNING', 1, ?, 0)", (owner,))
            database.execute("COMMIT")
        finally:
            database.close()
        LockFile(directory / LOCK_FILE).close()

    def fetch_value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        row = self.execute(sql, values).fetchone()
        return row and row[0]

    def close(self) -> None:
        """Close the database, then release the locks, which other connections check."""
        self._database.close()
        self.locks.close()

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Run the block as one write transaction, which an exception undoes.

        With `durable`, the transaction is on disk when the block ends. Without it, a power cut may
        undo the transaction, but not the kill of a process.
        """
        self.has_written = True
        with self.locks.write_lock():
            if durable:
                self.execute("PRAGMA synchronous = FULL")
            try:
                self.execute("BEGIN IMMEDIATE")
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self.execute("ROLLBACK")
                    self.catalogue()  # those read in the transaction were undone
                raise
            finally:
                if durable:
                    self.execute("PRAGMA synchronous = NORMAL")

    def depth(self, queue_id: int) -> int | None:
        """Return the depth of a queue, None if it has been deleted."""
        depth: int | None = self.fetch_value(
            "SELECT depth FROM queue WHERE queue_id = ?", (queue_id,)
        )
        return depth

    def data_version(self) -> int:
        """Return a number that changes when another connection changes the database."""
        return int(self.fetch_value("PRAGMA data_version"))

    def catalogue(self) -> Catalogue:
        """Return the current definitions."""
        if self.last_catalogue.version != self._version():
            self.last_catalogue = load(self.execute)
        return self.last_catalogue

    def _version(self) -> int:
        return int(self.fetch_value("PRAGMA user_version"))

    def definitions_changed(self) -> None:
        """Make all connections reload the definitions; call it inside a write transaction."""
        self.execute(f"PRAGMA user_version = {self._version() + 1}")
