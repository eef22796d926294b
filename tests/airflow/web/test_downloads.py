"""Every list of the page is downloaded whole, as CSV, JSON Lines and Parquet."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pyarrow.parquet as pq
import pytest

from mqdlq.reading import exports
from mqdlq.reading.exports import FORMS
from tests.support.web.airflow_app import AirflowApp
from tests.support.web.demo_world import LAST

DEMO = "/mqdlq/dags/mq_dlq_demo"
LISTS = {
    "/mqdlq/": "inbox",
    "/mqdlq/fleet": "overview",
    "/mqdlq/search": "messages",
    "/mqdlq/audit": "audit",
    f"{DEMO}/audit": "audit",
    f"{DEMO}/causes": "causes-demo",
    f"{DEMO}/runs": "runs-demo",
    f"{DEMO}/runs/{LAST}": LAST,
}
"""The pages that list something, and the name of their file."""


@pytest.mark.parametrize("address", LISTS)
def test_a_list_is_downloaded_whole_in_each_form(
    airflow: AirflowApp, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "ROWS", 3)
    client = airflow.client("viewer")

    links = re.findall(r'href="([^"]+)" download', client.get(address).text)
    found = {form: client.get(html.unescape(link)) for form, link in zip(FORMS, links, strict=True)}

    rows = list(csv.DictReader(io.StringIO(found["csv"].text)))
    records = [json.loads(line) for line in found["jsonl"].text.splitlines()]
    table = pq.read_table(io.BytesIO(found["parquet"].content))
    assert len(rows) == len(records) == table.num_rows > 0
    assert list(rows[0]) == list(records[0]) == table.schema.names
    for form, answer in found.items():
        expected = f'attachment; filename="{LISTS[address]}.{form}"'
        assert answer.headers["content-disposition"] == expected


def test_a_download_has_all_pages_and_only_what_the_filter_chooses(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")
    everything = client.get("/mqdlq/audit?download=jsonl").text.splitlines()
    some = client.get("/mqdlq/audit?download=jsonl&what=discarded&page=2").text.splitlines()

    assert len(everything) > len(some) > 0
    assert {json.loads(line)["what"] for line in some} == {"discarded"}


def test_an_unknown_form_is_refused_with_those_that_there_are(airflow: AirflowApp) -> None:
    client = airflow.client("viewer")
    expected = "download: found 'exe'; expected one of csv, jsonl, parquet"

    for address in LISTS:
        answer = client.get(address, params={"download": "exe"})
        assert answer.status_code == 422
        assert expected in html.unescape(answer.text), address


def test_a_download_has_nothing_of_handlers_that_the_person_may_not_read(
    airflow: AirflowApp,
) -> None:
    for address in ("/mqdlq/fleet", "/mqdlq/search", "/mqdlq/audit"):
        seen, all_of_it = (
            airflow.client(role).get(address, params={"download": "jsonl"}).text
            for role in ("viewer", "admin")
        )
        assert "secret" in all_of_it, address
        assert "secret" not in seen, address
