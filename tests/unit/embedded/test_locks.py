"""The writer's turn, and what must not happen while someone has it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from builders_mq import Application
from mqdlq.mqi import embedded
from mqdlq.mqi.embedded.calls import connection_at


def test_no_finalizer_calls_in_the_middle_of_anothers_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of another connection closes itself when collected; it would wait for ever."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded.install()
    embedded.create("QM1")
    embedded.run_mqsc("QM1", "DEFINE QLOCAL(A)")
    import ibmmq

    one, other = Application(ibmmq, "QM1"), Application(ibmmq, "QM1")
    lost = other.open("A", "INPUT_EXCLUSIVE")
    lost.itself = lost
    del lost

    with connection_at(one.handle.get_handle()).store.writing():
        garbage = [[] for _ in range(100_000)]

    assert len(garbage) == 100_000
    assert gc.isenabled()
    gc.collect()
    one.open("A", "INPUT_EXCLUSIVE").close()
    one.disconnect()
    other.disconnect()
