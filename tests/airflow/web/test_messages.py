"""Search and message pages over the demo: what they show, to whom, and what they never show."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from mqdlq.errors import LedgerUnavailableError
from mqdlq.lake.filters import MessageFilter
from mqdlq.ledger import Ledger
from mqdlq.ledger.audit import Audit
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind, Outcome
from mqdlq.reading.find import FoundMessage, Search
from mqdlq.reading.page_paths import Paths
from tests.support.web.airflow_app import FROM_PAGE, AirflowApp
from tests.support.web.demo_world import HOSTILE
from tests.support.world import World

SEARCH = "/mqdlq/search"


def messages(world: World, handler: str, **chosen: Any) -> list[FoundMessage]:
    chosen_filter = MessageFilter(**chosen)
    return list(Search(chosen_filter, [handler], world.ledger, world.lake_root).messages())


def path_of(message: FoundMessage, part: str = "") -> str:
    return f"/mqdlq/dags/mq_dlq_{message.handler}/messages/{message.message_key}{part}"


def unmatched(world: World) -> FoundMessage:
    return messages(world, "demo", state=Outcome.UNMATCHED, application="requester")[0]


def payment(world: World) -> FoundMessage:
    return messages(world, "demo", state=Outcome.DELIVERED)[0]


def test_a_search_finds_only_messages_that_the_person_may_read(
    airflow: AirflowApp, world: World
) -> None:
    (secret,) = messages(world, "secret")

    for role, is_found in (("viewer", False), ("admin", True)):
        text = airflow.client(role).get(SEARCH, params={"text": secret.message_key}).text
        assert (f"/mq_dlq_secret/messages/{secret.message_key}" in text) is is_found
    hidden = airflow.client("viewer").get(SEARCH, params={"handler": "secret"})
    missing = airflow.client("viewer").get(SEARCH, params={"handler": "nothing"})
    assert (hidden.status_code, missing.status_code) == (422, 422)
    assert hidden.text.replace("secret", "nothing") == missing.text


def test_a_search_shows_what_it_found_and_links_to_it(airflow: AirflowApp, world: World) -> None:
    message = unmatched(world)
    text = airflow.client("viewer").get(SEARCH, params={"application": "requester"}).text

    assert "2 messages" in text
    assert message.why_dead in text
    assert path_of(message) in text
    assert f"/mqdlq/dags/mq_dlq_demo/causes/{message.cause_id}" in text
    assert "/mqdlq/search?application=requester&amp;download=csv" in text


def test_a_person_who_may_act_can_select_messages(airflow: AirflowApp) -> None:
    params = {"handler": "demo", "application": "requester"}

    assert 'type="checkbox"' in airflow.client("op").get(SEARCH, params=params).text
    assert 'type="checkbox"' not in airflow.client("viewer").get(SEARCH, params=params).text


def test_a_fault_of_the_filter_is_shown_beside_what_was_typed(airflow: AirflowApp) -> None:
    answer = airflow.client("viewer").get(SEARCH, params={"msg_id": "abc", "text": "<b>"})

    assert answer.status_code == 422
    assert "msg_id: found &#39;abc&#39;; expected 48 hexadecimal digits" in answer.text
    assert 'value="&lt;b&gt;"' in answer.text


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_found_messages_can_be_downloaded(airflow: AirflowApp, world: World, form: str) -> None:
    expected = messages(world, "demo", application="requester")
    params = {"application": "requester", "handler": "demo"}
    answer = airflow.client("viewer").get("/mqdlq/search", params={**params, "download": form})

    lines = answer.text.splitlines()
    assert answer.headers["content-disposition"] == f'attachment; filename="messages.{form}"'
    if form == "jsonl":
        assert [json.loads(line)["message_key"] for line in lines] == [
            one.message_key for one in expected
        ]
    else:
        assert len(lines) == 1 + len(expected)
        assert all(one.message_key in line for one, line in zip(expected, lines[1:], strict=True))


def test_a_download_with_a_faulty_filter_is_refused(airflow: AirflowApp) -> None:
    answer = airflow.client("viewer").get(
        "/mqdlq/search", params={"stat": "lost", "download": "csv"}
    )

    assert answer.status_code == 422
    assert "stat: no filter has this name" in answer.text


def test_a_message_page_explains_the_message(airflow: AirflowApp, world: World) -> None:
    message = unmatched(world)
    text = html.unescape(airflow.client("viewer").get(path_of(message)).text)

    for expected in (
        "MQRC_UNKNOWN_OBJECT_NAME (2085)",
        "No rule matches, so the message is left.",
        "DESTQ expects 'ORDERS.*', DestQName is 'AMQ.5F3A9C2B20A9E10",
        "Outcome: unmatched",
        "First seen on the queue",
        "MQPER_PERSISTENT (1)",
        "DestQMgrName",
        "also today's",
        "No archive copy has the message's properties",
        "you may not start runs of this handler",
    ):
        assert expected in text, expected


def test_a_message_page_has_all_headers_and_marks_of_a_message(
    airflow: AirflowApp, world: World
) -> None:
    message = unmatched(world)
    page = airflow.client("op").get(path_of(message)).text
    summary, _, headers = page.partition("<h2>Headers</h2>")

    assert re.findall("<summary>(.*)</summary>", headers) == ["MQMD", "MQDLH"]
    assert f'<dt>MsgId</dt><dd class="id">{message.msg_id}</dd>' in headers
    assert "<dt>Expiry</dt><dd>MQEI_UNLIMITED (-1)</dd>" in headers
    assert "protected by AMS" not in page
    assert "may be truncated" not in page
    assert "A body is captured (full)." in page
    for words in ("Retry", "Forward", "Discard"):
        assert re.search(f'<a class="button" href="[^"]*">{words}</a>', summary), words


@pytest.mark.parametrize(("field", "is_open"), [("text=a", False), ("user=APP1", True)])
def test_a_form_with_a_hidden_field_is_open(airflow: AirflowApp, field: str, is_open: bool) -> None:
    page = airflow.client("viewer").get(f"{SEARCH}?{field}").text

    assert ('<details class="all-fields" open>' in page) is is_open


def test_links_to_files_and_parts_of_messages_have_paths() -> None:
    assert Paths().search({"user": "a b"}) == "/mqdlq/search?user=a+b"
    assert Paths().message_body("demo", "ab", {"as": "hex"}) == (
        "/mqdlq/dags/mq_dlq_demo/messages/ab/body?as=hex"
    )


def test_a_message_page_lists_attempts_and_where_it_went(airflow: AirflowApp, world: World) -> None:
    text = airflow.client("op").get(path_of(payment(world))).text

    assert "Attempt 1 of rule 2, RETRY to PAYMENTS @ QM1: succeeded" in text
    assert "it has left the queue" in text
    assert "it cannot be undone: no copy is made of a message that is put on another queue" in text
    assert "The message was put, by payments-in" in text
    assert "It has left the queue." in text


def test_a_discarded_message_can_be_restored(airflow: AirflowApp, world: World) -> None:
    (message, *_) = messages(world, "demo", state=Outcome.DISCARDED)
    text = html.unescape(airflow.client("op").get(path_of(message)).text)

    assert f"act?message_key={message.message_key}&action=restore" in text
    assert "has no valid property traceparent" in text


def test_related_messages_are_counted(airflow: AirflowApp, world: World) -> None:
    message = payment(world)
    equal = len(messages(world, "demo", cause_id=message.cause_id))
    text = airflow.client("viewer").get(path_of(message, "/related")).text

    assert equal > 1
    assert f"The same cause</a>: {equal} messages" in text
    assert "The same MsgId</a>: 1 message," in text


def test_the_row_of_a_message_is_json_without_its_body(airflow: AirflowApp, world: World) -> None:
    message = unmatched(world)
    answer = airflow.client("viewer").get(path_of(message, "/row.json"))

    row = answer.json()
    assert (row["message_key"], row["snapshot_id"]) == (message.message_key, message.snapshot_id)
    assert row["dlh_dest_q_name"] == message.dest_q_name
    assert "reply" not in answer.text.replace("reply_to_q", "")


@pytest.mark.parametrize("key", ["0" * 64, "xyz", "%3Cb%3E"])
def test_a_message_that_no_snapshot_has_is_not_found(airflow: AirflowApp, key: str) -> None:
    answer = airflow.client("viewer").get(f"/mqdlq/dags/mq_dlq_demo/messages/{key}")

    assert answer.status_code == 404
    assert "MQDLQ-941" in answer.text


def test_a_body_is_hidden_until_a_permitted_person_asks_and_the_look_is_audited(
    airflow: AirflowApp, world: World
) -> None:
    message = unmatched(world)
    admin = airflow.client("admin")
    assert "reply 1" not in admin.get(path_of(message)).text
    before = looks(world.ledger, message)

    answer = admin.post(path_of(message, "/body?as=text"), headers=FROM_PAGE)

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert "reply " in answer.text
    (look,) = looks(world.ledger, message)[len(before) :]
    assert (look.who, look.handler) == ("ada", "demo")
    assert look.details == "7 of 7 bytes as text"
    assert "Message body shown" in admin.get(path_of(message)).text


@pytest.mark.parametrize(
    ("form", "shown"), [("hex", "7265 706c 7920"), ("ebcdic", "In CCSID 500.")]
)
def test_a_body_is_shown_in_other_forms(
    airflow: AirflowApp, world: World, form: str, shown: str
) -> None:
    path = path_of(unmatched(world), f"/body?as={form}")

    assert shown in airflow.client("admin").post(path, headers=FROM_PAGE).text


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_a_person_without_the_permission_sees_no_body(
    airflow: AirflowApp, world: World, role: str
) -> None:
    message = unmatched(world)
    before = looks(world.ledger, message)
    answer = airflow.client(role).post(path_of(message, "/body"), headers=FROM_PAGE)

    assert answer.status_code == 403
    assert "MQDLQ-942" in answer.text
    assert "reply " not in answer.text
    assert looks(world.ledger, message) == before
    assert "You may not see it" in airflow.client(role).get(path_of(message)).text


def test_another_site_reveals_no_body(airflow: AirflowApp, world: World) -> None:
    message = unmatched(world)
    headers = {"Sec-Fetch-Site": "cross-site"}

    assert (
        airflow.client("admin").post(path_of(message, "/body"), headers=headers).status_code == 403
    )
    assert airflow.client("admin").get(path_of(message, "/body")).status_code in {404, 405}


def test_a_look_that_cannot_be_recorded_shows_nothing(
    airflow: AirflowApp, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LedgerUnavailableError("MQDLQ-221", "the disk is full")

    monkeypatch.setattr(Audit, "record", fail)
    answer = airflow.client("admin").post(path_of(unmatched(world), "/body"), headers=FROM_PAGE)

    assert answer.status_code == 503
    assert "reply " not in answer.text


def test_a_message_without_a_captured_body_says_so(airflow: AirflowApp, world: World) -> None:
    (message, *_) = messages(world, "payments")
    admin = airflow.client("admin")

    assert "No body was captured" in admin.get(path_of(message)).text
    answer = admin.post(path_of(message, "/body"), headers=FROM_PAGE)
    assert (answer.status_code, "MQDLQ-945" in answer.text) == (404, True)


def test_hostile_names_act_nowhere(airflow: AirflowApp, world: World) -> None:
    admin = airflow.client("admin")
    found = messages(world, "names")
    pages = [admin.get(SEARCH, params={"handler": "names"}).text]
    for message in found:
        pages.append(admin.get(path_of(message)).text)
        found_by_name = admin.get(SEARCH, params={"application": message.put_appl_name}).text
        # The form has the name as it was typed.
        pages.append(found_by_name.replace(html.escape(message.put_appl_name), ""))
        pages.append(admin.post(path_of(message, "/body"), headers=FROM_PAGE).text)

    assert len(found) == len(HOSTILE)
    for text in pages:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert not {"\x1b", "\u202e", "\a", "\b"} & set(text)


def looks(ledger: Ledger, message: FoundMessage) -> list[Any]:
    wanted = AuditFilter(message_key=message.message_key, what=AuditKind.BODY_SHOWN)
    return list(reversed(list(ledger.audit_trail.events(wanted))))
