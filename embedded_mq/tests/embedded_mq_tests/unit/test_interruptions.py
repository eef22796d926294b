"""Calls that a signal interrupts: the connection breaks as if its process had been killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from embedded_mq.clients.calls import connection_at
from embedded_mq_tests.builders import Application


@pytest.fixture
def mqi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)")
    import ibmmq

    return ibmmq


AFTER_THE_COMMIT = "PRAGMA synchronous = NORMAL"


@pytest.mark.parametrize(
    ("statement", "when", "is_committed"),
    [
        ("COMMIT", "before", False),
        ("COMMIT", "after", True),
        (AFTER_THE_COMMIT, "before", True),
        (AFTER_THE_COMMIT, "after", True),
    ],
)
def test_an_interrupted_commit_has_full_effect_or_none(
    mqi: Any, monkeypatch: pytest.MonkeyPatch, statement: str, when: str, *, is_committed: bool
) -> None:
    app, other = Application(mqi, "QM1"), Application(mqi, "QM1")
    app.put("A", b"old")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    app.put("B", b"new", "SYNCPOINT")
    store = connection_at(app.handle.get_handle()).store
    execute = store.execute

    def interrupted(sql: str, *values: Any) -> Any:
        if sql != statement:
            return execute(sql, *values)
        if when == "after":
            execute(sql, *values)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        app.handle.commit()
    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.handle.backout()

    assert (other.depth("A"), other.depth("B")) == ((0, 1) if is_committed else (1, 0))
    assert (other.bodies("A"), other.bodies("B")) == (
        ([], [b"new"]) if is_committed else ([b"old"], [])
    )
    if not is_committed:
        _, md = other.get(other.open("A", "INPUT_SHARED"))
        assert md.BackoutCount == 1


def test_a_waiting_get_can_be_interrupted_without_breaking_the_connection(
    mqi: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(mqi, "QM1")
    queue = app.open("A", "INPUT_SHARED")
    app.put("B", b"kept", "SYNCPOINT")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.get(None, app.md(), app.gmo("WAIT", "SYNCPOINT", WaitInterval=10_000))
    app.handle.commit()

    assert app.bodies("B") == [b"kept"]
