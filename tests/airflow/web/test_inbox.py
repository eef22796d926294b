"""The inbox of causes over all queues, one cause on all queues, and what people say of it."""

from __future__ import annotations

import re

import pytest

from mqdlq.causes import find_cause
from mqdlq.lake.filters import MessageFilter
from mqdlq.model import AuditKind
from mqdlq.reading.find import Search
from tests.support.web.airflow_app import FROM_PAGE, AirflowApp
from tests.support.web.demo_world import run
from tests.support.web.page_text import words_of
from tests.support.world import World

FULL = find_cause("dead_letter", 2053, "PAYMENTS", "QM1").cause_id
CLOSED = find_cause("dead_letter", 2051, "CLOSED", "QM1").cause_id
CRM = find_cause("dead_letter", 2035, "CRM.UPDATES", "QM1").cause_id


def rows_of(airflow: AirflowApp, query: str = "", role: str = "viewer") -> dict[str, str]:
    """Return the words of each row of the inbox by cause_id."""
    page = airflow.client(role).get(f"/mqdlq/{query}").text
    rows = re.findall(r"<li>\s*(<label class=\"pick\">.*?)</li>", page, flags=re.DOTALL)
    return {re.findall(r'/causes/(\w{12})"', row)[0]: words_of(row) for row in rows}


def change(airflow: AirflowApp, role: str = "op", **fields: str | list[str]) -> int:
    client = airflow.client(role)
    answer = client.post("/mqdlq/causes", data=fields, headers=FROM_PAGE, follow_redirects=False)
    return int(answer.status_code)


def test_a_row_says_what_is_on_all_queues_and_when_it_arrived(airflow: AirflowApp) -> None:
    rows = rows_of(airflow)

    assert re.search(
        r"MQRC_Q_FULL \(2053\) PAYMENTS @ QM1 new QM1 · 2 handlers · orders, legal-hold-7,"
        r" payments-in .* still arriving, last 2026-11-21 10:20 UTC"
        r" first 2026-11-20 05:59 UTC; oldest 30 h 1 min 6 5 to act on",
        rows[FULL],
    ), rows[FULL]
    assert "stopped, last 2026-11-21 09:59 UTC" in rows[CLOSED]
    assert all("1 expire soon" in row for row in list(rows.values())[:5])


def test_arrivals_are_drawn_for_a_day_or_a_week(airflow: AirflowApp) -> None:
    day, week = (airflow.client("viewer").get(f"/mqdlq/{q}").text for q in ("", "?span=week"))

    assert 'aria-label="5 dead-lettered in the last 24 hours"' in day
    assert "<title>4 from 2026-11-21 09:00:00 UTC</title>" in day
    assert 'aria-label="12 dead-lettered in the last 7 days"' in week


def test_a_person_sees_the_messages_of_readable_handlers_only(airflow: AirflowApp) -> None:
    viewer = airflow.client("viewer").get(f"/mqdlq/causes/{FULL}").text
    admin = airflow.client("admin").get(f"/mqdlq/causes/{FULL}").text

    assert "secret" not in viewer
    assert "SECRET.DLQ @ QM1" in admin


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?text=crm", {CRM}),
        ("?reason=MQRC_PUT_INHIBITED", {CLOSED}),
        ("?application=cr*", {CRM}),
        ("?handler=payments", {FULL}),
        ("?queue_manager=QM2", set()),
        ("?state=resolved", set()),
    ],
)
def test_the_address_filters_the_causes(
    airflow: AirflowApp, query: str, expected: set[str]
) -> None:
    assert set(rows_of(airflow, query)) == expected


def test_causes_without_messages_are_listed_apart(airflow: AirflowApp) -> None:
    gone = rows_of(airflow, "?state=gone")

    assert any("QUOTES.OLD" in row for row in gone.values())
    assert not gone.keys() & rows_of(airflow).keys()


