"""Test `mqdlq ledger`, and what other commands say of a ledger that is older than its lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq import directories
from mqdlq.cli import app
from tests.support.older_ledgers import copy_ledger, put_back
from tests.support.restorations import discard, restore_and_count
from tests.support.world import World

pytestmark = pytest.mark.slow


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.delenv("MQDLQ_LEDGER_URL", raising=False)
    world = World(tmp_path)
    with world.ledger:
        yield world
        world.ledger.close()


@pytest.fixture(name="older")
def _older(world: World) -> World:
    """Return a world with a copy of the ledger that misses a restoration."""
    discard(world, b"1", b"2")
    copy = copy_ledger(world)
    restore_and_count(world, to_queue="PARKED")
    put_back(world, copy)
    return world


def mqdlq(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_status_says_that_nothing_was_done_yet_or_what_was_last(world: World) -> None:
    assert mqdlq("ledger", "status").stdout == "the ledger and the lake have no work yet\n"
    discard(world, b"1")

    assert mqdlq("ledger", "status").stdout == (
        "epoch 1; 1 pass or restoration, the last of which began at 2026-11-21 12:00:00 UTC\n"
    )


@pytest.mark.usefixtures("older")
def test_each_command_says_that_the_ledger_is_older() -> None:
    status = mqdlq("ledger", "status")
    text = status.stderr

    assert status.exit_code == 1
    assert "what restoration restoration-1 of 2 messages to PARKED put. Nothing is moved" in text
    assert text.endswith("[MQDLQ-278]\n")
    report, listed = mqdlq("report"), mqdlq("restore", "list")
    assert (report.exit_code, report.stderr) == (0, text)
    assert (listed.exit_code, listed.stderr) == (0, text)
    assert "2 discarded" in report.stdout


def test_take_on_says_what_was_missing_and_status_says_who_did_it(older: World) -> None:
    done = mqdlq("ledger", "take-on", "--why", "ticket 4711")

    assert done.exit_code == 0, done.stderr
    assert done.stdout == (
        "missing: 1 pass or restoration\n"
        "missing: what restoration restoration-1 of 2 messages to PARKED put\n"
        "epoch 2 begins. Handlers may act again; messages archived before now are restored with"
        " --again only.\n"
    )
    status = mqdlq("ledger", "status")
    assert (status.exit_code, status.stderr) == (0, "")
    assert status.stdout.startswith("epoch 2; no pass or restoration yet\ntaken on by ")
    assert directories.account() in status.stdout
    assert status.stdout.endswith(": ticket 4711\n")
    listed = mqdlq("restore", "list").stdout
    assert "may have been restored to PARKED, by restoration restoration-1" in " ".join(
        listed.split()
    )
    older.clock.now = older.ledger.epochs.newest().began_at  # type: ignore[union-attr]
    assert restore_and_count(older, "restoration-2", run_id="run-1", to_queue="PARKED") == {
        "refused": 2
    }


@pytest.mark.usefixtures("older")
def test_taking_a_ledger_on_needs_a_reason() -> None:
    refused = mqdlq("ledger", "take-on", "--why", " ")

    assert refused.exit_code == 2
    assert refused.stderr == "mqdlq: --why: say why, for example the number of a ticket\n"
    assert mqdlq("ledger", "status").exit_code == 1
