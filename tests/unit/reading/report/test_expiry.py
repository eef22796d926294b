"""The forecast of expiry, and the count of messages that have expired."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.reading.report.building import Report, read_report
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.json_report import render_json
from mqdlq.reading.report.text_report import render_text
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.words import cause_in_words
from tests.support.world import NOON, World

pytestmark = pytest.mark.slow

RULES = "WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(KEPT) ACTION(IGNORE)\n"
HOUR = 36_000
"""The Expiry of an hour, in tenths of a second."""


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path / "rules"))
    world = World(tmp_path)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "test.yaml").write_text(
        "connection: mq\nrules: test.rules\nschedule: 0 14 * * *\n", encoding="utf-8"
    )
    return world


def ended(world: World, **options: Any) -> Execution:
    execution = world.plan(RULES, **options)
    make_pass(execution)
    settle(execution)
    return execution


def report_of(world: World, execution: Execution) -> Report:
    return read_report(
        execution.run.run_id,
        ledger=world.ledger,
        lake_root=world.lake_root,
        stages={},
        now=world.clock(),
    )


def expiry(world: World) -> Any:
    found = report_of(world, ended(world)).expiry
    assert found is not None
    return found


def test_messages_that_expire_before_the_next_scheduled_run_are_forecast(world: World) -> None:
    world.dead_letter(dest_q="KEPT", Expiry=HOUR)
    world.dead_letter(dest_q="KEPT", Expiry=HOUR // 2)
    world.dead_letter(dest_q="NOWHERE", reason=2085, Expiry=2 * HOUR)
    world.dead_letter(dest_q="NOWHERE", reason=2085, Expiry=3 * HOUR)
    world.dead_letter(dest_q="NOWHERE", reason=2085)
    world.dead_letter(dest_q="PAYMENTS", Expiry=HOUR)  # it is delivered

    found = expiry(world)

    assert (found.until, found.has_schedule) == (NOON + timedelta(hours=2), True)
    assert (found.messages, found.expired) == (3, None)
    assert found.first_at == found.causes[0].first_at
    assert [(cause_in_words(one.cause, one.queues), one.messages) for one in found.causes] == [
        ("MQRC_Q_FULL (2053) for KEPT @ QM1", 2),
        ("MQRC_UNKNOWN_OBJECT_NAME (2085) for NOWHERE @ QM1", 1),
    ]
    wanted = timedelta(minutes=30)
    assert wanted - timedelta(seconds=9) < found.first_at - NOON <= wanted


def test_without_a_schedule_the_forecast_is_for_a_day(world: World) -> None:
    (world.directory / "rules" / "test.yaml").unlink()
    world.dead_letter(dest_q="KEPT", Expiry=23 * HOUR)
    world.dead_letter(dest_q="KEPT", Expiry=25 * HOUR)

    found = expiry(world)

    assert (found.until, found.has_schedule) == (NOON + timedelta(days=1), False)
    assert found.messages == 1


def test_a_run_for_named_messages_forecasts_nothing(world: World) -> None:
    world.dead_letter(dest_q="KEPT", Expiry=HOUR)
    snapshot = world.recorded_snapshot(ended(world).run.run_id)
    (row,) = lake.snapshot_rows(snapshot.location, ["message_key"])

    named = ended(world, message_keys=(row["message_key"].hex(),))

    assert report_of(world, named).expiry is None


def test_messages_that_expired_between_two_runs_are_counted(world: World) -> None:
    world.dead_letter(b"gone", dest_q="KEPT", Expiry=HOUR)
    world.dead_letter(b"gone, too", dest_q="NOWHERE", Expiry=HOUR)
    world.dead_letter(b"taken by someone", dest_q="KEPT")
    ended(world)
    ended(world)  # the messages left by rule, or unmatched, are settled now
    world.clear("DLQ")
    world.dead_letter(b"new", dest_q="KEPT")
    world.clock.sleep(7200)

    last = ended(world)

    found = report_of(world, last).expiry
    assert found is not None
    assert (found.messages, found.expired) == (0, 2)
    world.clock.sleep(60)
    again = report_of(world, ended(world)).expiry
    assert again is not None
    assert again.expired == 0


def test_the_report_says_what_expires_and_what_has_expired(world: World) -> None:
    world.dead_letter(dest_q="KEPT", Expiry=HOUR)
    report = report_of(world, ended(world))
    assert report.expiry is not None
    first = NOON + timedelta(minutes=59, seconds=58)
    (cause,) = report.expiry.causes
    report = replace(
        report,
        expiry=replace(report.expiry, causes=(replace(cause, first_at=first),), expired=1200),
    )

    text, html = render_text(report), render_html(report)

    assert (
        "Expiry\n"
        "  1 message expires before the next run at 2026-11-21 14:00:00 UTC, the first at"
        " 2026-11-21 12:59:58\n"
        "  UTC\n"
        "  1,200 messages of the previous run expired, or were taken, before this run\n"
        "      1  MQRC_Q_FULL (2053) for KEPT @ QM1: the first at 2026-11-21 12:59:58 UTC\n"
    ) in text
    assert '<h2>Expiry <span class="total">1</span></h2>' in html
    assert "1,200 messages of the previous run expired, or were taken, before this run." in html
    assert json.loads(render_json(report))["expiry"] == {
        "until": "2026-11-21T14:00:00+00:00",
        "has_schedule": True,
        "messages": 1,
        "first_at": "2026-11-21T12:59:58+00:00",
        "causes": [
            {
                "cause_id": cause.cause.cause_id,
                "cause": "MQRC_Q_FULL (2053) for KEPT @ QM1",
                "messages": 1,
                "first_at": "2026-11-21T12:59:58+00:00",
            }
        ],
        "expired": 1200,
        "new": 1,
    }


def test_a_report_without_expiring_messages_has_no_section_on_expiry(world: World) -> None:
    world.dead_letter(dest_q="KEPT")
    report = report_of(world, ended(world))

    assert "Expiry" not in render_text(report)
    assert "<h2>Expiry" not in render_html(report)
