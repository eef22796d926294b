"""The database of a queue manager: SQL in, rows out, one writer at a time, a commit on disk.

A message has a row from the moment it is committed. Its `place` is given when it is put, is never
used again, and orders messages of equal rank; rank is 9 less the priority, so that the least comes
first. What is not committed, and who holds which message back, stands on the board (`board`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.storage.board import DEFINITIONS, DEPTH, Board
from embedded_mq.storage.catalogue import Catalogue, load
from embedded_mq.storage.locks import LockFile

DATABASE = "queue_manager.sqlite"
LOCK_FILE = "queue_manager.lock"
BOARD = "queue_manager.board"

IN_CHANGE = -1

LAYOUT = 3
"""Kept with the database (PRAGMA application_id); raised whenever the schema changes."""

SCHEMA = """
CREATE TABLE queue_manager(keyword TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE queue(
    queue_id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    type INTEGER NOT NULL,
    attributes TEXT NOT NULL);
CREATE TABLE message(
    place INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    msg_id BLOB NOT NULL,
    correl_id BLOB,
    expires_at REAL,
    backout_count INTEGER NOT NULL,
    descriptor BLOB NOT NULL,
    properties BLOB,
    body BLOB NOT NULL);
CREATE INDEX in_order ON message(queue_id, rank);
CREATE INDEX by_msg_id ON message(queue_id, msg_id, rank);
CREATE INDEX by_correl_id ON message(queue_id, correl_id, rank) WHERE correl_id IS NOT NULL;
CREATE INDEX expiring ON message(queue_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE connection(
    connection_id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    units_ended INTEGER NOT NULL DEFAULT 0);
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
        self._announced: list[tuple[int, ...]] = []
        self._may_have_changed = False
        try:
            self._check_layout(directory)
            self.board = Board(directory / BOARD)
        except BaseException:
            self._database.close()
            self.locks.close()
            raise
        self.execute("PRAGMA synchronous = NORMAL")
        self.execute("PRAGMA mmap_size = 268435456")
        self.turn = Turn(self.locks, self.board)
        self._definitions = self.board.words[DEFINITIONS]
        self.known = load(self.execute)
        """The definitions as they were when last looked at, which every call does once."""

    def _check_layout(self, directory: Path) -> None:
        if self.one("PRAGMA application_id") != LAYOUT:
            raise EmbeddedQueueManagerError(
                f"the queue manager in {directory} was made by another version of embedded-mq and"
                " cannot be used by this one; delete the directory and create the queue manager"
                " again"
            )

    @classmethod
    def create(
        cls,
        directory: Path,
        queue_manager: Mapping[str, int | str],
        queues: Iterable[tuple[str, int, str]],
        owner: str,
    ) -> None:
        """Make the database of a queue manager that has these attributes and queues only.

        A queue is its name, its type and its attributes in JSON.
        """
        database = sqlite3.connect(directory / DATABASE, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA application_id = {LAYOUT}")
            database.executescript(f"BEGIN; {SCHEMA}")
            database.executemany("INSERT INTO queue_manager VALUES(?, ?)", queue_manager.items())
            database.executemany("INSERT INTO queue VALUES(NULL, ?, ?, ?)", queues)
            database.execute("INSERT INTO operation VALUES('RUNNING', 1, ?)", (owner,))
            database.execute("COMMIT")
        finally:
            database.close()
        LockFile(directory / LOCK_FILE).close()
        Board(directory / BOARD).close()

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        row = self.execute(sql, values).fetchone()
        return row and row[0]

    def close(self) -> None:
        """Close the database, then drop the locks: dead to others only when nothing is open."""
        self._database.close()
        self.board.close()
        self.locks.close()

    @contextmanager
    def writing(self, *, durable: bool = False) -> Iterator[None]:
        """Do what the block does in one transaction, or nothing of it.

        With `durable` it is on disk when the block ends; without, a power cut may undo it, a
        killed process not.
        """
        if durable:
            self.execute("PRAGMA synchronous = FULL")
        try:
            with self.turn:
                self.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.execute("COMMIT")
                except BaseException as error:
                    if self._database.in_transaction:
                        self.execute("ROLLBACK")
                    elif not isinstance(error, sqlite3.Error):  # interrupted when all was written
                        self._make_known()
                    self._undo()
                    raise
                self._make_known()
        finally:
            if durable:
                self.execute("PRAGMA synchronous = NORMAL")

    def _undo(self) -> None:
        self._announced.clear()
        if self._may_have_changed:
            self._may_have_changed = False
            self.board.definitions_stand()
            self._definitions = IN_CHANGE  # what has been loaded may never have been

    def _make_known(self) -> None:
        for event in self._announced:
            self.board.append(*event)
        self._announced.clear()
        if self._may_have_changed:
            self._may_have_changed = False
            self.board.definitions_stand()

    def announce(self, *event: int) -> None:
        """Let an event happen when what is being written is committed."""
        self._announced.append(event)

    def depth(self, queue_id: int) -> int:
        """Return the depth of a queue, with the turn: as it will be when this is committed."""
        for event in reversed(self._announced):
            if event[0] == DEPTH and event[-2] == queue_id:
                return event[-1]
        return self.board.depths[queue_id]

    def catalogue(self) -> Catalogue:
        """Return the definitions as they are at this moment."""
        now = self.board.words[DEFINITIONS]
        if now != self._definitions or now & 1:
            if self._definitions == IN_CHANGE or self.known.version != self._version():
                self.known = load(self.execute)
            self._definitions = now
        return self.known

    def _version(self) -> int:
        return int(self.one("PRAGMA user_version"))

    def definitions_changed(self) -> None:
        """Make every connection read the definitions anew; call it while writing."""
        self.board.change_definitions()
        self._may_have_changed = True
        self.execute(f"PRAGMA user_version = {self._version() + 1}")


class Turn:
    """The turn to write, taken for a block; what others have done is known when it begins.

    Within such a block another one changes nothing.
    """

    def __init__(self, locks: LockFile, board: Board) -> None:
        """Take nothing yet."""
        self._locks = locks
        self._board = board
        self._blocks = 0
        self.has_been_taken = False
        """Since whoever asks has last set it to False."""

    def __enter__(self) -> None:
        self.has_been_taken = True
        if not self._blocks:
            self._locks.take_turn()
        self._blocks += 1
        try:
            self._board.catch_up()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._blocks -= 1
        if not self._blocks:
            self._locks.give_turn()
