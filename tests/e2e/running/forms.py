"""Replay a cause by the forms of the page, without a browser."""

from __future__ import annotations

import re
import time
from html import unescape

import httpx

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.reading.page_paths import Paths
from tests.e2e.running.outage import HANDLER
from tests.e2e.running.services import Airflow
from tests.support.web.airflow_app import FROM_PAGE

LIMIT_S = 120


class Forms:
    """The page as a browser uses it that is signed in as the administrator."""

    def __init__(self, running: Airflow) -> None:
        self._running = running
        self._paths = Paths()

    def get(self, path: str) -> str:
        with self._client() as client:
            answer = client.get(path)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.text

    def preview(self) -> str:
        """Return the preview of a Retry of the messages of the only cause."""
        (cause_id,) = set(
            re.findall(r'name="cause_id" value="(\w+)"', self.get(self._paths.inbox()))
        )
        return self.get(self._paths.act(HANDLER, {"cause_id": cause_id, "action": "retry"}))

    def replay_all(self) -> str:
        """Start a run for all messages without a try, and return its id in Airflow."""
        form = self.preview().split('<form method="post"')[1].partition("</form>")[0]
        found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
        fields = {name: unescape(value) for name, value in found}
        fields |= {"start": "real", "why": "a test"}
        self._post(self._paths.act(HANDLER), fields)
        return f"page__{fields['token']}"

    def approve(self, run: str) -> None:
        path = self._paths.approval(HANDLER, ledger_run_id(HANDLER, run))
        self._post(path, {"decision": "approve"})

    def progress(self, run: str) -> float:
        """Ask how far a run is; return the seconds until the answer."""
        began = time.monotonic()
        self.get(self._paths.run_progress(HANDLER, ledger_run_id(HANDLER, run)))
        return time.monotonic() - began

    def rows(self) -> dict[str, tuple[str, str]]:
        """Return the id and the state of each cause of the inbox, by the name of its queue."""
        rows = self.get(self._paths.inbox({"state": "all"})).split('<label class="pick">')[1:]
        found = {}
        for row in rows:
            (cause_id,) = re.findall(r'name="cause_id" value="(\w+)"', row)
            (state,) = re.findall(r'<span class="badge standing \w+">([^<]+)</span>', row)
            (queue,) = re.findall(r"</strong> (\S+) @", row)
            found[queue] = (cause_id, state)
        return found

    def states(self) -> dict[str, str]:
        return {queue: state for queue, (_, state) in self.rows().items()}

    def say(self, queue: str, said: dict[str, str]) -> None:
        """Change the state of the cause of a queue, by the form of the inbox."""
        self._post(self._paths.changed_causes(), {"cause_id": self.rows()[queue][0], **said})

    def _post(self, path: str, fields: dict[str, str]) -> None:
        with self._client() as client:
            answer = client.post(path, data=fields)
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text

    def _client(self) -> httpx.Client:
        address, cookies = self._running.services.address, {"_token": self._running.token}
        return httpx.Client(base_url=address, headers=FROM_PAGE, cookies=cookies, timeout=LIMIT_S)
