"""Bodies are kept only where the handler says so, as much as it says, encrypted if it says."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mqdlq import lake
from mqdlq.airflow.payload_key import payload_key, payload_keys
from mqdlq.errors import ConnectionSettingsError, LakeError
from mqdlq.lake import SnapshotManifest
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.snapshot import PayloadKey
from mqdlq.snapshot.capture import generated_key, payloads
from world import World

KEY = PayloadKey("2026-11", b"k" * 32)
LONG = b"0123456789" * 20_000  # longer than what is browsed at first


def take(world: World, payload: str, key: PayloadKey | None = None) -> tuple[str, SnapshotManifest]:
    run = world.start("ACTION(IGNORE)")
    manifest = world.snapshot(run, payload=payload, key=key, rescan=True)
    return str(world.ledger.snapshot(run.run_id).location), manifest


def bodies(directory: str, *keys: PayloadKey) -> list[bytes]:
    known = {key.key_id: key.key for key in keys}
    return [payload for _, payload in payloads(directory, known)]


def fill(world: World) -> None:
    world.dead_letter(b"short")
    world.dead_letter(LONG)
    world.put("DLQ", b"no header")
    world.dead_letter(b"")


def test_nothing_is_captured_unless_asked_for(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "none")

    assert manifest.payload == "none"
    assert not (Path(directory) / "payload").exists()
    assert bodies(directory) == []


def test_the_head_is_what_follows_the_mqdlh(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "head: 12")

    assert bodies(directory) == [b"short", LONG[:12], b"no header", b""]
    lengths = [row["payload_length"] for row in lake.payload_rows(directory)]
    assert lengths == [5, len(LONG), 9, 0]
    assert manifest.payload == "head: 12"


def test_in_full_however_long(world: World) -> None:
    fill(world)

    assert bodies(take(world, "full")[0]) == [b"short", LONG, b"no header", b""]


def test_a_long_message_that_goes_away_leaves_what_was_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dead_letter(LONG)
    monkeypatch.setattr(BrowseCursor, "find", lambda *_: None)

    (payload,) = bodies(take(world, "full")[0])

    assert 0 < len(payload) < len(LONG)
    assert LONG.startswith(payload)


def test_encrypted_it_is_read_with_the_key_only(world: World) -> None:
    fill(world)

    directory, manifest = take(world, "full", KEY)

    assert manifest.payload_key_id == "2026-11"
    assert bodies(directory, KEY) == [b"short", LONG, b"no header", b""]
    stored = b"".join(path.read_bytes() for path in Path(directory).rglob("*") if path.is_file())
    assert b"no header" not in stored
    assert LONG[:100] not in stored
    assert KEY.key not in stored


def test_equal_bodies_do_not_look_equal(world: World) -> None:
    world.dead_letter(b"same")
    world.dead_letter(b"same")

    directory, _ = take(world, "full", KEY)

    one, other = [row["payload"] for row in lake.payload_rows(directory)]
    assert one != other


def test_without_the_key_it_is_named(world: World) -> None:
    world.dead_letter()
    directory, _ = take(world, "full", KEY)

    with pytest.raises(LakeError) as caught:
        bodies(directory, generated_key("2027-01"))
    assert str(caught.value) == (
        f"{directory}: its payload is encrypted by the key '2026-11'; known are: 2027-01"
    )
    with pytest.raises(LakeError) as caught:
        bodies(directory, PayloadKey("2026-11", b"x" * 32))
    assert str(caught.value) == (
        f"{directory}: the payload of message 1 is not what was written, or the key '2026-11' is"
        " another one now"
    )


def test_after_a_rotation_old_snapshots_are_still_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dead_letter()
    old, new = generated_key("2026-11"), generated_key("2027-01")
    before, _ = take(world, "full", old)
    connection = {
        "conn_type": "generic",
        "password": base64.b64encode(new.key).decode(),
        "extra": {
            "key_id": "2027-01",
            "old_keys": {"2026-11": base64.b64encode(old.key).decode()},
        },
    }
    monkeypatch.setenv("AIRFLOW_CONN_DLQ_KEY", json.dumps(connection))

    after, manifest = take(world, "full", payload_key("dlq_key"))

    assert manifest.payload_key_id == "2027-01"
    for directory in (before, after):
        assert [body for _, body in payloads(directory, payload_keys("dlq_key"))] == [b"body"]


@pytest.mark.parametrize(
    ("connection", "text"),
    [
        (
            {"password": base64.b64encode(b"k" * 32).decode()},
            (
                "connection 'dlq_key' does not name its key; expected an extra such as"
                ' {"key_id": "2026-11"}'
            ),
        ),
        (
            {"password": "secret", "extra": {"key_id": "a"}},
            (
                "connection 'dlq_key': its password is no key; expected 16, 24 or 32 bytes in"
                " Base64, such as `openssl rand -base64 32` prints"
            ),
        ),
    ],
)
def test_a_key_that_is_none_is_refused_without_showing_it(
    connection: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DLQ_KEY", json.dumps({"conn_type": "generic", **connection}))

    with pytest.raises(ConnectionSettingsError) as caught:
        payload_key("dlq_key")

    assert str(caught.value) == text
    assert repr(KEY) == "PayloadKey(key_id='2026-11')"
