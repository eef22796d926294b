"""Airflow notifier for webhooks: send one HTTP POST of JSON."""

import importlib
import json
import logging
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier, Context

from mqdlq.airflow.links import airflow_address
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import Event, Notification
from mqdlq.reading.alerts import Alert
from mqdlq.reading.page_paths import Paths

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


# Send alerts through Airflow's notifiers.

log = logging.getLogger(__name__)


def notify(handler: Handler, alerts: Iterable[Alert], context: Context, run_id: str) -> list[Event]:
    """Call the handler's notifiers for each alert; return the events that all of them received.

    The notifiers' arguments are templates with the variable `alert`: event, title, text, handler,
    run_id, and the address where to go on, with which the text ends. If a notifier fails, the log
    has an ERROR, the other notifiers are still called, and the alert is sent again when the task
    runs again.
    """
    delivered = []
    for alert in alerts:
        failures = 0
        for notification in handler.alerts.notify:
            if notification.events and alert.event not in notification.events:
                continue
            try:
                _call(notification, alert, context, handler.name, run_id)
            except Exception:  # a notifier of any origin must not fail the run
                failures += 1
                log.exception(
                    "%s could not send the alert %s [MQDLQ-805]", notification.notifier, alert.event
                )
        log.info("alert %s: %s", alert.event, alert.title)
        if not failures:
            delivered.append(alert.event)
    return delivered


def notifier_class(path: str) -> type[BaseNotifier]:
    """Return a notifier's class; raises HandlerError if the class is not a notifier."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise HandlerError(
            "MQDLQ-308", f"alerts.notify: {path} cannot be imported: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise HandlerError(
            "MQDLQ-309", f"alerts.notify: {path} is not an Airflow notifier (BaseNotifier)"
        )
    return found


def _call(
    notification: Notification, alert: Alert, context: Context, handler: str, run_id: str
) -> None:
    notifier = notifier_class(notification.notifier)(**notification.arguments)
    paths, inbox = Paths(airflow_address()), {"handler": handler}
    is_asked = alert.event is Event.APPROVAL
    address = paths.run(handler, run_id) if is_asked else paths.inbox(inbox)
    known: dict[str, Any] = {
        "event": alert.event.value,
        "meaning": alert.event.meaning,
        "title": alert.title,
        # Without `[api] base_url` nobody could follow it.
        "text": f"{alert.text}\n{address}" if paths.airflow else alert.text,
        "address": address,
        "handler": handler,
        "run_id": run_id,
    }
    notifier({**context, "alert": known})