def test_causes_are_ordered_as_the_address_says(airflow: AirflowApp) -> None:
    assert next(iter(rows_of(airflow, "?sort=messages"))) == FULL
    assert next(iter(rows_of(airflow, "?sort=last"))) == FULL


@pytest.mark.parametrize("query", ["state=lost", "page=0", "colour=red", "reason=x"])
def test_an_address_that_is_not_valid_is_refused(airflow: AirflowApp, query: str) -> None:
    assert airflow.client("viewer").get(f"/mqdlq/?{query}").status_code == 422


def test_a_cause_lists_its_queues_with_ways_to_act(airflow: AirflowApp) -> None:
    page = airflow.client("op").get(f"/mqdlq/causes/{FULL}").text

    assert "PAYMENTS.DLQ @ QM1 Cause · Messages · Act on them payments 4 4" in words_of(page)
    assert f"/dags/mq_dlq_demo/act?queue_manager=QM1&amp;queue=DLQ&amp;cause_id={FULL}" in page
    assert "/act?" not in airflow.client("viewer").get(f"/mqdlq/causes/{FULL}").text
    assert airflow.client("op").get("/mqdlq/causes/0123456789ab").status_code == 404


def test_a_cause_of_a_handler_says_when_its_messages_were_dead_lettered(
    airflow: AirflowApp,
) -> None:
    page = airflow.client("viewer").get(f"/mqdlq/dags/mq_dlq_demo/causes/{FULL}").text
    times = "first 2026-11-20 05:59:00 UTC, last 2026-11-21 10:20:21 UTC"
    assert f"Dead-lettered {times}" in words_of(page)


def test_the_causes_of_a_handler_are_those_on_its_queues(airflow: AirflowApp) -> None:
    page = airflow.client("viewer").get("/mqdlq/dags/mq_dlq_demo/causes").text
    of_all = airflow.client("viewer").get("/mqdlq/?handler=demo").text

    shown, chosen = (set(re.findall(r'/causes/(\w{12})["?]', one)) for one in (page, of_all))
    assert shown == chosen
    assert f"/mqdlq/dags/mq_dlq_demo/causes/{FULL}?queue_manager=QM1&amp;queue=" in page
    assert "Change the selected causes" not in page


@pytest.mark.usefixtures("own_world")
def test_people_change_a_cause_and_all_see_who_did(airflow: AirflowApp) -> None:
    assert change(airflow, cause_id=CRM, state="acknowledged", ticket="INC-42", note="known") == 303
    assert "acknowledged by otto INC-42" in rows_of(airflow)[CRM]
    assert change(airflow, "admin", cause_id=[CRM, CLOSED], state="resolved") == 303

    assert not {CRM, CLOSED} & rows_of(airflow).keys()
    assert "resolved by ada" in rows_of(airflow, "?state=resolved")[CRM]
    words = words_of(airflow.client("viewer").get(f"/mqdlq/causes/{CRM}").text)
    assert "ada: resolved (2 messages)" in words
    assert "otto: note: known" in words
    audit = words_of(airflow.client("viewer").get("/mqdlq/dags/mq_dlq_demo/audit").text)
    assert AuditKind.CAUSE_CHANGED.words in audit
    assert "ticket INC-42" in audit


def test_a_resolved_cause_whose_messages_come_again_says_so(
    airflow: AirflowApp, own_world: World
) -> None:
    airflow.set_clock(lambda: own_world.clock.now.replace(day=21, hour=9, minute=30))
    assert change(airflow, cause_id=CRM, state="resolved") == 303
    airflow.set_clock(own_world.clock)

    assert "came back by otto" in rows_of(airflow)[CRM]


