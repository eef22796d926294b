"""Test that snapshots have the documented schema and that other programs read it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from mqdlq import lake
from mqdlq.directories import PROJECT
from mqdlq.lake.schema import HEADERS, PAYLOAD, SETTLED
from mqdlq.ledger.tables import Ending
from mqdlq.model import Outcome
from mqdlq.stages.execute.settlement import UntouchedMessages
from tests.support.world import World

VERSION_1 = PROJECT / "tests" / "corpus" / "snapshots" / "version-1"
SETTLED_1 = VERSION_1.with_name("version-1-settled")


def taken(world: World) -> Path:
    """Take a snapshot of three dead letters and a stray, with payload; return its directory."""
    for number, queue in enumerate(("PAYMENTS", "PAYMENTS", "ORDERS")):
        world.dead_letter(b"body %d" % number, dest_q=queue, Expiry=36000)
    world.put("DLQ", b"stray")
    run = world.start("ACTION(IGNORE)")
    world.snapshot(run, payload="full")
    return Path(world.recorded_snapshot(run.run_id).location)


def test_the_files_have_the_documented_schema(world: World) -> None:
    directory = taken(world)

    for part, schema in (("headers", HEADERS), ("payload", PAYLOAD)):
        assert pq.read_schema(directory / part / "part-00000.parquet").equals(schema)
    assert not (directory / "settled").exists()
    assert [field.name for field in SETTLED][:2] == ["browse_seq", "message_key"]


def test_pandas_reads_a_snapshot(world: World) -> None:
    found = import_module("pandas").read_parquet(taken(world) / "headers")

    assert list(found.columns) == HEADERS.names
    assert found["class"].value_counts().to_dict() == {"dead_letter": 3, "no_dlh": 1}
    assert str(found["expires_at"].dtype) == "datetime64[us, UTC]"
    assert found["msg_id"].map(len).tolist() == [24] * 4


def test_duckdb_reads_a_snapshot(world: World) -> None:
    directory = taken(world)

    headers = duckdb.read_parquet(f"{directory}/headers/*.parquet")
    payload = duckdb.read_parquet(f"{directory}/payload/*.parquet")
    counts = duckdb.execute(
        "SELECT dlh_dest_q_name, dlh_reason, count(*) FROM headers WHERE class = 'dead_letter'"
        " GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    joined = duckdb.execute(
        "SELECT p.payload FROM headers h JOIN payload p USING (message_key) ORDER BY h.browse_seq"
    ).fetchall()
    del headers, payload  # DuckDB finds them by their names

    assert counts == [("ORDERS", 2053, 1), ("PAYMENTS", 2053, 2)]
    assert [payload for (payload,) in joined] == [b"body 0", b"body 1", b"body 2", b"stray"]


def test_a_snapshot_of_the_first_version_is_still_read() -> None:
    manifest = lake.read_manifest(str(VERSION_1))

    assert (manifest.schema_version, manifest.full, manifest.settled) == (1, 4, 0)
    assert [row["class"] for row in lake.snapshot_rows(str(VERSION_1))] == [
        *["dead_letter"] * 3,
        "no_dlh",
    ]
    assert [row["payload"] for row in lake.payload_rows(str(VERSION_1))] == [
        b"payload %d" % number for number in range(4)
    ]


def test_the_settled_messages_of_the_first_version_are_still_read() -> None:
    manifest = lake.read_manifest(str(SETTLED_1))

    assert (manifest.schema_version, manifest.full, manifest.settled) == (1, 1, 3)
    assert UntouchedMessages(str(SETTLED_1)).count_settled() == {
        Ending(2, "IGNORE", "", "", Outcome.LEFT_BY_RULE): 1,
        Ending(0, "", "", "", Outcome.UNMATCHED): 1,
        Ending(0, "", "", "", Outcome.UNPROCESSABLE): 1,
    }
    rows = lake.whole_rows(str(SETTLED_1), ["browse_seq"])
    assert sorted(row["browse_seq"] for row in rows) == [1, 2, 3, 4]
