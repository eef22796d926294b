"""Read client channel definition tables in JSON, and select one of their channels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.ccdt import ClientChannel, read_ccdt, select_channel


def entry(name: str, queue_manager: str = "", **groups: Any) -> dict[str, Any]:
    """Return a channel's entry of a CCDT; `groups` are further objects of it."""
    connection: dict[str, Any] = {"connection": [{"host": "mq1.example.com", "port": 1415}]}
    if queue_manager:
        connection["queueManager"] = queue_manager
    return {"name": name, "type": "clientConnection", "clientConnection": connection, **groups}


def write(directory: Path, *entries: Any) -> Path:
    path = directory / "ccdt.json"
    path.write_text(json.dumps({"channel": list(entries)}), encoding="utf-8")
    return path


def failure(path: Path, **asked: str) -> str:
    """Return the error's text, without the directory of the file."""
    with pytest.raises(ConnectionSettingsError) as caught:
        select_channel(path, read_ccdt(path), **asked)
    return str(caught.value).replace(f"CCDT {path}", f"CCDT {path.name}")


def test_a_channel_has_its_addresses_and_its_cipher_spec(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        entry(
            "DLQ.SVRCONN",
            "QM1",
            clientConnection={
                "queueManager": "QM1",
                "connection": [{"host": "a", "port": 1500}, {"host": "b"}],
            },
            transmissionSecurity={
                "cipherSpecification": "ANY_TLS12_OR_HIGHER",
                "certificateLabel": "mqdlq",
                "certificatePeerName": "",
            },
            general={"description": "for the dead-letter queue handler"},
            connectionManagement={"heartbeatInterval": 60, "localAddress": []},
        ),
    )

    assert read_ccdt(path) == [
        ClientChannel(
            "DLQ.SVRCONN",
            (("a", 1500), ("b", 1414)),
            queue_manager="QM1",
            tls_cipher_spec="ANY_TLS12_OR_HIGHER",
            certificate_label="mqdlq",
        )
    ]


def test_queue_manager_and_channel_select_an_entry(tmp_path: Path) -> None:
    path = write(tmp_path, entry("A", "QM1"), entry("B", "QM1"), entry("C", "QM2"), entry("D"))
    found = read_ccdt(path)

    assert select_channel(path, found, queue_manager="QM2", name="C").name == "C"
    assert select_channel(path, found, name="B").queue_manager == "QM1"
    assert select_channel(path, found, queue_manager="QM9").name == "D"


def test_entries_of_other_types_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, {"name": "A", "type": "serverConnection"}, entry("B", "QM1"))

    assert [channel.name for channel in read_ccdt(path)] == ["B"]


def test_several_fitting_channels_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path, *(entry(f"C{number}", "QM1") for number in range(10)))

    assert failure(path, queue_manager="QM1") == (
        "CCDT ccdt.json has 10 channels for queue manager 'QM1'; choose one by --queue-manager and"
        " --channel: C0 (queue manager 'QM1'), C1 (queue manager 'QM1'), C2 (queue manager 'QM1'),"
        " C3 (queue manager 'QM1'), C4 (queue manager 'QM1'), C5 (queue manager 'QM1'),"
        " C6 (queue manager 'QM1'), C7 (queue manager 'QM1'), and 2 more [MQDLQ-143]"
    )


def test_a_name_that_fits_no_channel_is_an_error(tmp_path: Path) -> None:
    assert failure(write(tmp_path, entry("A", "QM1")), queue_manager="QM2", name="A") == (
        "CCDT ccdt.json has no channel for queue manager 'QM2' and channel 'A'; choose one by"
        " --queue-manager and --channel: A (queue manager 'QM1') [MQDLQ-143]"
    )
    assert failure(write(tmp_path)) == (
        "CCDT ccdt.json has no channel; choose one by --queue-manager and --channel: the file has"
        " none [MQDLQ-143]"
    )


def test_an_attribute_that_a_connection_cannot_state_is_an_error(tmp_path: Path) -> None:
    """Without its exit or its peer name, the channel would be less safe than its owner meant."""
    path = write(
        tmp_path,
        entry(
            "A",
            "QM1",
            exits={"security": {"name": "exit"}},
            transmissionSecurity={"certificatePeerName": "CN=QM1"},
        ),
    )

    assert failure(path) == (
        "CCDT ccdt.json: channel 'A' has exits.security, transmissionSecurity.certificatePeerName,"
        " which a connection cannot state; leave the file to IBM's client: --ccdt-url"
        f" {path.as_uri()} --client ibmmq [MQDLQ-144]"
    )


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "it is empty"),
        (b"{", "it is not JSON: Expecting property name enclosed in double quotes at line 1, "),
        (b"[]", "the document is a list, expected an object"),
        (b"{}", "channel is missing, expected a list"),
        (b'{"channel": [7]}', "channel[0] is 7, expected an object"),
    ],
)
def test_a_file_of_another_form_is_rejected(tmp_path: Path, data: bytes, fault: str) -> None:
    path = tmp_path / "ccdt.json"
    path.write_bytes(data)

    assert failure(path).startswith(f"CCDT ccdt.json: {fault}")


@pytest.mark.parametrize(
    ("connection", "fault"),
    [
        ({"connection": "mq1"}, ".connection is text, expected a list"),
        ({}, ".connection is missing; expected a list with host and port"),
        ({"connection": [{}]}, ".connection[0].host is missing"),
        (
            {"connection": [{"host": "a"}, {"host": "b", "port": "1414"}]},
            ".connection[1].port is '1414', expected 1 to 65535",
        ),
        (
            {"connection": [{"host": "a", "port": 0}]},
            ".connection[0].port is 0, expected 1 to 65535",
        ),
        ({"connection": [{"host": "a"}], "queueManager": 1}, ".queueManager is 1, expected text"),
    ],
)
def test_an_error_names_the_place_in_the_file(
    tmp_path: Path, connection: dict[str, Any], fault: str
) -> None:
    path = write(tmp_path, entry("A"), {**entry("B"), "clientConnection": connection})

    assert failure(path) == (f"CCDT ccdt.json: channel[1].clientConnection{fault} [MQDLQ-141]")


def test_a_binary_table_is_left_to_the_client(tmp_path: Path) -> None:
    path = tmp_path / "AMQCLCHL.TAB"
    path.write_bytes(b"\x41\x4d\x51\x52\x00\xff")

    assert failure(path) == (
        "CCDT AMQCLCHL.TAB is binary, and only IBM's client reads a binary CCDT; leave the file to"
        f" the client: --ccdt-url {path.as_uri()} --client ibmmq [MQDLQ-142]"
    )


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert failure(tmp_path / "none.json") == (
        "CCDT none.json: it cannot be read: No such file or directory [MQDLQ-141]"
    )
