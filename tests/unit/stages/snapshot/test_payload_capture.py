"""Test that bodies are captured and encrypted only as the handler's file requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqdlq import lake
from mqdlq.cli import app
from mqdlq.errors import ConnectionSettingsError, LakeError
from mqdlq.lake import SnapshotManifest
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.stages.snapshot.capture import (
    PayloadKey,
    decryption,
    read_all_keys,
    read_current_key,
    read_payloads,
)
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import BODY, put_with_properties

KEY = PayloadKey("2026-11", b"k" * 32)
LONG = b"0123456789" * 20_000  # longer than the first browse reads


def take(world: World, payload: str, key: PayloadKey | None = None) -> tuple[str, SnapshotManifest]:
    run = world.start("ACTION(IGNORE)")
    manifest = world.snapshot(run, payload=payload, key=key, rescan=True)
    return str(world.recorded_snapshot(run.run_id).location), manifest


def bodies(directory: str, *keys: PayloadKey) -> list[bytes]:
    known = {key.key_id: key.key for key in keys}
    return [payload for _, payload in read_payloads(directory, known)]


def fill(world: World) -> None:
    world.dead_letter(b"short")
    world.dead_letter(LONG)
    world.put("DLQ", b"no header")
    world.dead_letter(b"")


def test_no_payload_is_captured_by_default(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "none")

    assert manifest.payload == "none"
    assert not (Path(directory) / "payload").exists()
    assert bodies(directory) == []


def test_a_captured_head_begins_after_the_mqdlh(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "head: 12")

    assert bodies(directory) == [b"short", LONG[:12], b"no header", b""]
    lengths = [row["payload_length"] for row in lake.payload_rows(directory)]
    assert lengths == [5, len(LONG), 9, 0]
    assert manifest.payload == "head: 12"


def test_a_full_payload_is_captured_at_any_length(world: World) -> None:
    fill(world)

    assert bodies(take(world, "full")[0]) == [b"short", LONG, b"no header", b""]


def test_a_long_message_that_vanishes_keeps_the_bytes_already_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dead_letter(LONG)
    monkeypatch.setattr(BrowseCursor, "find", lambda *_: None)

    (payload,) = bodies(take(world, "full")[0])

    assert 0 < len(payload) < len(LONG)
    assert LONG.startswith(payload)


def properties(directory: str, *keys: PayloadKey) -> list[bytes]:
    read = decryption(directory, {key.key_id: key.key for key in keys})
    return [read(row, "properties") for row in lake.payload_rows(directory)]


def test_properties_apart_from_the_body_are_captured_with_it(world: World) -> None:
    put_with_properties(world, (b"orderId", "4711", "MQTYPE_STRING", -1))
    world.dead_letter(b"no properties")

    directory, _ = take(world, "full")

    assert bodies(directory) == [BODY, b"no properties"]
    found, none = properties(directory)
    assert found == b"<usr><orderId context='user' copy='reply'>4711</orderId></usr>  "
    assert none == b""
    assert [row["properties"] is None for row in lake.payload_rows(directory)] == [False, True]


def test_a_captured_head_limits_the_properties_too(world: World) -> None:
    put_with_properties(world, (b"orderId", "4711", "MQTYPE_STRING", -1))

    directory, _ = take(world, "head: 12")

    assert bodies(directory) == [BODY[:12]]
    assert properties(directory) == [b"<usr><orderI"]


def test_long_properties_are_captured_whole(world: World) -> None:
    put_with_properties(world, (b"orderId", "4" * 50_000, "MQTYPE_STRING", -1))

    directory, _ = take(world, "full")

    assert b"4" * 50_000 in properties(directory)[0]


def test_without_payload_no_property_is_captured(world: World) -> None:
    put_with_properties(world, (b"orderId", "4711", "MQTYPE_STRING", -1))

    directory, _ = take(world, "none")

    stored = b"".join(path.read_bytes() for path in Path(directory).rglob("*") if path.is_file())
    assert b"4711" not in stored
    assert b"orderId" not in stored


def test_captured_properties_are_encrypted_with_the_payload(world: World) -> None:
    put_with_properties(world, (b"orderId", "4711", "MQTYPE_STRING", -1))

    directory, _ = take(world, "full", KEY)

    assert b">4711</orderId>" in properties(directory, KEY)[0]
    stored = b"".join(path.read_bytes() for path in Path(directory).rglob("*") if path.is_file())
    assert b"4711" not in stored
    assert b"orderId" not in stored


def test_an_encrypted_payload_can_be_read_only_with_its_key(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "full", KEY)

    assert manifest.payload_key_id == "2026-11"
    assert bodies(directory, KEY) == [b"short", LONG, b"no header", b""]
    stored = b"".join(path.read_bytes() for path in Path(directory).rglob("*") if path.is_file())
    assert b"no header" not in stored
    assert LONG[:100] not in stored
    assert KEY.key not in stored


def test_equal_bodies_have_different_encrypted_payloads(world: World) -> None:
    world.dead_letter(b"same")
    world.dead_letter(b"same")

    directory, _ = take(world, "full", KEY)

    one, other = [row["payload"] for row in lake.payload_rows(directory)]
    assert one != other


def test_a_missing_key_of_a_payload_is_named(world: World) -> None:
    world.dead_letter()
    directory, _ = take(world, "full", KEY)

    with pytest.raises(LakeError) as caught:
        bodies(directory, PayloadKey("2027-01", b"n" * 32))
    assert str(caught.value) == (
        f"{directory}: its payload is encrypted by the key '2026-11'; known are: 2027-01"
        " [MQDLQ-429]"
    )
    with pytest.raises(LakeError) as caught:
        bodies(directory, PayloadKey("2026-11", b"x" * 32))
    assert str(caught.value) == (
        f"{directory}: the payload of message 1 is not what was written, or the key"
        " '2026-11' has changed [MQDLQ-430]"
    )


def test_old_snapshots_can_be_read_after_a_key_rotation(world: World) -> None:
    world.dead_letter()
    old, new = KEY, PayloadKey("2027-01", b"n" * 32)
    before, _ = take(world, "full", old)
    password = base64.b64encode(new.key).decode()
    extra = {
        "key_id": "2027-01",
        "old_keys": {"2026-11": base64.b64encode(old.key).decode()},
    }

    after, manifest = take(world, "full", read_current_key("dlq_key", password, extra))

    assert manifest.payload_key_id == "2027-01"
    for directory in (before, after):
        found = read_payloads(directory, read_all_keys("dlq_key", password, extra))
        assert [body for _, body in found] == [b"body"]


@pytest.mark.parametrize(
    ("password", "extra", "text"),
    [
        (
            base64.b64encode(b"k" * 32).decode(),
            {},
            (
                "connection 'dlq_key' does not name its key; add an extra such as"
                ' {"key_id": "2026-11"} [MQDLQ-122]'
            ),
        ),
        (
            "secret",
            {"key_id": "a"},
            (
                "connection 'dlq_key': its password is not a key; expected 16, 24 or 32"
                " bytes in Base64, such as `openssl rand -base64 32` prints [MQDLQ-123]"
            ),
        ),
    ],
)
def test_an_invalid_key_is_refused_without_printing_it(
    password: str, extra: dict[str, str], text: str
) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        read_current_key("dlq_key", password, extra)

    assert str(caught.value) == text
    assert repr(KEY) == "PayloadKey(key_id='2026-11')"


def written(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["snapshots", "payload", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_snapshots_payload_writes_bodies_that_only_their_owner_can_read(
    world: World, tmp_path: Path
) -> None:
    fill(world)
    directory, manifest = take(world, "full")
    to = tmp_path / "bodies"

    assert written(manifest.snapshot_id, "--to", str(to)) == (0, f"4 payloads written to {to}")

    files = sorted(to.iterdir())
    assert [file.read_bytes() for file in files] == [b"short", LONG, b"no header", b""]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert written(directory, "--message", "3", "--to", str(to)) == (
        1,
        f"mqdlq: [Errno 17] File exists: '{to}/3.bin'",
    )


@pytest.mark.slow
def test_encrypted_bodies_are_written_with_the_key_of_a_connection(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dead_letter(b"secret")
    _, manifest = take(world, "full", KEY)
    connection = {"password": base64.b64encode(KEY.key).decode(), "extra": {"key_id": KEY.key_id}}
    monkeypatch.setenv("AIRFLOW_CONN_DLQ_KEY", json.dumps({"conn_type": "generic", **connection}))
    arguments = (manifest.snapshot_id, "--to", str(tmp_path / "bodies"))

    assert "is encrypted by the key '2026-11'; known are: none" in written(*arguments)[1]
    assert written(*arguments, "--key-connection", "other")[1] == (
        "mqdlq: connection 'other' is not defined in this Airflow, neither in the"
        " environment nor in its metadata database; define it, or run the command where"
        " it is defined [MQDLQ-124]"
    )
    assert written(*arguments, "--key-connection", "dlq_key")[0] == 0
    assert (tmp_path / "bodies" / "1.bin").read_bytes() == b"secret"


def test_snapshots_payload_reports_payload_that_was_not_captured(
    world: World, tmp_path: Path
) -> None:
    world.dead_letter(b"body")
    without, _ = take(world, "none")
    directory, _ = take(world, "full")

    assert written(without, "--to", str(tmp_path)) == (
        1,
        (
            f"mqdlq: {without} has no payload, as the handler's `payload` was none when it was"
            " taken [MQDLQ-915]"
        ),
    )
    assert written(directory, "--message", "7", "--to", str(tmp_path / "bodies")) == (
        1,
        f"mqdlq: {directory} has no payload of message 7 [MQDLQ-916]",
    )
