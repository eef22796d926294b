"""Run SET, DISPLAY and CLEAR FAULT, which make calls of a queue manager's applications fail.

IBM MQ does not have these commands; they are for tests. `storage.faults` describes the form.
"""

from embedded_mq.engine.connection import Connection
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq.mqsc.syntax import Command, ProblemError
from embedded_mq.storage.faults import parse, split


def set_fault(connection: Connection, command: Command) -> list[str]:
    """Add faults, which count calls from now on."""
    texts = split(command.name or "") or [""]
    try:
        for text in texts:
            parse(text)
    except EmbeddedQueueManagerError as error:
        raise ProblemError(command.line, f"{error}; put it in quotes") from None
    connection.store.execute_many("INSERT INTO fault(text) VALUES(?)", [(text,) for text in texts])
    connection.store.definitions_changed()
    return [f"set FAULT({text})" for text in texts]


def display(connection: Connection, _: Command) -> list[str]:
    """Display the pending faults, with the calls counted for each."""
    rows = connection.store.execute("SELECT text, calls FROM fault ORDER BY fault_id").fetchall()
    return [f"FAULT({text}) CALLS({calls})" for text, calls in rows]


def clear(connection: Connection, _: Command) -> list[str]:
    """Remove all faults."""
    connection.store.execute("DELETE FROM fault")
    connection.store.definitions_changed()
    return ["cleared FAULT"]
