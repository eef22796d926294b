"""Write docs/reference/handler.md from the models of a handler's YAML file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from mqdlq.controls.evidence import Evidence
from mqdlq.controls.limits import DestinationLimits, Limits
from mqdlq.controls.limits.windows import ClosedWindow
from mqdlq.controls.loops import Loops
from mqdlq.controls.ramp import Breaker, Ramp
from mqdlq.controls.sequences import Sequences
from mqdlq.controls.settings import Controls
from mqdlq.handlers import Handler
from mqdlq.handlers.configuration import KEYS
from mqdlq.handlers.operation import Alerts, ApprovalGuards, Event, Notification, Operation
from tests.support.docs.tables import table

_HEAD = """\
# Handler configuration

A handler is a YAML file in the rules directory (`include/rules/`, or `MQDLQ_RULES_DIR`). The name
of the file without `.yaml` is the name of the handler; the names `history` and `restore` are taken.
`mqdlq rules check include/rules` checks handlers and their rules tables without a connection.

```yaml
connection: mq_production
rules: payments.rules
schedule: event
```

An unknown key or a wrong value is an error that names its line and column. A duration is ISO 8601
(`PT2H`, `P1D`), or a number of seconds.

## Keys

"""
_APPROVAL = """
## Approval

All guards are off by default. When a guard triggers, the run waits at the task `approve` with a
summary of the plan, and a person approves or rejects it in Airflow, under Required Actions.

```yaml
approval:
  discard: yes
  messages: 100
  new_cause: yes
  changed_rules: yes
  new_target: yes
  second_person: [discard]
  timeout: PT12H
```

While a plan waits, scheduled runs have no work in its messages. When another message arrives, the
next run asks about all of them. A rejected run changes nothing. `mqdlq run` never asks: starting it
is the approval.

"""
_ALERTS = """
## Alerts

Any notifier of Airflow can send an alert. `mqdlq.airflow.notifications.WebhookNotifier` posts it to
the address of an Airflow connection.

```yaml
alerts:
  growth: 100
  oldest_age: P1D
  notify:
    - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
      events: [failed, unaccounted, unprocessable, exhausted, recovery]
      arguments: {to: ops@example.com, from_email: mq@example.com,
                  subject: "{{ alert.title }}", html_content: "<pre>{{ alert.text }}</pre>"}
    - notifier: mqdlq.airflow.notifications.WebhookNotifier
      arguments: {conn_id: chat}
```

"""
_NOTIFICATIONS = """
Each item of `notify` has these keys:

"""
_EVENTS = """
The [runbook](../how-to/runbook.md) has an entry for each event:

"""

_EVIDENCE = """
## Evidence

The queue manager's records about the queue wake a handler up, and add hints to reports. [They never
decide](../how-to/watch-by-events.md): no outcome depends on them.

```yaml
evidence:
  depth_events: SYSTEM.ADMIN.PERFM.EVENT
  stream: yes
  statistics: SYSTEM.ADMIN.STATISTICS.QUEUE
```

"""
_CONTROLS = """
## Controls

Controls hold messages back that a rule would move. A held message stays on the queue; its outcome
is `not_attempted`, with the reason, and a later run tries it. A run keeps the controls that the
handler had at its start.
"""
_LIMITS = """
### Limits

Without a limit, a run moves messages as fast as the queue manager takes them. [Limit
rates](../how-to/limit-rates.md) says how limits are shared by runs, and how a run waits.

```yaml
limits:
  messages_per_run: 10000
  messages_per_second: 200
  queue_manager: {messages_per_second: 500, burst: 100}
  destinations:
    - queue: ORDERS.*
      messages_per_second: 50
      in_flight: 5000
      closed:
        - {cron: "0 22 * * *", for: PT8H, time_zone: Europe/Berlin}
```

"""
_DESTINATIONS = """
### Destinations

Each item of `limits: destinations` has these keys. It needs at least one limit.

"""
_WINDOWS = """
### Windows

Each item of `closed` has these keys:

"""
_LOOPS = """
### Loops

