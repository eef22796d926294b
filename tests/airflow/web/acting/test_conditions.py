"""Act on all messages that meet a condition: preview, try one, then the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from tests.airflow.web.acting.test_acting import dag_runs, fields_of, preview, send
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import Q_FULL, dead_letter, run
from tests.support.world import World

MANY = 1007
RETRY = {"action": "retry", "reason": "2053", "application": "outage"}


@pytest.fixture(name="outage")
def _outage(own_world: World, world: World, airflow: AirflowApp) -> Iterator[World]:
    """Make a world with more messages of one cause than a person may name by keys."""
    with own_world.connect():  # the queue manager stays open
        for number in range(MANY):
            dead_letter(own_world, "PAYMENTS", Q_FULL, f"{number}", put_appl_name="outage")
    run(own_world, "demo", "demo-manual__outage", dry_run=True)
    own_world.clock.sleep(5)
    airflow.set_clock(own_world.clock)
    yield own_world
    airflow.set_clock(world.clock)


def test_one_message_is_tried_and_the_others_follow_in_one_run(
    airflow: AirflowApp, outage: World
) -> None:
    known = set(dag_runs())
    page = preview(airflow, **RETRY).text
    as_of = dict(fields_of(page))["as_of"]

    assert f"Retry: {MANY:,} messages" in page
    assert f'as of snapshot <span class="id">{as_of}</span>' in page
    assert "Try the oldest message first" in page
    assert "at full speed: no ramp and no rate of the handler applies" in page
    assert len(page) < 60_000

    answers = [send(airflow, fields_of(page), start="one") for _ in range(2)]

    (tried,) = set(dag_runs()) - known
    conf = dag_runs()[tried][1]
    assert len(conf["message_keys"]) == 1
    assert "where" not in conf
    address = answers[0].headers["location"]
    assert address == answers[1].headers["location"]
    waiting = airflow.client("user").get(address).text
    assert "The run for one message: it has not begun." in waiting
    assert re.search(r'value="real" disabled>Retry the other', waiting)
    early = send(airflow, fields_of(waiting))
    assert early.status_code == 422

    dead_letter(outage, "PAYMENTS", Q_FULL, "since", put_appl_name="outage")
    keys, action = tuple(conf["message_keys"]), conf["action"]
    run(outage, "demo", ledger_run_id("demo", tried), message_keys=keys, action=action)
    waiting = airflow.client("user").get(address).text
    assert "its message is delivered, and may come back until" in waiting
    outage.clock.sleep(61)
    ready = airflow.client("user").get(address).text
    assert "its message was moved, and has not come back" in ready
    assert f"Retry the other {MANY - 1:,} messages" in ready

    assert send(airflow, fields_of(ready)).status_code == 303
    (last,) = set(dag_runs()) - known - {tried}
    conf = dag_runs()[last][1]
    assert (conf["where"], conf["as_of"]) == ("application=outage and reason=2053", as_of)
    assert "message_keys" not in conf


def test_a_try_that_failed_keeps_the_rest(airflow: AirflowApp, outage: World) -> None:
    page = preview(airflow, **RETRY).text
    before = set(dag_runs())
    address = send(airflow, fields_of(page), start="one").headers["location"]
    (tried,) = set(dag_runs()) - before
    outage.mqsc("ALTER QLOCAL(PAYMENTS) PUT(DISABLED)")

    given = dag_runs()[tried][1]
    keys, action = tuple(given["message_keys"]), given["action"]
    run(outage, "demo", ledger_run_id("demo", tried), message_keys=keys, action=action)

    text = airflow.client("user").get(address).text
    assert "The run for one message</a>: its message is exhausted." in text
    assert re.search(r'value="real" disabled>Retry the other', text)


def test_messages_that_left_since_are_named_by_their_number(
    airflow: AirflowApp, outage: World
) -> None:
    fields = fields_of(preview(airflow, **RETRY).text)
    keys = (outage.ledger.messages.of_run("demo-manual__outage")[-1].message_key.hex(),)
    run(outage, "demo", "demo-manual__meanwhile", message_keys=keys, action="ACTION(RETRY)")

    answer = send(airflow, fields)

    assert answer.status_code == 409
    assert f"{MANY} messages then, {MANY - 1:,} now." in answer.text


def test_messages_that_grow_older_after_the_preview_do_not_keep_a_run_from_starting(
    airflow: AirflowApp, own_world: World, world: World
) -> None:
    for number in range(12):
        dead_letter(own_world, "PAYMENTS", Q_FULL, f"{number}", put_appl_name="outage")
        own_world.clock.sleep(60)
    run(own_world, "demo", "demo-manual__outage", dry_run=True)
    airflow.set_clock(own_world.clock)
    before = preview(airflow, **RETRY).text
    own_world.clock.sleep(54 * 60)
    now = preview(airflow, **RETRY).text

    answer = send(airflow, fields_of(before))

    airflow.set_clock(world.clock)
    assert ("under a day" in before, "under a day" in now) == (False, True)
    assert answer.status_code == 303
