"""Queue managers that an earlier version created."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import embedded_mq
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq_tests.builders import Application

TO_LAYOUT_4 = """
ALTER TABLE open_handle DROP COLUMN options;
ALTER TABLE connection DROP COLUMN application;
ALTER TABLE connection DROP COLUMN user;
PRAGMA application_id = 4;
"""
TO_LAYOUT_3 = (
    TO_LAYOUT_4
    + """
DROP TRIGGER put; DROP TRIGGER removed; DROP TRIGGER got; DROP TRIGGER given_back;
DROP TABLE held;
ALTER TABLE queue DROP COLUMN depth;
ALTER TABLE operation DROP COLUMN last_place;
ALTER TABLE connection ADD COLUMN units_ended INTEGER NOT NULL DEFAULT 0;
INSERT INTO connection(pid, units_ended) VALUES(1, 7);
PRAGMA application_id = 3;
"""
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)")
    return tmp_path / "QM1"


def columns(directory: Path) -> list[tuple[str, str]]:
    """Return every column of every table, and every index and trigger."""
    with closing(sqlite3.connect(directory / "queue_manager.sqlite")) as database:
        return database.execute(
            "SELECT schema.name, column.name FROM sqlite_schema AS schema"
            " LEFT JOIN pragma_table_info(schema.name) AS column ORDER BY 1, 2"
        ).fetchall()


def test_a_queue_manager_of_layout_3_is_opened_with_its_messages(home: Path) -> None:
    """The mapped file of layout 3 is removed."""
    import ibmmq

    made = columns(home)
    app = Application(ibmmq, "QM1")
    for body in (b"1", b"2", b"3"):
        app.put("A", body)
    app.disconnect()
    with closing(sqlite3.connect(home / "queue_manager.sqlite")) as database:
        database.executescript(TO_LAYOUT_3)
    board = home / "queue_manager.board"
    board.write_bytes(b"who held what")

    app = Application(ibmmq, "QM1")
    app.put("A", b"4", "SYNCPOINT")
    app.handle.commit()
    assert app.bodies("A") == [b"1", b"2", b"3", b"4"]
    assert (app.depth("A"), app.depth("B")) == (4, 0)
    app.disconnect()

    assert columns(home) == made
    assert not board.exists()


def test_a_queue_manager_of_layout_4_is_opened_with_its_messages(home: Path) -> None:
    import ibmmq

    made = columns(home)
    app = Application(ibmmq, "QM1")
    app.put("A", b"1")
    app.disconnect()
    with closing(sqlite3.connect(home / "queue_manager.sqlite")) as database:
        database.executescript(TO_LAYOUT_4)

    app = Application(ibmmq, "QM1")
    assert app.bodies("A") == [b"1"]
    app.disconnect()

    assert columns(home) == made


def test_a_queue_manager_of_an_unknown_layout_is_rejected(home: Path) -> None:
    with closing(sqlite3.connect(home / "queue_manager.sqlite")) as database:
        database.execute("PRAGMA application_id = 2")

    with pytest.raises(EmbeddedQueueManagerError, match="created by another version"):
        embedded_mq.run_mqsc("QM1", "")
