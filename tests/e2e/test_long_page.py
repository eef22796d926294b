"""The operator's page under Airflow's real services, in Chromium, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.headers import DeadLetterHeader
from mqdlq.ledger import open_ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from tests.e2e.running.browser import Page, browser
from tests.e2e.running.place import CONNECTION
from tests.e2e.running.services import Airflow, airflow
from tests.support import postgresql
from tests.support.world import DEFINITIONS, World

pytestmark = [pytest.mark.e2e, pytest.mark.long]

BODY = "canary of a body"
HANDLERS = {
    "page": "payload: full\n",
    "pair": "approval: {second_person: [discard], timeout: PT30M}\nrequire_reason: yes\n",
}
USERS = {"admin": "admin", "second": "user", "viewer": "viewer"}


@dataclass
class Desk:
    """A running Airflow, a browser, and what a test does with them.

    `first` has the first run of each handler, which left two messages.
    """

    running: Airflow
    world: World
    page: Page
    ledger_url: str
    first: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.running.services.address

    def sign_in(self, name: str) -> None:
        """Sign the browser in as a user, with the password that Airflow made up."""
        files = Path(self.world.directory).rglob("simple_auth_manager_passwords.json.generated")
        given = {"username": name, "password": json.loads(next(files).read_text())[name]}
        answer = httpx.post(f"{self.address}/auth/token", json=given)
        self.page.log_in(self.address, answer.json()["access_token"])

    def open(self, path: str, *texts: str) -> None:
        self.page.open(f"{self.address}/mqdlq{path}", *texts)

    def put(self, handler: str, dest_q: str) -> None:
        header = DeadLetterHeader(
            2085, dest_q, "QM1", 546, 819, "MQSTR", 6, "mover", "20261121", "11000000"
        )
        body = header.encode(encoding=546, ccsid=819) + BODY.encode()
        fields = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 819}
        self.world.put(f"DLQ.{handler.upper()}", body, **fields)

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form from the page in the browser; return the status and text of the answer."""
        sent = f"{{method: 'POST', body: new URLSearchParams({json.dumps(fields)})}}"
        answer = "async answer => [answer.status, await answer.text()]"
        status, text = self.page.run(f"fetch('{self.address}/mqdlq{path}', {sent}).then({answer})")
        return status, text

    def who(self, what: AuditKind) -> list[str]:
        """Return who did this, by the audit."""
        with open_ledger(self.ledger_url) as ledger:
            return [event.who for event in ledger.audit_trail.events(AuditFilter(what=what))]

    def run(self, handler: str) -> str:
        """Run the handler once, so that the ledger knows the messages of its queue."""
        dag_run = self.running.trigger(handler, why="the ledger knows no message yet")
        assert self.running.wait_for_run(handler, dag_run) == "success"
        return dag_run

    def started(self, handler: str) -> str:
        """Return the run that the page has started last."""
        runs = [run["dag_run_id"] for run in self.running.runs(handler)]
        return str(next(run for run in reversed(runs) if run.startswith("page")))

    def outcomes(self, handler: str, dag_run_id: str) -> dict[str, int]:
        with open_ledger(self.ledger_url) as ledger:
            facts = ledger.outcomes.of_run(ledger_run_id(handler, dag_run_id)).values()
        return dict(Counter(str(fact.outcome) for fact in facts))

    def discard(self, handler: str, why: str) -> str:
        """Discard every message on the queue of a handler by the page's forms; return the run."""
        asked = urlencode({"state": "on_queue", "action": "discard"})
        self.open(f"/dags/mq_dlq_{handler}/act?{asked}", "Start a run")
        self.page.run(f"document.querySelector('textarea[name=why]').value = {why!r}; true")
        self.page.run("document.querySelector('button[value=real]').click(); true")
        self.page.wait_until("!location.pathname.endsWith('/act')")
        return self.started(handler)


@pytest.fixture(scope="module", name="desk", params=["sqlite", "postgresql"])
def _desk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    directory = tmp_path_factory.mktemp("page")
    ledger_url, more = f"sqlite:///{directory / 'ledger.db'}", {}
    if request.param == "postgresql":
        server = postgresql.running_server()
        ledger_url, metadata = server.new_database_url(), server.new_database_url()
        more = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata,
        }
    queues = "".join(f"DEFINE QLOCAL(DLQ.{name.upper()})\n" for name in HANDLERS)
    world = World(directory, definitions=DEFINITIONS + queues, ledger_url=ledger_url)
    rules = directory / "rules"
    rules.mkdir(exist_ok=True)
    for name, keys in HANDLERS.items():
        (rules / f"{name}.rules").write_text(
            f"INPUTQ(DLQ.{name.upper()}) WAIT(NO) RETRYINT(2)\nDESTQ(PAYMENTS) ACTION(RETRY)\n"
        )
        (rules / f"{name}.yaml").write_text(f"connection: mq_page\nrules: {name}.rules\n{keys}")
    users = ",".join(f"{name}:{role}" for name, role in USERS.items())
    with (
        airflow(
            directory,
            AIRFLOW_CONN_MQ_PAGE=CONNECTION,
            MQDLQ_LEDGER_URL=ledger_url,
            AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=users,
            AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
            **more,
        ) as running,
        browser(directory / "browser") as page,
    ):
        for name in HANDLERS:
            running.wait_for_dag(name)
        desk = Desk(running, world, page, ledger_url)
        for name in HANDLERS:
            desk.put(name, "NOBODY")
            desk.put(name, "NOBODY")
            desk.first[name] = desk.run(name)
        yield desk
    world.ledger.close()