A message that a run has moved may come back to the dead-letter queue. With `loops`, runs [recognise
such a message](../how-to/loops.md) and quarantine it after a number of round trips: no rule moves
or discards it, and its outcome is `quarantined`.

```yaml
loops:
  limit: 3
  then:
    forward: ORDERS.QUARANTINE
```

"""
_RAMP = """
### Ramp

A ramp [moves the messages of a cause in steps](../how-to/ramp.md) to each target, and watches the
target before the next step. It always has a breaker, with the defaults below.

```yaml
ramp:
  steps: [1, 10, 100]
  watch: PT1M
```

"""
_BREAKER = """
### Breaker

A breaker holds the messages of a cause for a target after some of them came back or their puts
failed. It [works with a ramp](../how-to/ramp.md#when-the-breaker-opens-and-closes) or without.

```yaml
breaker:
  returns: 1
  failures: 5
  pause: PT10M
```

"""
_SEQUENCES = """
### Sequences

With `sequences`, the messages of a group move together, and messages [wait behind an earlier
one](../how-to/keep-order.md) that has the same key.

```yaml
sequences:
  groups: all_or_nothing
  key: MQMD.CorrelId
```

"""

_NAMES = {
    "boolean": "`yes`, `no`",
    "duration": "duration",
    "number": "number",
    "object": "mapping",
    "string": "text",
}
"""The types of a JSON schema, by format or else by type."""


def document() -> str:
    """Return the page."""
    events = ((f"`{event}`", event.meaning, "yes" if event.lasts else "no") for event in Event)
    return "".join(
        (
            _HEAD,
            _keys(Handler, KEYS),
            _APPROVAL,
            _keys(ApprovalGuards),
            _ALERTS,
            _keys(Alerts),
            _NOTIFICATIONS,
            _keys(Notification),
            _EVENTS,
            table(("event", "meaning", "followed by `recovery`"), events),
            _EVIDENCE,
            _keys(Evidence),
            _CONTROLS,
            _LIMITS,
            _keys(Limits),
            _DESTINATIONS,
            _keys(DestinationLimits),
            _WINDOWS,
            _keys(ClosedWindow),
            _LOOPS,
            _keys(Loops),
            _RAMP,
            _keys(Ramp),
            _BREAKER,
            _keys(Breaker),
            _SEQUENCES,
            _keys(Sequences),
        )
    )


def _keys(model: type[BaseModel], names: Collection[str] = ()) -> str:
    schema = model.model_json_schema()
    keys = {name: key for name, key in schema["properties"].items() if not names or name in names}
    rows = (
        (
            f"`{name}`",
            _type(key, schema.get("$defs", {})),
            "required" if name in schema.get("required", ()) else _default(key),
            key["description"],
        )
        for name, key in sorted(keys.items(), key=lambda item: _place(item[0]))
    )
    return table(("key", "type", "default", "meaning"), rows)


def _place(name: str) -> int:
    return 1 if name in Operation.model_fields else 2 if name in Controls.model_fields else 0


def _type(key: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return the type of a key in words, from its JSON schema."""
    match key:
        case {"anyOf": [kind, {"type": "null"}]}:
            text = _type(kind, others)
        case {"$ref": reference}:
            text = _type(others[reference.rpartition("/")[2]], others)
        case {"enum": values}:
            text = ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "items": items}:
            text = f"list: {_type(items, others)}"
        case {"type": "integer"}:
            text = f"integer{_range(key)}"
        case _:
            text = _NAMES[key.get("format") or key["type"]]
    return text


def _range(key: Mapping[str, Any]) -> str:
    least, most = key.get("minimum"), key.get("maximum")
    return f", {least} to {most}" if most is not None else f", {least} or more"


def _default(key: Mapping[str, Any]) -> str:
    match key.get("default"):
        case None | [] | {}:
            return "unset"
        case bool() as value:
            return f"`{'yes' if value else 'no'}`"
        case str() | int() as value:
            return f"`{value}`"
        case list() as values:
            return f"`{values}`"
    return "see below"
