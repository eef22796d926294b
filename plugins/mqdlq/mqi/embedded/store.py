"""The database of a queue manager: SQL in, rows out, one writer at a time, a commit on disk.

A message is a small row in `message`, which moves between states, and a row in `content`, which is
written once. Its `place` is given when it is put, not when it is committed, never used again, and
orders messages of equal rank; rank is 9 less the priority, so that the least comes first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mqdlq.errors import EmbeddedQueueManagerError
from mqdlq.mqi.embedded.catalogue import Catalogue, load
from mqdlq.mqi.embedded.locks import LockFile

DATABASE = "queue_manager.sqlite"
LOCK_FILE = "queue_manager.lock"

AVAILABLE, PUT = 0, 1
"""A message's states: anyone's, or put and not committed; 2 is got and not committed, 3 is locked.

SQL texts have the numbers themselves: SQLite matches them with the conditions of the indexes.
"""

LAYOUT = 2
"""Kept with the database (PRAGMA application_id); raised whenever the schema changes."""

SCHEMA = """
CREATE TABLE queue_manager(keyword TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE queue(
    queue_id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    type INTEGER NOT NULL,
    attributes TEXT NOT NULL);
CREATE TABLE depth(queue_id INTEGER PRIMARY KEY, messages INTEGER NOT NULL);
CREATE TABLE message(
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    state INTEGER NOT NULL,
    connection_id INTEGER,
    msg_id BLOB NOT NULL,
    correl_id BLOB,
    expires_at REAL,
    backout_count INTEGER NOT NULL DEFAULT 0);
CREATE INDEX available ON message(queue_id, rank) WHERE state = 0;
CREATE INDEX by_msg_id ON message(queue_id, msg_id, rank) WHERE state = 0;
CREATE INDEX by_correl_id ON message(queue_id, correl_id, rank)
    WHERE state = 0 AND correl_id IS NOT NULL;
CREATE INDEX expiring ON message(queue_id, expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
CREATE INDEX uncommitted ON message(connection_id, state) WHERE connection_id IS NOT NULL;
CREATE TABLE content(
    place INTEGER PRIMARY KEY,
    descriptor BLOB NOT NULL,
    properties BLOB,
    body BLOB NOT NULL);
CREATE TABLE connection(connection_id INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL);
CREATE TABLE open_handle(
    connection_id INTEGER NOT NULL,
    handle INTEGER NOT NULL,
    queue_id INTEGER NOT NULL,
    input INTEGER NOT NULL,
    exclusive INTEGER NOT NULL,
    output INTEGER NOT NULL,
    PRIMARY KEY(connection_id, handle)) WITHOUT ROWID;
CREATE TABLE operation(status TEXT NOT NULL, start INTEGER NOT NULL, owner TEXT NOT NULL);
CREATE TABLE authority(
    object_type TEXT NOT NULL,
    profile TEXT NOT NULL,
    principal TEXT NOT NULL,
    granted TEXT NOT NULL,
    PRIMARY KEY(object_type, profile, principal)) WITHOUT ROWID;
CREATE TABLE fault(
    fault_id INTEGER PRIMARY KEY AUTOINCREMENT,
    text TEXT NOT NULL,
    calls INTEGER NOT NULL DEFAULT 0);
"""


class Store:
    """One open database; its user is one thread at a time."""

    def __init__(self, directory: Path) -> None:
        """Open the database in a queue manager's directory.

        Raises EmbeddedQueueManagerError if another version of this program has made it.
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
        if self.one("PRAGMA application_id") != LAYOUT:
            self.close()
            raise EmbeddedQueueManagerError(
                f"the queue manager in {directory} was made by another version of mqdlq and cannot"
                " be used by this one; delete the directory and create the queue manager anew"
            )
        self.execute("PRAGMA synchronous = NORMAL")
        self.execute("PRAGMA mmap_size = 268435456")
        self.known = load(self.execute)
        """The definitions as they were when last looked at, which every call does once."""
        self._is_current = True  # not after a rollback, which may have undone what was loaded

    @classmethod
    def create(cls, directory: Path, queue_manager: Mapping[str, int | str], owner: str) -> None:
        """Make the database of a queue manager that has these attributes, and nothing else."""
        database = sqlite3.connect(directory / DATABASE, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA application_id = {LAYOUT}")
            database.executescript(f"BEGIN; {SCHEMA}")
            database.executemany("INSERT INTO queue_manager VALUES(?, ?)", queue_manager.items())
            database.execute("INSERT INTO operation VALUES('RUNNING', 1, ?)", (owner,))
            database.execute("COMMIT")
        finally:
            database.close()
        LockFile(directory / LOCK_FILE).close()

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        row = self.execute(sql, values).fetchone()
        return row and row[0]

    def close(self) -> None:
        """Close the database, then drop the locks: dead to others only when nothing is open."""
        self._database.close()
        self.locks.close()

    @contextmanager
    def writing(self, *, durable: bool = False) -> Iterator[None]:
        """Do what the block does in one transaction, or nothing of it.

        With `durable` it is on disk when the block ends; without, a power cut may undo it, a
        killed process not.
        """
        if durable:
            self.execute("PRAGMA synchronous = FULL")
        self.locks.take_turn()
        try:
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self.execute("ROLLBACK")
                self._is_current = False
                raise
        finally:
            self.locks.give_turn()
            if durable:
                self.execute("PRAGMA synchronous = NORMAL")

    def catalogue(self) -> Catalogue:
        """Return the definitions as they are at this moment."""
        if not self._is_current or self.one("PRAGMA user_version") != self.known.version:
            self.known = load(self.execute)
            self._is_current = True
        return self.known

    def definitions_changed(self) -> None:
        """Make every connection read the definitions anew; call it while writing."""
        version = self.one("PRAGMA user_version") + 1
        self.execute(f"PRAGMA user_version = {version}")
