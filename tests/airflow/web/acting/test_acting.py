"""Act on messages: preview, reason, and a run that Airflow starts for the person who clicked."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.web.airflow_app import FORM, ROLES, AirflowApp
from tests.support.web.demo_world import FIRST, HOSTILE
from tests.support.world import World

ACT = "/mqdlq/dags/mq_dlq_demo/act"
FORWARD = {"action": "forward", "to_queue": "ORDERS.PARKED", "state": "on_queue"}


def fields_of(text: str) -> list[tuple[str, str]]:
    """Return the hidden fields of the form that starts a run."""
    form = text.split('<form method="post"')[1].split("</form>", maxsplit=1)[0]
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
    return [(unescape(name), unescape(value)) for name, value in found]


def preview(airflow: AirflowApp, role: str = "user", path: str = ACT, **query: str) -> Any:
    return airflow.client(role).get(f"{path}?{urlencode(query or FORWARD)}")


def send(
    airflow: AirflowApp,
    fields: list[tuple[str, str]],
    role: str = "user",
    path: str = ACT,
    **more: str,
) -> Any:
    body = urlencode([*fields, *({"start": "real", "why": "ticket 4711"} | more).items()])
    return airflow.client(role).post(path, content=body, headers=FORM)


def dag_runs(dag_id: str = "mq_dlq_demo") -> dict[str, Any]:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 (reads settings)
    from airflow.utils.session import create_session  # noqa: PLC0415 (the same)

    with create_session() as session:
        found = session.query(DagRun).filter(DagRun.dag_id == dag_id).all()
        return {one.run_id: (one.triggering_user_name, one.conf) for one in found}


@pytest.mark.parametrize("role", ROLES)
def test_only_people_who_may_trigger_the_dag_get_the_form(airflow: AirflowApp, role: str) -> None:
    answer = preview(airflow, role)

    assert answer.status_code == (403 if role == "viewer" else 200)


def test_a_preview_says_what_would_happen_to_how_many(airflow: AirflowApp) -> None:
    text = preview(airflow).text

    number = re.search(r"<h2 id=\"what\">Forward: (\d+) messages</h2>", text)
    assert number
    assert int(number[1]) >= 7
    assert "ACTION(FWD) FWDQ(&#39;ORDERS.PARKED&#39;) HEADER(YES)" in text
    assert "It cannot be undone: no copy is made" in text
    assert "MQRC_NOT_AUTHORIZED (2035)" in text
    assert "DLQ @ QM1" in text
    assert re.search(
        rf"By persistence</h3>\s*<dl>\s*<dt class=\"n\">{number[1]}</dt><dd>persistent<", text
    )


def test_messages_without_mqdlh_are_left_out_of_a_retry(airflow: AirflowApp) -> None:
    text = preview(airflow, action="retry", state="on_queue").text

    assert "it has no valid MQDLH, which names its destination" in text


def test_departed_messages_are_left_out(airflow: AirflowApp, world: World) -> None:
    as_of = world.recorded_snapshot(FIRST).snapshot_id
    text = preview(airflow, action="discard", state="forwarded", as_of=as_of).text

    assert "it is not on the queue any more: forwarded" in text
    assert '<form method="post"' not in text


def test_a_form_starts_one_run_as_the_person_however_often_it_is_sent(
    airflow: AirflowApp,
) -> None:
    before = dag_runs()
    fields = fields_of(preview(airflow).text)

    answers = [send(airflow, fields) for _ in range(2)]

    (run_id,) = set(dag_runs()) - set(before)
    assert {answer.status_code for answer in answers} == {303}
    assert {answer.headers["location"] for answer in answers} == {
        f"/mqdlq/dags/mq_dlq_demo/act/runs/{run_id}"
    }
    user, conf = dag_runs()[run_id]
    assert user == ROLES["user"]
    assert conf == {
        "where": "state=on_queue",
        "as_of": dict(fields)["as_of"],
        "dry_run": False,
        "why": "ticket 4711",
        "action": "ACTION(FWD) FWDQ('ORDERS.PARKED') HEADER(YES)",
        "input_q": "DLQ",
        "input_q_mgr": "QM1",
    }
    page = airflow.client("user").get(answers[0].headers["location"])
    assert page.status_code == 200
    assert f"/dags/mq_dlq_demo/runs/{run_id}" in page.text


def test_a_dry_run_and_a_run_of_one_form_are_two_runs(airflow: AirflowApp) -> None:
    before = dag_runs()
    fields = fields_of(preview(airflow).text)

    send(airflow, fields, start="dry", why="")
    send(airflow, fields)

    new = {run_id: dag_runs()[run_id][1] for run_id in set(dag_runs()) - set(before)}
    assert sorted(conf["dry_run"] for conf in new.values()) == [False, True]


def test_a_changed_selection_starts_nothing_and_names_the_difference(airflow: AirflowApp) -> None:
    before = dag_runs()
    keys = re.findall(r"/messages/([0-9a-f]{64})", preview(airflow).text)
    given = [("message_key", key) for key in sorted(set(keys))]
    page = airflow.client("user").get(f"{ACT}?{urlencode([*given, ('action', 'discard')])}")
    fields_in_order = fields_of(page.text)
    fields = {name: value for name, value in fields_in_order if name != "message_key"}
    first, *rest = fields["previewed"].split()
    gone = "f" * 64
    changed = fields | {"previewed": " ".join([gone, *rest]), "digest": "0" * 64}

    answer = send(airflow, [*given, *changed.items()])

    assert answer.status_code == 409
    assert "The messages are not those of your preview any more" in answer.text
    assert first in answer.text
    assert gone in answer.text
    assert dag_runs() == before


def test_another_action_than_that_of_the_preview_starts_nothing(airflow: AirflowApp) -> None:
    fields = dict(fields_of(preview(airflow).text)) | {"to_queue": "ELSEWHERE"}

    assert send(airflow, list(fields.items())).status_code == 409


def test_a_viewer_starts_nothing(airflow: AirflowApp) -> None:
    before = dag_runs()
    fields = fields_of(preview(airflow).text)

    assert send(airflow, fields, role="viewer").status_code == 403
    assert dag_runs() == before


def test_a_form_of_another_site_starts_nothing(airflow: AirflowApp) -> None:
    before = dag_runs()
    fields = fields_of(preview(airflow).text)
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Content-Type": "application/x-www-form-urlencoded",
    }

    body = urlencode([*fields, ("start", "real")])
    answer = airflow.client("admin").post(ACT, content=body, headers=headers)

    assert answer.status_code == 403
    assert "MQDLQ-992" in answer.text
    assert dag_runs() == before


def test_airflows_refusal_is_shown_in_its_words(airflow: AirflowApp) -> None:
    before = dag_runs()
    fields = fields_of(preview(airflow).text)

    answer = send(airflow, fields, why="x" * 1001)

    assert answer.status_code == 400
    assert "No run was started." in answer.text
    assert "is too long" in answer.text
    assert dag_runs() == before


def test_a_handler_can_need_a_reason(airflow: AirflowApp, world: World) -> None:
    file = world.directory / "handlers" / "demo.yaml"
    text = file.read_text()
    fields = fields_of(preview(airflow).text)
    try:
        file.write_text(text + "require_reason: true\napproval: {second_person: [fwd]}\n")
        page = preview(airflow).text
        answer = send(airflow, fields, why=" ")
        dry = send(airflow, fields, why="", start="dry")
    finally:
        file.write_text(text)

    assert "(needed to start the run)" in page
    assert f"a person other than {ROLES['user']} approves its plan" in page
    assert answer.status_code == 422
    assert "No run was started: this handler needs a reason" in answer.text
    assert dry.status_code == 303


def test_the_discards_of_a_run_can_be_restored(airflow: AirflowApp) -> None:
    page = preview(airflow, run=FIRST)
    assert "Restore: 3 messages" in page.text

    answer = send(airflow, fields_of(page.text))

    assert answer.status_code == 303
    run_id = answer.headers["location"].rpartition("/")[2].removesuffix("?restore=yes")
    user, conf = dag_runs("mq_dlq_restore")[run_id]
    assert user == ROLES["user"]
    assert (conf["handler"], conf["run"], len(conf["message_keys"])) == ("demo", FIRST, 3)
    assert conf["why"] == "ticket 4711"
    assert airflow.client("user").get(answer.headers["location"]).status_code == 200


def test_hostile_names_are_shown_and_not_obeyed(airflow: AirflowApp) -> None:
    path = "/mqdlq/dags/mq_dlq_names/act"
    text = preview(airflow, path=path, action="retry", state="on_queue").text

    assert f"Retry: {len(HOSTILE)} messages" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"action": "burn", "state": "on_queue"}, "action: found &#39;burn&#39;; expected one of"),
        ({"action": "forward", "state": "on_queue"}, "to_queue: it is empty"),
        (
            {"action": "forward", "to_queue": "A') X('", "state": "on_queue"},
            "expected at most 48 letters",
        ),
        ({"message_key": "xyz"}, "expected 64 hexadecimal digits, or the first of them"),
        ({"message_key": "0" * 64, "state": "on_queue"}, "expected keys, a run, or a filter"),
        ({"run": FIRST, "action": "discard"}, "it is for the action restore only"),
        ({"unknown": "1"}, "no filter has this name"),
    ],
)
def test_a_wrong_address_gets_one_error(
    airflow: AirflowApp, query: dict[str, str], fault: str
) -> None:
    answer = preview(airflow, **query)

    assert answer.status_code == 422
    assert fault in answer.text


def test_without_messages_the_page_says_where_to_choose_them(airflow: AirflowApp) -> None:
    assert "No message is selected" in airflow.client("user").get(ACT).text


def test_an_answer_for_a_run_without_a_task_is_refused_in_airflows_words(
    airflow: AirflowApp,
) -> None:
    path = f"/mqdlq/dags/mq_dlq_demo/runs/{FIRST}/approval"

    answer = send(airflow, [("decision", "approve"), ("comment", "seen")], path=path)

    assert answer.status_code == 404
    assert "Your answer was not accepted." in answer.text
    assert "was not found" in answer.text


def test_an_answer_for_an_unknown_run_is_not_sent(airflow: AirflowApp) -> None:
    path = "/mqdlq/dags/mq_dlq_demo/runs/payments-manual__waiting/approval"

    assert send(airflow, [("decision", "approve")], path=path).status_code == 404
    assert send(airflow, [("decision", "x")], path=path).status_code == 404


def test_a_preview_names_the_guards_that_will_ask(airflow: AirflowApp) -> None:
    path = "/mqdlq/dags/mq_dlq_payments/act"
    text = preview(airflow, path=path, action="discard", state="on_queue").text

    assert (
        "<dt>Guards</dt><dd>The run waits until a person approves its plan:"
        " 4 messages may be discarded.</dd>"
    ) in text


def test_a_retry_when_it_is_fixed_starts_a_run_that_waits_for_it(
    airflow: AirflowApp, own_world: World
) -> None:
    known = set(dag_runs())
    asked = {"action": "retry_when_fixed", "reason": "2051", "application": "payments-in"}
    page = preview(airflow, **asked).text
    assert "Retry when fixed: 2 messages" in page
    assert "none is tried while its destination refuses it" in page

    assert send(airflow, fields_of(page)).status_code == 303

    (started,) = set(dag_runs()) - known
    conf = dag_runs()[started][1]
    assert (conf["action"], conf["until_fixed"]) == ("ACTION(RETRY) RETRY(1)", True)
    assert own_world.depths("DLQ") != (0,)
