"""Embedded queue managers of one name in two directories, used by one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import embedded_mq
from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.connect import ConnectionSettings
from tests.support.world import World


def make_world(directory: Path, client: str) -> World:
    directory.mkdir()
    return World(directory, client=client)


@pytest.mark.parametrize("client", ["pymqi", "ibmmq"])
def test_two_worlds_in_one_process_do_not_answer_for_each_other(
    tmp_path: Path, client: str
) -> None:
    first = make_world(tmp_path / "first", client)
    first.mqsc("DEFINE QLOCAL(ONLY.FIRST)")
    connected = first.connect()

    second = make_world(tmp_path / "second", client)
    first.put("ONLY.FIRST", b"one")
    second.put("DLQ", b"two")
    second.mqsc("DEFINE QLOCAL(ONLY.SECOND)")

    assert first.depths("ONLY.FIRST", "DLQ") == (1, 0)
    assert second.bodies("DLQ") == [b"two"]
    assert connected.depth("ONLY.FIRST") == 1
    assert "ONLY.SECOND" not in embedded_mq.depths("QM1", tmp_path / "first" / "queue_managers")
    connected.disconnect()


def test_only_transport_embedded_has_a_directory() -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        ConnectionSettings("QM1", transport="bindings", directory="/srv/queue_managers")
    assert str(caught.value) == (
        "transport 'bindings' has no use for directory; leave it out, or use"
        ' "transport": "embedded" [MQDLQ-105]'
    )
