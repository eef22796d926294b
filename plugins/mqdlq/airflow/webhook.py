"""Airflow notifier for webhooks: send one HTTP POST of JSON."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier, Context

TIMEOUT_S = 10


class WebhookNotifier(BaseNotifier):
    """POST JSON to the URL of an Airflow connection of type `http`.

    The URL is made of the connection's schema, host, port and extra `endpoint`; a password, if
    there is one, is sent as ``Authorization: Bearer``. Sends once. An answer other than 2xx is
    an error, also a redirection: following it would not be a POST, and would send the password to
    another server. A repeated call sends again.

    :param conn_id: id of the Airflow connection
    :param payload: what to send, with templates in its values
    """

    template_fields: Sequence[str] = ("payload",)

    def __init__(self, conn_id: str, payload: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.conn_id = conn_id
        default = {"event": "{{ alert.event }}", "text": "{{ alert.title }}\n{{ alert.text }}"}
        self.payload = dict(payload or default)

    def notify(self, context: Context) -> None:
        """Send it; raises OSError where the server cannot be reached or refuses."""
        del context
        connection = BaseHook.get_connection(self.conn_id)
        port = f":{connection.port}" if connection.port else ""
        endpoint = str(connection.extra_dejson.get("endpoint", "")).lstrip("/")
        headers = {"Content-Type": "application/json"}
        if connection.password:
            headers["Authorization"] = f"Bearer {connection.password}"
        request = urllib.request.Request(  # noqa: S310 (an administrator names the place)
            f"{connection.schema or 'https'}://{connection.host}{port}/{endpoint}",
            json.dumps(self.payload).encode(),
            headers,
            method="POST",
        )
        with urllib.request.build_opener(_NoRedirection).open(request, timeout=TIMEOUT_S):
            pass


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirection, so that a redirection is an error."""

    def redirect_request(self, *_: Any) -> None:
        return None
