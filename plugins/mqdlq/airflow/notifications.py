"""Send alerts through Airflow's notifiers."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from typing import Any

from airflow.sdk import BaseNotifier, Context

from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.handlers.operation import Event, Notification
from mqdlq.stages.alerts import Alert

log = logging.getLogger(__name__)


def notify(handler: Handler, alerts: Iterable[Alert], context: Context, run_id: str) -> list[Event]:
    """Call the handler's notifiers for each alert; return the events that all of them received.

    The notifiers' arguments are templates with the variable `alert`: event, title, text, handler
    and run_id. If a notifier fails, the log has an ERROR, the other notifiers are still called, and
    the alert is sent again when the task runs again.
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
                    "%s could not send the alert %s [MQDLQ-805]",
                    notification.notifier,
                    alert.event,
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
    known: dict[str, Any] = {
        "event": alert.event.value,
        "meaning": alert.event.meaning,
        "title": alert.title,
        "text": alert.text,
        "handler": handler,
        "run_id": run_id,
    }
    notifier({**context, "alert": known})
