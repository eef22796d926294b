"""A file replaces one message's body, if the handler allows it and the person may see bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind, Outcome
from tests.airflow.web.acting.test_acting import dag_runs, fields_of, preview, send
from tests.airflow.web.test_messages import messages
from tests.support.web.airflow_app import FROM_PAGE, ROLES, AirflowApp
from tests.support.world import World

NEW = b"amount=21.00\n"
DIGEST = hashlib.sha256(NEW).hexdigest()


@pytest.fixture(name="key")
def _key(world: World) -> Iterator[str]:
    """Allow repairs of bodies for the demo's handler; yield the key of a message on the queue."""
    file = world.directory / "handlers" / "demo.yaml"
    text = file.read_text()
    file.write_text(text + "repair: {body: true}\napproval: {second_person: [discard]}\n")
    yield waiting(world)
    file.write_text(text)


def waiting(world: World) -> str:
    found = messages(world, "demo", state=Outcome.LEFT_BY_RULE)
    return found[-1].message_key


def upload(airflow: AirflowApp, key: str, role: str = "admin", data: bytes = NEW) -> Any:
    path = f"/mqdlq/dags/mq_dlq_demo/messages/{key}/replacement?action=retry"
    files = {"body": ("body.txt", data)}
    return airflow.client(role).post(path, files=files, headers=FROM_PAGE)


def audited(world: World, kind: AuditKind) -> list[Any]:
    return list(world.ledger.audit_trail.events(AuditFilter(what=kind)))


def test_an_upload_leads_to_a_preview_with_the_digest_and_to_a_run_without_the_body(
    airflow: AirflowApp, world: World, key: str
) -> None:
    page = preview(airflow, "admin", message_key=key, action="retry").text
    assert 'type="file"' in page

    answer = upload(airflow, key)
    assert answer.status_code == 303, answer.text
    shown = airflow.client("admin").get(answer.headers["location"]).text

    assert f"with SHA-256 {DIGEST[:12]}" in shown
    assert "a person other than" in shown
    assert "amount=21.00" not in shown
    assert f'name="repair_body" value="{DIGEST}"' in shown.split("</form>")[0]
    (stored, *_) = audited(world, AuditKind.REPLACEMENT_STORED)
    assert (stored.who, stored.message_key) == (ROLES["admin"], key)
    assert stored.details == f"13 bytes with SHA-256 {DIGEST}"
    form = shown[shown.index('id="start"') :]
    before = dag_runs()
    started = send(airflow, fields_of(form), role="admin")
    assert started.status_code == 303, started.text
    (run_id,) = set(dag_runs()) - set(before)
    _, conf = dag_runs()[run_id]
    assert conf["repair"] == {"body_sha256": DIGEST, "body_length": len(NEW)}
    assert conf["message_keys"] == [key]


def test_the_difference_is_shown_to_people_who_may_see_bodies_and_recorded(
    airflow: AirflowApp, world: World, key: str
) -> None:
    upload(airflow, key)
    path = f"/mqdlq/dags/mq_dlq_demo/messages/{key}/body?replacement={DIGEST}"

    shown = airflow.client("admin").post(path, headers=FROM_PAGE)

    assert "+amount=21.00" in shown.text
    assert "--- original" in shown.text
    looks = [one.details for one in audited(world, AuditKind.BODY_SHOWN)]
    assert any(one.endswith(f"as how {DIGEST} differs") for one in looks)
    assert airflow.client("user").post(path, headers=FROM_PAGE).status_code == 403


def test_nobody_without_both_permissions_replaces_a_body(airflow: AirflowApp, key: str) -> None:
    assert upload(airflow, key, "user").status_code == 403
    assert upload(airflow, key, "viewer").status_code == 403


def test_a_handler_that_does_not_allow_it_takes_no_body(airflow: AirflowApp, world: World) -> None:
    key = waiting(world)
    query = {"message_key": key, "action": "retry"}

    assert 'type="file"' not in preview(airflow, "admin", **query).text
    assert upload(airflow, key).status_code == 422
    given = query | {"repair_body": DIGEST, "repair_body_length": "13"}
    assert "does not allow to replace a body" in preview(airflow, "admin", **given).text


@pytest.mark.usefixtures("key")
def test_several_messages_do_not_get_one_body(airflow: AirflowApp) -> None:
    given = {"state": "on_queue", "action": "retry"}
    given |= {"repair_body": DIGEST, "repair_body_length": "13"}

    text = preview(airflow, "admin", **given).text

    assert "a body is replaced for one message at a time" in text
    assert 'id="start"' not in text


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"repair_body": "x"}, "repair_body: found"),
        ({"repair_body": DIGEST}, "repair_ccsid"),
        ({"repair_body": DIGEST, "repair_body_length": "9999999"}, "at most 4,194,304"),
    ],
)
def test_a_wrong_replacement_in_an_address_gets_one_error(
    airflow: AirflowApp, key: str, given: dict[str, str], fault: str
) -> None:
    answer = preview(airflow, "admin", message_key=key, action="retry", **given)

    assert answer.status_code == 422
    assert fault in answer.text


def test_a_body_that_is_too_long_is_refused(airflow: AirflowApp, key: str) -> None:
    answer = upload(airflow, key, data=b"x" * (4 << 20) + b"x")

    assert answer.status_code == 422
    assert "body: it is too long; expected at most 4,194,304 bytes" in answer.text
