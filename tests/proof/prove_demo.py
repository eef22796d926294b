"""A DAG run handles the demo's dead letters on the given queue manager, as a user starts it.

``make prove`` runs it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mqdlq.mqi.connect import ConnectionSettings
from tests.e2e.test_demo import DLQ, MQDLQ, STORY, assert_the_story_came_true, call, outcomes
from tests.proof.queue_managers import GivenWorld
from tests.support.paths import ROOT
from tests.unit.deploy.test_authorities import STATE, TARGETS


def test_every_message_of_the_demo_is_where_its_rule_sends_it(
    world: GivenWorld, tmp_path: Path
) -> None:
    home = Path(os.environ["MQDLQ_HOME"])  # an embedded queue manager is there, too
    world.clear(DLQ, STATE, *TARGETS)
    settings = tmp_path / "settings.json"
    settings.touch(mode=0o600)
    settings.write_text(json.dumps(asdict(world.settings)), encoding="utf-8")
    filled = call(home, sys.executable, "-m", "mqdlq.local.demo", "--settings", str(settings))
    assert filled.returncode == 0, filled.stdout + filled.stderr
    before = browse(world, DLQ)

    connection = json.dumps(_connection(world.settings))
    handlers = str(ROOT / "include" / "rules")  # which an installed wheel does not have
    given = {"AIRFLOW_CONN_MQ_DEMO": connection, "MQDLQ_RULES_DIR": handlers}
    ended = call(home, MQDLQ, "run", "demo", **given)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert_the_story_came_true(before, lambda queue: browse(world, queue))
    assert outcomes(home) == STORY


def _connection(settings: ConnectionSettings) -> dict[str, Any]:
    keys = {name: value for name, value in asdict(settings).items() if value}
    own = {"host": "host", "port": "port", "login": "user", "password": "password"}
    if settings.transport == "embedded":
        del keys["port"]
    found = {name: keys.pop(key) for name, key in own.items() if key in keys}
    return {"conn_type": "ibmmq", **found, "extra": keys}


def browse(world: GivenWorld, queue: str) -> list[dict[str, Any]]:
    """Return the messages on a queue: MQMD fields under IBM's names, and the body as hex."""
    return [
        {
            **{name: _value(value) for name, value in descriptor.get().items()},
            "body": body.hex(),
        }
        for descriptor, body in world.messages(queue)
    ]


def _value(value: Any) -> Any:
    return value.decode("latin-1").rstrip(" \0") if isinstance(value, bytes) else value
