"""Detect ledger transactions that read first and then write without the write lock.

SQLite refuses such a transaction if another process has written in between; in a single process the
error would stay hidden.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event

WRITES = ("INSERT", "UPDATE", "DELETE")


def require_write_locks(engine: Engine) -> None:
    """Raise an error in any transaction that writes after a read without the write lock."""

    def begun(connection: Connection) -> None:
        connection.info["has_read"] = False

    def executed(connection: Connection, _: Any, statement: str, *__: Any) -> None:
        if not statement.lstrip().upper().startswith(WRITES):
            connection.info["has_read"] = True
        elif connection.info.get("has_read"):
            has_turn = connection.get_execution_options().get("in_turn")
            assert has_turn, f"reads and then writes: begin it by in_turn\n{statement}"

    if engine.dialect.name == "sqlite":
        event.listen(engine, "begin", begun)
        event.listen(engine, "before_cursor_execute", executed)
