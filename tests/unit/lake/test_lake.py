from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from errno import ECONNRESET, ENOSPC
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.headers import MessageDescriptor, header_row
from mqdlq.lake import files
from mqdlq.lake.schema import HEADERS, PLAN, steps_of_text, steps_text
from mqdlq.lake.storage import new_file
from mqdlq.model import Action, Disposition, PlannedMessage, PutAuthority, Step

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MARKS = (
    "expires_before_next_pass",
    "came_from_backout",
    "dest_backout_threshold",
    "dest_backout_requeue_q",
    "attempts_made",
    "properties_met",
    "properties_unmet",
)
DESCRIPTION = lake.PlanDescription(
    plan_id="s1-abc",
    plan_hash="0" * 64,
    snapshot_ids=("s1",),
    rules_digest="1" * 64,
    messages=3,
    dispositions={"planned": 2, "unmatched": 1, "unprocessable": 0},
    counts=(lake.StepCount(1, "FWD", "PARKED", "", 4, 2),),
)


def row(browse_seq: int) -> dict[str, object]:
    return header_row(browse_seq, MessageDescriptor().encode(), b"body", 4, browsed_at=NOON)


def stored(browse_seq: int) -> dict[str, object]:
    """Return a row as it is read, without marks."""
    return row(browse_seq) | dict.fromkeys(MARKS)


def take(root: str, messages: int = 2, *, queue: str = "DLQ", snapshot_id: str = "s1") -> str:
    with lake.SnapshotWriter(root, "QM1", queue, snapshot_id) as writer:
        for browse_seq in range(messages):
            writer.write(row(browse_seq))
        writer.finish(taken_at=NOON, taken_by="ann", rules_digest="d", rules_text="ACTION(RETRY)")
    return writer.directory


def planned(browse_seq: int) -> dict[str, object]:
    step = Step(1, 4, Action.FWD, "PARKED", "", True, PutAuthority.CTX, 2)
    return {
        "browse_seq": browse_seq,
        "message_key": bytes([browse_seq]),
        "queue_manager": "QM1",
        "queue": "DLQ",
        "disposition": "planned",
        "steps": steps_text([step]),
    }


def write_part(directory: str, name: str, *numbers: int) -> None:
    table = pa.Table.from_pylist([planned(number) for number in numbers], schema=PLAN)
    pq.write_table(table, f"{directory}/{name}")


@pytest.fixture(params=["directory", "file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return a lake on each kind of file system this project treats differently."""
    yield {
        "directory": str(tmp_path / "lake"),
        "file": f"file://{tmp_path}/lake",
        "memory": f"memory://{tmp_path}/lake",
    }[request.param]
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_steps_are_read_as_they_were_written(number: int) -> None:
    names = ['A"B', "É\\", "\0"]
    steps = tuple(
        Step(n + 1, 7, Action.FWD, names[n], "QM9", True, PutAuthority.CTX, n)
        for n in range(number)
    )

    assert steps_of_text(steps_text(steps)) == steps


def test_the_manifest_of_a_finished_snapshot_describes_its_content(root: str) -> None:
    directory = take(root, messages=2)

    assert lake.read_manifest(directory) == lake.SnapshotManifest(
        snapshot_id="s1",
        queue_manager="QM1",
        queue="DLQ",
        taken_at=NOON,
        taken_by="ann",
        messages=2,
        bytes=8,
        digest=lake.read_manifest(directory).digest,
        rules_digest="d",
        rules_text="ACTION(RETRY)",
        payload="none",
        files=lake.read_manifest(directory).files,
        schema_version=1,
    )


def test_snapshot_rows_are_read_as_they_were_written(root: str) -> None:
    directory = take(root, messages=2)

    assert list(lake.snapshot_rows(directory)) == [stored(0), stored(1)]
    assert list(lake.snapshot_rows(directory, ["browse_seq", "class"])) == [
        {"browse_seq": 0, "class": "no_dlh"},
        {"browse_seq": 1, "class": "no_dlh"},
    ]


@pytest.mark.slow
def test_rows_of_several_row_groups_keep_their_order(tmp_path: Path) -> None:
    directory = take(str(tmp_path), messages=8193)

    numbers = [found["browse_seq"] for found in lake.snapshot_rows(directory, ["browse_seq"])]
    assert numbers == list(range(8193))


def test_an_empty_queue_makes_an_empty_snapshot(root: str) -> None:
    directory = take(root, messages=0)

    assert lake.read_manifest(directory).messages == 0
    assert list(lake.snapshot_rows(directory)) == []


def test_a_row_has_exactly_the_columns_of_the_schema() -> None:
    assert list(stored(0)) == HEADERS.names


def test_equal_queues_have_equal_digests(tmp_path: Path) -> None:
    digests = [
        lake.read_manifest(take(str(tmp_path), count, snapshot_id=name)).digest
        for name, count in (("a", 3), ("b", 3), ("c", 2))
    ]

    assert digests[0] == digests[1] != digests[2]


def test_an_unfinished_snapshot_does_not_exist(root: str) -> None:
    with lake.SnapshotWriter(root, "QM1", "DLQ", "s1") as writer:
        writer.write(row(0))

    for read in (lake.read_manifest, lambda place: list(lake.snapshot_rows(place))):
        with pytest.raises(LakeError) as caught:
            read(writer.directory)
        assert str(caught.value) == (
            f"{writer.directory} is not a snapshot, as it has no _MANIFEST.json; take a"
            " new snapshot [MQDLQ-418]"
        )


def test_a_writer_that_fails_leaves_no_data_behind(tmp_path: Path) -> None:
    writing = lake.SnapshotWriter(str(tmp_path), "QM1", "DLQ", "s1")
    with pytest.raises(KeyError), writing as writer:
        writer.write({"browse_seq": 0})

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_error_of_a_full_file_system_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    place = tmp_path / "small.json"

    with pytest.raises(LakeError) as caught:
        lake.write_text(str(place), "text")

    assert str(caught.value) == (f"{place} cannot be written: No space left on device [MQDLQ-416]")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_writing_code_is_not_raised_as_lake_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError), new_file(str(tmp_path / "part")):
        raise ConnectionResetError(ECONNRESET, "Connection reset by peer")

    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_snapshot_can_be_written_again(root: str) -> None:
    with lake.SnapshotWriter(root, "QM1", "DLQ", "s1") as writer:
        writer.write(row(0))

    assert len(list(lake.snapshot_rows(take(root, messages=3)))) == 3


def test_a_finished_snapshot_is_never_overwritten(root: str) -> None:
    directory = take(root)

    with pytest.raises(LakeError) as caught:
        take(root)

    assert str(caught.value) == (
        f"{directory} is a finished snapshot; give the new one another id [MQDLQ-420]"
    )


def test_only_the_owner_can_read_files_of_the_lake(tmp_path: Path) -> None:
    take(str(tmp_path / "lake"))

    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "lake", *(tmp_path / "lake").rglob("*"))
    }
    assert modes == {(True, 0o700), (False, 0o600)}