@pytest.mark.usefixtures("own_world")
def test_a_mute_says_when_it_ends(airflow: AirflowApp) -> None:
    assert change(airflow, cause_id=CRM, state="muted", more="5") == 303
    assert change(airflow, cause_id=CLOSED, state="muted", until="2026-11-20T10:00") == 303

    assert "muted by otto, until 5 more messages" in rows_of(airflow, "?state=muted")[CRM]
    assert CLOSED in rows_of(airflow)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"cause_id": CRM}, 422),
        ({"state": "resolved"}, 422),
        ({"cause_id": CRM, "state": "muted"}, 422),
        ({"cause_id": CRM, "state": "muted", "more": "5", "times": "2"}, 422),
        ({"cause_id": CRM, "state": "resolved", "more": "5"}, 422),
        ({"cause_id": CRM, "state": "deleted"}, 422),
        ({"cause_id": "0123456789ab", "state": "resolved"}, 403),
    ],
)
def test_a_form_that_is_not_complete_changes_nothing(
    airflow: AirflowApp, own_world: World, fields: dict[str, str], status: int
) -> None:
    assert change(airflow, **fields) == status
    assert own_world.ledger.cause_changes.last() == {}


def test_only_a_person_who_may_change_causes_gets_the_form_for_it(airflow: AirflowApp) -> None:
    reader, operator = (airflow.client(role).get("/mqdlq/").text for role in ("viewer", "op"))

    assert "Change the selected causes" in operator
    assert operator.count('name="cause_id"') == len(rows_of(airflow))
    assert "Change the selected causes" not in reader
    assert 'name="cause_id"' not in reader


def test_a_person_who_may_only_read_changes_nothing(airflow: AirflowApp, own_world: World) -> None:
    assert change(airflow, "viewer", cause_id=CRM, state="resolved") == 403
    assert own_world.ledger.cause_changes.last() == {}


@pytest.mark.usefixtures("own_world")
def test_a_ticket_leads_to_the_configured_address(
    airflow: AirflowApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQDLQ_TICKET_URL", "https://tickets.example.com/{ticket}")
    assert change(airflow, cause_id=CRM, ticket="INC 42") == 303

    page = airflow.client("viewer").get("/mqdlq/").text
    assert 'href="https://tickets.example.com/INC%2042"' in page


OWNERS = """\
owners: {crm: {users: [otto]}, payments: {role: payments}}
causes:
  - {destination: "*", owner: payments}
  - {application: crm, owner: crm}
"""


def test_the_owner_of_a_cause_is_named_and_finds_the_own_ones(
    airflow: AirflowApp, own_world: World
) -> None:
    (own_world.directory / "handlers" / "OWNERS").write_text(OWNERS)

    assert "owner crm · QM1 · demo · crm" in rows_of(airflow)[CRM]
    assert set(rows_of(airflow, "?owner=mine", "op")) == {CRM}
    assert rows_of(airflow, "?owner=mine") == {}
    assert CLOSED in rows_of(airflow, "?owner=payments")
    assert "Owner crm" in words_of(airflow.client("op").get(f"/mqdlq/causes/{CRM}").text)


def test_what_a_run_for_some_messages_moved_is_in_all_figures_when_it_has_ended(
    airflow: AirflowApp, own_world: World
) -> None:
    client = airflow.client("viewer")

    def figures() -> tuple[str, list[str]]:
        """Return what lies there of the cause, and depth and attention of the queue."""
        of_cause = rows_of(airflow).get(CLOSED, "")
        fleet = words_of(client.get("/mqdlq/fleet?q=demo").text)
        said = r"\d+ messages need attention by the account|\d+ of 5,000"
        return of_cause[-11:], re.findall(said, fleet)

    before = figures()
    closed = MessageFilter(cause_id=CLOSED)
    search = Search(closed, ["demo"], own_world.ledger, own_world.lake_root)
    keys = tuple(one.message_key for one in search.messages())
    own_world.mqsc("ALTER QLOCAL(CLOSED) PUT(ENABLED)")
    own_world.clock.sleep(60)
    run(own_world, "demo", "demo-manual__closed", message_keys=keys, action="ACTION(RETRY)")

    assert before == (
        "2 to act on",
        ["7 messages need attention by the account", "9 of 5,000"],
    )
    assert figures() == ("", ["5 messages need attention by the account", "7 of 5,000"])
