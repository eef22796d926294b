"""Depth events as wake-ups of triggers: they end a pause, and start nothing by themselves."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import embedded_mq
from mqdlq.airflow.hooks.ibmmq import forget_settings
from mqdlq.airflow.triggers.waiting import WakeUps
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.evidence import shared_event_watches
from mqdlq.mqi.inquiries import shared_inquiry_pool
from tests.airflow.triggers.test_triggers import RULES, depth_trigger, fire, put

EVENTS = "SYSTEM.ADMIN.PERFM.EVENT"


@pytest.fixture(name="queue_manager")
def _queue_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a queue manager with the queue DLQ, the connection `mq` to it, and its handler."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    (tmp_path / "night.yaml").write_text("connection: mq\nrules: night.rules\n")
    (tmp_path / "night.rules").write_text(RULES)
    extra = {"queue_manager": "QMT", "transport": "embedded"}
    monkeypatch.setenv("AIRFLOW_CONN_MQ", json.dumps({"conn_type": "ibmmq", "extra": extra}))
    shared_inquiry_pool.cache_clear()
    shared_event_watches.cache_clear()
    forget_settings("mq")
    embedded_mq.create("QMT")
    embedded_mq.run_mqsc("QMT", "DEFINE QLOCAL(DLQ)")
    return "QMT"


def test_a_depth_event_ends_a_pause_early(queue_manager: str) -> None:
    """The pause is half a minute; the event comes with the message."""
    embedded_mq.run_mqsc(queue_manager, "ALTER QMGR PERFMEV(ENABLED)")
    embedded_mq.run_mqsc(queue_manager, "ALTER QLOCAL(DLQ) QDEPTHHI(0) QDPHIEV(ENABLED)")

    async def woken() -> float:
        wake_ups = WakeUps()
        wake_ups.listen(ConnectionSettings(queue_manager, transport="embedded"), EVENTS, "DLQ")
        began = asyncio.get_running_loop().time()
        asyncio.get_running_loop().call_later(0.5, put, queue_manager)
        await wake_ups.sleep(30)
        wake_ups.close()
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(woken()) < 20


def test_a_forged_event_starts_no_run(queue_manager: str) -> None:
    """The trigger looks at the depth, finds nothing, and waits until its time."""
    until = datetime.now(UTC) + timedelta(seconds=4)  # noqa: TID251 (the trigger's own clock)
    event = struct.pack("=9i", 7, 36, 1, 45, 1, 1, 1, 2224, 1)
    event += struct.pack("=5i", 4, 68, 2002, 0, 48) + b"DLQ".ljust(48)
    threading.Timer(1, put, (queue_manager, 3), {"queue": EVENTS, "body": event}).start()

    fired = fire(depth_trigger(until=until, event_queue=EVENTS))

    assert fired == {"depth": 0, "why": "", "until": until.isoformat()}
    held = {name: depth for name, depth in embedded_mq.depths(queue_manager).items() if depth}
    assert held == {EVENTS: 3}
