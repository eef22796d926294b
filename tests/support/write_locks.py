"""Make a ledger raise an error for a transaction that reads and then writes without its lock.

SQLite refuses such a write only if another process has written in between.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event

WRITES = ("INSERT", "UPDATE", "DELETE")


def insist_on_turns(engine: Engine) -> None:
    """Let every transaction that writes after it has read be one that waited for its turn."""

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
