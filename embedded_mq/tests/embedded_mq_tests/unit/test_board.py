"""The board: what all connections know of what is under way, whatever becomes of any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embedded_mq
from embedded_mq.clients.calls import connection_at
from embedded_mq.storage import board as events
from embedded_mq.storage.board import Board
from embedded_mq_tests.builders import Application

OWNERS, QUEUES = st.integers(1, 3), st.integers(1, 2)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Draw events in an order in which they can happen."""
    history: list[tuple[int, ...]] = []
    held: dict[int, tuple[int, ...]] = {}
    kinds = st.sampled_from(["put", "get", "lock", "free", "end", "add", "remove"])
    for place, kind in enumerate(draw(st.lists(kinds, max_size=60)), start=1):
        owner, queue = draw(OWNERS), draw(QUEUES)
        if kind in {"put", "get", "lock"}:
            number = {"put": events.PUT, "get": events.GOT, "lock": events.LOCKED}[kind]
            held[place] = (number, 4, 1, owner, queue, place)
            history.append(held[place])
        elif kind == "end":
            end = draw(st.sampled_from([events.COMMITTED, events.BACKED_OUT, events.DISCONNECTED]))
            stay = {p: e for p, e in held.items() if e[3] != owner}
            if end != events.DISCONNECTED:
                stay |= {p: e for p, e in held.items() if e[0] == events.LOCKED}
            held = stay
            history.append((end, 0, 0, owner, 0, 0))
        elif kind == "free" and (locked := [e for e in held.values() if e[0] == events.LOCKED]):
            freed = events.Held(*draw(st.sampled_from(locked)))
            del held[freed.place]
            history.append(freed.freed())
        elif kind in {"add", "remove"}:
            number = events.ADDED if kind == "add" else events.REMOVED
            history.append((number, 4, 0, 0, queue, place))
    return history


def known(board: Board) -> tuple[Any, ...]:
    board.catch_up()
    owners = {owner: board.held_by(owner) for owner in board.owners()}
    return dict(board.held), {q: n for q, n in board.depths.items() if n}, owners


@given(history=histories())
def test_who_looks_late_knows_what_who_looked_all_the_time_knows(
    history: list[tuple[int, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also when the log has been begun again in between, and has grown."""
    path = tmp_path_factory.mktemp("boards") / "board"
    writer, reader, sleeper = Board(path), Board(path), Board(path)
    for number, event in enumerate(history):
        if number % 7 == 6:
            writer._begin_again()
        writer.append(*event)
        assert known(reader) == known(writer)
    assert known(sleeper) == known(Board(path)) == known(writer)


def test_a_full_log_is_begun_again_with_what_is_held_alone(tmp_path: Path) -> None:
    writer, sleeper = Board(tmp_path / "board"), Board(tmp_path / "board")
    for place in range(1, 10_001):  # five times what the first log takes
        writer.append(events.PUT, 4, 1, 7, 1, place)
    writer.append(events.COMMITTED, 0, 0, 7, 0, 0)
    for place in range(1, 10_001):
        writer.append(events.REMOVED, 0, 0, 0, 1, place)

    assert known(sleeper) == known(writer) == ({}, {}, {})


@pytest.fixture
def mqi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)")
    import ibmmq

    return ibmmq


INTERRUPTIONS = [("COMMIT", "before", False), ("COMMIT", "after", True)] + [
    (verb, when, True) for verb in ("append", "_begin") for when in ("before", "after")
]


@pytest.mark.parametrize(("step", "when", "is_committed"), INTERRUPTIONS)
def test_a_commit_that_is_interrupted_is_whole_or_not_at_all(
    mqi: Any, monkeypatch: pytest.MonkeyPatch, step: str, when: str, *, is_committed: bool
) -> None:
    """A handler of a signal raises within MQCMIT: the connection breaks, as if it were killed."""
    app, other = Application(mqi, "QM1"), Application(mqi, "QM1")
    app.put("A", b"old")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    app.put("B", b"new", "SYNCPOINT")
    connection = connection_at(app.handle.get_handle())
    owner = {"COMMIT": connection.store, "append": connection.store.board}.get(step, connection)
    name = "execute" if step == "COMMIT" else step
    call = getattr(owner, name)

    def interrupted(*arguments: Any) -> Any:
        if step == "COMMIT" != arguments[0]:
            return call(*arguments)
        if when == "after":
            call(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
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


def test_a_get_that_is_interrupted_asleep_leaves_the_connection_whole(
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
