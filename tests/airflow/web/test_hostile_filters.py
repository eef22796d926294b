"""No value of a filter keeps the page busy: the worst strings of its length, in every filter."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.testclient import TestClient

from mqdlq.web.app import application
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.crawling import Visit, links_of, one_of_each, route_of

pytestmark = pytest.mark.slow

LONGEST = 200
"""How many characters a filter may have at most."""

WORST = (
    "*" * (LONGEST - 1) + "!",
    ("*A" * LONGEST)[: LONGEST - 1] + "!",
    ("%_" * LONGEST)[: LONGEST - 1] + "!",
    "9" * LONGEST,
)
WITHIN_S = 1
"""How much processor time an answer may take."""


def filters(visits: list[Visit]) -> dict[str, set[str]]:
    """Return the query parameters that links and forms lead to, by the route that reads them."""
    found: dict[str, set[str]] = defaultdict(set)
    for link in {link for visit in visits for link in links_of(visit)}:
        names = {name for name, _ in parse_qsl(urlsplit(link).query, keep_blank_values=True)}
        found[route_of(application(), link)[0]] |= names - {"v"}
    return found


def ask(client: TestClient, address: str, query: dict[str, str]) -> tuple[int, float]:
    """Return the status of an answer, and the processor time that it took.

    The garbage of the tests before this one is not collected meanwhile, which can take a second.
    """
    gc.disable()
    try:
        start = time.process_time()
        answer = client.get(address, params=query)
        return answer.status_code, time.process_time() - start
    finally:
        gc.enable()


def test_every_filter_of_every_page_answers_its_worst_strings_soon(
    airflow: AirflowApp, visits: list[Visit]
) -> None:
    client, asked = airflow.client("admin"), 0
    given = filters(visits)
    faults = []
    for route, visit in one_of_each(visits).items():
        address = visit.address.partition("?")[0]
        for name in sorted(given.get(route, ())):
            for text in WORST:
                status, took = ask(client, address, {name: text})
                asked += 1
                if took > WITHIN_S or status >= 500:
                    faults.append(f"{status} {took:.1f} s {address}?{name}={text}")
            assert client.get("/api/v2/version").status_code == 200

    assert "\n".join(faults) == ""
    assert {"queue", "queue_manager", "application"} <= given["/search"]
    assert {"dest_q_name", "application"} <= given["/dags/{dag_id}/runs/{run_id}"]
    assert asked > 60 * len(WORST)
