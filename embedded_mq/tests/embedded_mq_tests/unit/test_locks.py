"""The write lock, and finalizers that run while a connection holds it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import embedded_mq
from embedded_mq.clients.calls import connection_at
from embedded_mq.storage.locks import CollectorPause, LockFile
from embedded_mq_tests.builders import Application


def test_no_finalizer_makes_calls_while_another_connection_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collected queue of another connection closes itself, and would wait without end."""
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")
    import ibmmq

    one, other = Application(ibmmq, "QM1"), Application(ibmmq, "QM1")
    lost = other.open("A", "INPUT_EXCLUSIVE")
    lost.itself = lost
    del lost

    with connection_at(one.handle.get_handle()).store.transaction():
        garbage: list[list[object]] = [[] for _ in range(100_000)]

    assert len(garbage) == 100_000
    assert gc.isenabled()
    gc.collect()
    one.open("A", "INPUT_EXCLUSIVE").close()
    one.disconnect()
    other.disconnect()


def test_a_finalizer_may_pause_the_collector_while_it_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Resuming may start a collection inside the call."""
    collector = CollectorPause()
    collector.pause()

    def finalize() -> None:
        monkeypatch.undo()
        gc.enable()
        collector.pause()
        collector.resume()

    monkeypatch.setattr(gc, "enable", finalize)
    thread = threading.Thread(target=collector.resume, daemon=True)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert gc.isenabled()


def test_closing_a_lock_file_twice_does_not_close_another_file(tmp_path: Path) -> None:
    locks = LockFile(tmp_path / "locks")
    locks.close()
    with (tmp_path / "other").open("w") as other:  # the lowest free descriptor is the closed one
        locks.close()
        other.write("still open")
    assert (tmp_path / "other").read_text() == "still open"


def test_a_forked_program_starts_after_a_connection_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `preexec_fn`, with which PySpark starts its JVM, the child forgets its connections."""
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    import ibmmq

    application = Application(ibmmq, "QM1")
    connection_at(application.handle.get_handle()).break_connection()

    said = subprocess.run(
        [sys.executable, "-c", "print(input())"],
        input="hello\n",
        text=True,
        stdout=subprocess.PIPE,
        preexec_fn=int,
        check=True,
    )

    assert said.stdout == "hello\n"
    application.disconnect()


def test_a_put_fails_if_another_process_deletes_the_queue_just_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IBM MQ docs, "2052 (0804) (RC2052): MQRC_Q_DELETED"; MQPUT1 holds no handle."""
    monkeypatch.setenv("EMBEDDED_MQ_HOME", str(tmp_path))
    embedded_mq.install()
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")
    import ibmmq

    app = Application(ibmmq, "QM1")
    store = connection_at(app.handle.get_handle()).store
    transaction = store.transaction

    def after_the_deletion(**options: bool) -> AbstractContextManager[None]:
        monkeypatch.setattr(store, "transaction", transaction)
        embedded_mq.run_mqsc("QM1", "DELETE QLOCAL(A)")
        return transaction(**options)

    monkeypatch.setattr(store, "transaction", after_the_deletion)
    with app.failing("MQRC_Q_DELETED"):
        app.put("A", b"lost")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(A)")

    assert app.bodies("A") == []
    app.disconnect()
