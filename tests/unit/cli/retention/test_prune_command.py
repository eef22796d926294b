"""Test the commands mqdlq prune and mqdlq hold from a user's side."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from tests.support.restorations import discard
from tests.support.retention import DAY, forget_snapshots, idle_run, pass_days
from tests.support.world import World

pytestmark = pytest.mark.slow

POLICY = "keep_snapshots: 1\nkeep_archive_for: P10D\nkeep_runs_for: P10D\n"


@pytest.fixture(name="world")
def _world(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world in which a run discarded two messages twenty days ago."""
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(world.directory / "rules"))
    monkeypatch.delenv("COLUMNS", raising=False)
    world.clock.now = datetime.now(UTC) - 20 * DAY  # noqa: TID251 (commands use the real clock)
    discard(world, b"one", b"two")
    pass_days(world, 20)
    return world


def configure(world: World, policy: str = POLICY) -> None:
    handler: Path = world.directory / "rules" / "test.yaml"
    handler.write_text(f"connection: mq\nrules: test.rules\n{policy}", encoding="utf-8")


def mqdlq(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_table_names_the_policy_and_counts_what_goes_and_what_stays(world: World) -> None:
    configure(world)

    planned, done, again = mqdlq("prune", "--dry-run"), mqdlq("prune"), mqdlq("prune")

    lines = planned.output.splitlines()
    assert lines[0] == "test: keep_archive_for P10D, keep_runs_for P10D"
    assert lines[1].split() == ["Copies", "Bytes", "Runs", "Messages"]
    assert lines[2].split()[:4] == ["would", "be", "removed", "2"]
    assert "kept: its snapshot is kept (keep_snapshots, keep_snapshots_for)" in planned.output
    assert done.output.splitlines()[2].split()[:2] == ["removed", "2"]
    assert again.output.splitlines()[2].split() == ["removed", "0", "0", "0", "0"]
    assert [one.exit_code for one in (planned, done, again)] == [0, 0, 0]


def test_the_json_has_the_same(world: World) -> None:
    configure(world)

    (found,) = json.loads(mqdlq("prune", "--format", "json").output)["handlers"]

    assert (found["handler"], found["copies"], found["kept_runs"]) == ("test", 2, {"snapshot": 1})


def test_without_a_policy_nothing_is_removed(world: World) -> None:
    configure(world, "")

    done = mqdlq("prune")

    assert (done.exit_code, done.output) == (
        0,
        "no handler has keep_archive_for or keep_runs_for: nothing is removed\n",
    )
    assert len(world.ledger.archive.copies()) == 2


def test_a_clock_that_the_ledger_contradicts_is_confirmed_by_an_option(world: World) -> None:
    configure(world)
    world.clock.now += DAY
    idle_run(world)

    refused, confirmed = mqdlq("prune"), mqdlq("prune", "--trust-clock")

    assert refused.exit_code == 1
    assert "or confirm it with mqdlq prune --trust-clock [MQDLQ-253]" in refused.output
    assert confirmed.exit_code == 0


def test_an_invalid_handler_is_reported_and_the_others_are_pruned(world: World) -> None:
    configure(world)
    (world.directory / "rules" / "bad.yaml").write_text("rules: x\nkeep_runs_for: 90\n")

    done = mqdlq("prune")

    assert done.exit_code == 1
    assert "removed" in done.output
    assert "mqdlq: not pruned: " in done.output


def test_a_time_below_a_day_is_rejected(world: World) -> None:
    configure(world, "keep_runs_for: 90\n")

    done = mqdlq("prune", "--handler", "test")

    assert done.exit_code == 2
    assert "keep_runs_for: Input should be greater than or equal to 1 day" in done.output


def test_a_hold_is_placed_listed_and_removed(world: World) -> None:
    configure(world)
    key = world.ledger.archive.copies()[0].message_key.hex()

    placed = mqdlq("hold", "add", "--message", key, "--reason", "case 7")
    listed = mqdlq("hold", "list")
    pruned = mqdlq("prune")
    removed = mqdlq("hold", "remove", "1", "--reason", "closed")
    again = mqdlq("hold", "remove", "1", "--reason", "closed")

    assert placed.output == f"hold 1 covers message {key}: 1 run, 1 archive copy\n"
    assert listed.output.splitlines()[0] == f"   1  message {key}"
    assert listed.output.endswith(": case 7\n")
    assert pruned.output.splitlines()[3].split()[-3:] == ["it", "1", "1"]
    assert removed.output == f"hold 1 on message {key} is removed\n"
    assert again.exit_code == 1
    assert "hold 1 was removed before, by" in again.output
    assert mqdlq("hold", "list").output == "no hold applies\n"
    assert "removed 20" in mqdlq("hold", "list", "--removed").output
    (hold,) = json.loads(mqdlq("hold", "list", "--removed", "--format", "json").output)["holds"]
    assert (hold["reason"], hold["release_reason"], hold["run_id"]) == ("case 7", "closed", None)


WRONG = [
    (["--reason", "x"], 2, "name one of --handler, --run and --message"),
    (["--run", "a", "--handler", "b", "--reason", "x"], 2, "name one of"),
    (["--run", "a", "--reason", " "], 2, "--reason: say why, for example the number of the case"),
    (["--message", "x", "--reason", "x"], 2, "'x' is not a message_key; expected 64 hexadecimal"),
    (
        ["--run", "a", "--reason", "x"],
        1,
        (
            "the ledger has no run a, so that a hold on it would keep nothing; correct the name"
            " [MQDLQ-252]"
        ),
    ),
]


def test_a_hold_that_would_keep_nothing_is_refused(world: World) -> None:
    for arguments, code, text in WRONG:
        done = mqdlq("hold", "add", *arguments)
        assert (done.exit_code, text in done.output) == (code, True), done.output
    assert world.ledger.holds.all(released=True) == []
    unknown = mqdlq("hold", "remove", "9", "--reason", "x")
    assert "there is no hold 9; mqdlq hold list shows all of them [MQDLQ-250]" in unknown.output


def test_the_report_of_a_pruned_run_has_its_totals(world: World) -> None:
    configure(world)
    discard(world, b"three")
    run_id = "run-1"
    forget_snapshots(world)
    mqdlq("prune")

    told = mqdlq("report", run_id)
    document = json.loads(mqdlq("report", run_id, "--format", "json").output)
    detailed = mqdlq("report", run_id, "--needs-attention")

    assert told.output.endswith("of handler test. 2 messages: 2 discarded.\n")
    assert document["outcomes"] == {"discarded": 2}
    assert "its messages are no longer in the ledger" in detailed.output
    refused = mqdlq("restore", "list", "--run", run_id)
    assert refused.output == "nothing is archived that fits\n"