@pytest.mark.parametrize("queue", ["A/B", "A%B", "A%2FB", "SYSTEM.DEAD.LETTER.QUEUE", ".", "a_b"])
def test_every_queue_name_is_one_directory_that_arrow_decodes(tmp_path: Path, queue: str) -> None:
    take(str(tmp_path), 1, queue=queue)

    headers = ds.dataset(
        str(tmp_path / "snapshots"),
        partitioning="hive",
        exclude_invalid_files=False,
        ignore_prefixes=["_"],
    )
    assert set(headers.to_table(columns=["queue"])["queue"].to_pylist()) == {queue}
    assert len(list((tmp_path / "snapshots" / "queue_manager=QM1").iterdir())) == 1


def test_a_plan_is_read_in_browse_order_from_any_files(tmp_path: Path) -> None:
    directory = lake.plan_directory(str(tmp_path), "s1-abc")
    lake.start_plan(directory)
    write_part(directory, "part-00001.parquet", 0, 3, 4)
    write_part(directory, "part-00000.parquet", 1, 2)
    lake.finish_plan(directory, DESCRIPTION)

    found = list(lake.planned_messages(directory))

    assert [message.browse_seq for message in found] == [0, 1, 2, 3, 4]
    assert found[1] == PlannedMessage(
        1,
        b"\x01",
        "QM1",
        "DLQ",
        Disposition.PLANNED,
        (Step(1, 4, Action.FWD, "PARKED", "", True, PutAuthority.CTX, 2),),
    )
    assert found[1].disposition is Disposition.PLANNED
    assert found[1].steps[0].action is Action.FWD


def test_the_description_of_a_plan_is_read_as_it_was_written(root: str) -> None:
    directory = lake.plan_directory(root, "s1-abc")
    lake.start_plan(directory)
    lake.finish_plan(directory, DESCRIPTION)

    assert lake.read_plan(directory) == DESCRIPTION


def test_an_unfinished_plan_does_not_exist(root: str) -> None:
    directory = lake.plan_directory(root, "s1-abc")
    lake.start_plan(directory)

    assert lake.find_plan(directory) is None
    with pytest.raises(LakeError) as caught:
        list(lake.planned_messages(directory))
    assert str(caught.value) == (
        f"{directory} is not a plan, as it has no _PLAN.json; evaluate the snapshot again"
        " [MQDLQ-417]"
    )


def test_files_of_an_interrupted_evaluation_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "plan"
    (directory / "_temporary" / "0").mkdir(parents=True)
    (directory / "part-00000.parquet").touch()

    lake.start_plan(str(directory))

    assert [path.name for path in directory.rglob("*")] == ["_attempts"]