def test_an_action_starts_a_run_and_its_page_shows_the_result(desk: Desk) -> None:
    desk.sign_in("admin")
    dag_run_id = desk.discard("page", "duplicates, ticket 4711")
    assert desk.running.wait_for_run("page", dag_run_id) == "success"

    assert desk.outcomes("page", dag_run_id) == {"discarded": 2}
    assert desk.world.depths("DLQ.PAGE") == (0,)
    run_id = ledger_run_id("page", dag_run_id)
    desk.open(f"/dags/mq_dlq_page/runs/{run_id}", "2 discarded", "admin", "ticket 4711")
    desk.open("/dags/mq_dlq_page/audit", "admin", "ticket 4711")


def test_the_scheduler_notes_which_runs_need_attention(desk: Desk) -> None:
    run_id = desk.first["page"]
    report = desk.running.get(f"/dags/mq_dlq_page/dagRuns/{run_id}/taskInstances/report")

    assert desk.running.run("page", run_id)["note"].startswith(
        "mqdlq: Needs attention. 2 messages: 0 handled, 2 need attention. The account adds up."
    )
    assert report["note"] == "mqdlq: 2 messages to act on."


def test_a_person_who_may_only_read_cannot_act(desk: Desk) -> None:
    desk.sign_in("viewer")
    desk.open("/dags/mq_dlq_page/act", "Not permitted", "MQDLQ-991")
    before = len(desk.running.runs("page"))

    assert desk.post("/dags/mq_dlq_page/act", action="discard")[0] == 403
    assert len(desk.running.runs("page")) == before


def test_a_discard_waits_for_a_second_person(desk: Desk) -> None:
    desk.sign_in("admin")
    dag_run_id = desk.discard("pair", "not needed any more")
    desk.running.wait_for_question("pair", dag_run_id)
    path = f"/dags/mq_dlq_pair/runs/{ledger_run_id('pair', dag_run_id)}"
    desk.open(path, "admin started the run; another person must approve its plan")
    assert not desk.page.run("document.querySelector('button[value=approve]')")

    assert desk.post(f"{path}/approval", decision="approve")[0] == 200
    desk.running.wait(lambda: desk.who(AuditKind.SECOND_PERSON_REFUSED) == ["admin"])
    desk.running.wait_for_question("pair", dag_run_id, times=2)
    desk.open(path, "the approval of admin was refused", "The plan waits for an approval")
    assert desk.world.depths("DLQ.PAIR") == (2,)

    desk.sign_in("second")
    desk.open(path, "The plan waits for an approval")
    desk.page.run("document.querySelector('button[value=approve]').click(); true")
    assert desk.running.wait_for_run("pair", dag_run_id) == "success"
    assert desk.outcomes("pair", dag_run_id) == {"discarded": 2}
    desk.open("/dags/mq_dlq_pair/audit", "second", "admin", "not needed any more")


@pytest.fixture(scope="module", name="message")
def _message(desk: Desk) -> str:
    """Put a message whose body is captured; return the path of its page."""
    desk.put("page", "NOBODY")
    desk.run("page")
    desk.sign_in("admin")
    desk.open("/search?handler=page&state=on_queue", "NOBODY")
    assert BODY not in desk.page.text()
    link = desk.page.run("document.querySelector('a[href*=\"/messages/\"]').getAttribute('href')")
    return str(link).removeprefix("/mqdlq")


def test_a_person_who_may_act_but_not_see_bodies_sees_none(desk: Desk, message: str) -> None:
    desk.sign_in("second")
    desk.open(message, "You may not see it")
    assert "Show as text" not in desk.page.text()
    status, text = desk.post(f"{message}/body?as=text")

    assert (status, "MQDLQ-942" in text, BODY in text) == (403, True, False)
    assert desk.who(AuditKind.BODY_SHOWN) == []


def test_a_look_at_a_body_is_in_the_audit_log(desk: Desk, message: str) -> None:
    desk.sign_in("admin")
    desk.open(message, "NOBODY")
    assert BODY not in desk.page.text()
    desk.page.click("Show as text")
    desk.page.wait_for(BODY)

    assert desk.who(AuditKind.BODY_SHOWN) == ["admin"]
    desk.open("/dags/mq_dlq_page/audit", "admin", message.rpartition("/")[2][:16])
    assert BODY not in desk.page.text()
