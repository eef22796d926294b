"""Pages over a separate demo world: encrypted bodies, restorations, pruned runs."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from mqdlq.handlers import load_handler
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.snapshot.capture import PayloadKey
from tests.support.restorations import restore_and_count
from tests.support.retention import DAY, forget_snapshots, policy, pruner
from tests.support.web.airflow_app import FROM_PAGE, AirflowApp
from tests.support.web.demo_world import DRY, FIRST, Q_FULL, dead_letter
from tests.support.world import World

pytestmark = pytest.mark.slow

DEMO = "/mqdlq/dags/mq_dlq_demo"
KEY = PayloadKey("2026-11", b"k" * 32)


def define_key(monkeypatch: pytest.MonkeyPatch, key: PayloadKey) -> None:
    """Define the connection that has the key of captured payload."""
    fields = {"conn_type": "generic", "password": base64.b64encode(key.key).decode()}
    connection = {**fields, "extra": {"key_id": key.key_id}}
    monkeypatch.setenv("AIRFLOW_CONN_BODIES", json.dumps(connection))


def test_an_encrypted_body_is_shown_only_while_its_key_is_known(
    airflow: AirflowApp, own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letter(own_world, "NOBODY.HERE", Q_FULL, "canary of a body")
    file = own_world.directory / "handlers" / "demo.yaml"
    file.write_text(f"{file.read_text()}payload_key: bodies\n")
    options = RunOptions(dry_run=True, dag_run_id="manual__key")
    run = own_world.begin("demo-manual__key", load_handler("demo"), options)
    own_world.snapshot(run, payload="full", key=KEY)
    admin = airflow.client("admin")
    found = admin.get("/mqdlq/search?download=jsonl&handler=demo&dest_q_name=NOBODY.HERE")
    path = f"{DEMO}/messages/{found.json()['message_key']}"

    define_key(monkeypatch, KEY)
    shown = admin.post(f"{path}/body?as=text", headers=FROM_PAGE)
    define_key(monkeypatch, replace(KEY, key=b"x" * 32))
    wrong = admin.post(f"{path}/body?as=text", headers=FROM_PAGE)
    define_key(monkeypatch, PayloadKey("2027-01", b"n" * 32))
    missing = admin.post(f"{path}/body?as=text", headers=FROM_PAGE)

    assert (shown.status_code, "canary of a body" in shown.text) == (200, True)
    assert "canary" not in admin.get(path).text
    for refused, words in ((wrong, "or the key"), (missing, "known are: 2027-01")):
        assert refused.status_code == 500
        assert words in refused.text
        assert "canary" not in refused.text
    looks = AuditFilter(what=AuditKind.BODY_SHOWN)
    assert [event.who for event in own_world.ledger.audit_trail.events(looks)] == ["ada"]


def test_a_restoration_has_a_page_among_the_runs(airflow: AirflowApp, own_world: World) -> None:
    restoration_id = "restore-page__1"
    request = {"run_id": FIRST, "to_queue": "ORDERS.PARKED", "who": "otto", "why": "ticket 12"}
    done = restore_and_count(own_world, restoration_id, handler="demo", **request)
    assert done == {"restored": 3}
    client = airflow.client("op")

    page = client.get(f"{DEMO}/runs/{restoration_id}").text
    assert "Restoration of 3 archived copies" in page
    assert "<dt>restored</dt><dd>3</dd>" in page
    assert "UTC by otto: ticket 12" in page
    assert "<dt>To</dt><dd>ORDERS.PARKED, with MQDLH</dd>" in page
    assert f'href="{DEMO}/runs/{FIRST}"' in page
    assert f'href="{DEMO}/runs/{restoration_id}"' in client.get(f"{DEMO}/runs").text
    assert restoration_id in client.get(f"{DEMO}/act/runs/page__1?restore=yes").text
    other = client.get(f"/mqdlq/dags/mq_dlq_payments/runs/{restoration_id}")
    assert (other.status_code, "MQDLQ-968" in other.text) == (404, True)


def test_a_pruned_run_keeps_its_totals(airflow: AirflowApp, own_world: World) -> None:
    own_world.clock.now += 100 * DAY
    forget_snapshots(own_world)
    (done,) = pruner(own_world).prune([policy(runs=30, name="demo")], trust_clock=True)
    assert done.run_ids == [DRY]
    client = airflow.client("viewer")

    page = client.get(f"{DEMO}/runs/{DRY}").text
    assert "only the totals of this run remain" in page
    assert '<td>2</td><td>RETRY <span class="to">to PAYMENTS @ QM1</span></td>' in page
    assert 'not attempted</td><td class="n">6</td>' in page
    assert "Pruned" in client.get(f"{DEMO}/runs").text
    hidden = client.get(f"/mqdlq/dags/mq_dlq_quiet/runs/{DRY}")
    assert (hidden.status_code, "MQDLQ-968" in hidden.text) == (404, True)
    report = client.get(f"{DEMO}/runs/{DRY}/report")
    assert (report.status_code, "MQDLQ-" in report.text) == (404, True)