def test_a_directory_of_another_program_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()

    with pytest.raises(LakeError) as caught:
        lake.start_plan(str(tmp_path))

    assert str(caught.value) == (
        f"{tmp_path} holds thesis.txt, which mqdlq did not write;"
        " remove it, or name another directory [MQDLQ-415]"
    )
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema_version": 2}, "expected schema_version 1, found 2 [MQDLQ-424]"),
        ({"note": "x"}, "missing nothing, unknown ['note'] [MQDLQ-425]"),
        ({"counts": 7}, "snapshot_ids, dispositions or counts is not as expected [MQDLQ-422]"),
    ],
)
def test_an_invalid_description_is_rejected(
    tmp_path: Path, change: dict[str, object], text: str
) -> None:
    place = tmp_path / "_PLAN.json"
    place.write_text(json.dumps({**json.loads(DESCRIPTION.to_json()), **change}))

    with pytest.raises(LakeError) as caught:
        lake.read_plan(str(tmp_path))

    assert str(caught.value) == f"{place}: {text}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x", " is not JSON: Expecting value: line 1 column 1 (char 0) [MQDLQ-423]"),
        ("[]", ": expected schema_version 1, found None [MQDLQ-424]"),
        ('{"schema_version": 2}', ": expected schema_version 1, found 2 [MQDLQ-424]"),
    ],
)  # fmt: skip
def test_an_invalid_manifest_is_rejected(tmp_path: Path, text: str, fault: str) -> None:
    place = tmp_path / "_MANIFEST.json"
    place.write_text(text)

    with pytest.raises(LakeError) as caught:
        lake.read_manifest(str(tmp_path))

    assert str(caught.value) == f"{place}{fault}"


def test_a_manifest_without_a_time_is_rejected(tmp_path: Path) -> None:
    place = Path(take(str(tmp_path))) / "_MANIFEST.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "taken_at": "noon"}))

    with pytest.raises(LakeError) as caught:
        lake.read_manifest(str(place.parent))

    assert str(caught.value) == f"{place}: taken_at is not an ISO 8601 time [MQDLQ-421]"


def test_a_manifest_is_read_from_json_as_it_was_written() -> None:
    manifest = lake.SnapshotManifest(
        "s1", "QM1", "A/B", NOON, "änn", 1, 2, "d", "r", "* comment\nACTION(RETRY) +\n"
    )

    assert lake.SnapshotManifest.from_json(manifest.to_json(), "here") == manifest
    assert replace(manifest, messages=2).to_json() != manifest.to_json()


def test_a_snapshot_is_found_by_its_id(tmp_path: Path) -> None:
    directory = take(str(tmp_path), queue="A/B%C", snapshot_id="s7")

    assert lake.find_snapshot(f"{tmp_path}/", "s7") == directory
    with pytest.raises(LakeError) as caught:
        lake.find_snapshot(str(tmp_path), "s8")
    assert str(caught.value) == f"{tmp_path} holds no finished snapshot s8 [MQDLQ-419]"


def test_each_block_that_is_read_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK", 4096)
    directory = take(str(tmp_path), messages=60)
    part = Path(directory, "headers", "part-00000.parquet")
    digest = lake.read_manifest(directory).files["headers/part-00000.parquet"]
    assert digest.length == part.stat().st_size
    assert len(digest.blocks) == -(-digest.length // 4096) > 2
    data = bytearray(part.read_bytes())
    data[4096] ^= 1
    part.write_bytes(data)

    for read in (
        lambda: list(lake.snapshot_rows(directory)),
        lambda: files.verify(lake.Snapshot.at(directory).headers),
    ):
        with pytest.raises(LakeError, match="4096 to 8192 were changed"):
            read()


def test_a_missing_file_of_a_snapshot_is_named(tmp_path: Path) -> None:
    directory = take(str(tmp_path), messages=1)
    part = Path(directory, "headers", "part-00000.parquet")
    part.unlink()

    with pytest.raises(LakeError) as missing:
        list(lake.snapshot_rows(directory))

    assert str(missing.value) == (
        f"{part} is missing; put the file back from a backup of the lake, or start a new run, which"
        " takes a new snapshot [MQDLQ-472]"
    )


def test_a_manifest_with_unreadable_digests_is_refused(tmp_path: Path) -> None:
    directory = take(str(tmp_path), messages=1)
    place = Path(directory, "_MANIFEST.json")
    manifest = json.loads(place.read_text(encoding="utf-8"))
    place.write_text(json.dumps({**manifest, "files": {"headers/a": 1}}), encoding="utf-8")

    with pytest.raises(LakeError) as refused:
        lake.read_manifest(directory)

    assert str(refused.value) == (
        f"{place}: files does not have a length and blocks for each file [MQDLQ-473]"
    )
