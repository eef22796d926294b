"""Options that name a queue manager, a connection or the parameters of a run have an effect.

No queue manager answers and no Airflow starts: what is wrong is said before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app

REASON = "handler strict needs a reason for each run that a person starts"
NO_RULES = "none.rules: the rules table cannot be read"
BACKFILL = ("backfill", "strict", "--from", "2026-11-16", "--to", "2026-11-18")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a handler whose runs need a reason."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    # Nothing is prepared there should a command go on to Airflow.
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path}/no.db")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.rules").write_text("ACTION(IGNORE)\n")
    (tmp_path / "strict.yaml").write_text(
        "connection: mq_qm1\nrules: some.rules\nschedule: '@hourly'\nrequire_reason: true\n"
    )


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("command", ["preview", "explain"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--transport embedded", "MQCONN of queue manager QM9 failed"),
        ("--host mq1", "a client connection to queue manager 'QM9' needs host and channel"),
        ("--host mq1 --channel C --port 99999", "port 99999 is not valid"),
        ("--transport bindings --channel C", "'bindings' has no use for channel"),
        ("--transport bindings --ccdt-url file:///c", "'bindings' has no use for ccdt_url"),
        ("--host mq1 --channel C --user u", "login 'u' has no password"),
        ("--transport bindings --client mine", "unknown client 'mine'"),
    ],
)
def test_an_option_says_how_a_queue_manager_is_reached(
    command: str, options: str, text: str
) -> None:
    done = call(command, "--rules", "some.rules", "QM9", "DLQ", *options.split())

    assert text in done.output


def test_a_connection_has_each_setting_that_an_option_gives() -> None:
    settings = {
        "queue_manager": "QM1",
        "channel": "C",
        "hosts": "mq2(1416)",
        "tls_cipher_spec": "ANY_TLS12_OR_HIGHER",
        "key_repository": "/keys",
        "certificate_label": "ours",
        "client_user_id": "exit",
        "reconnect": "yes",
        "client": "ibmmq",
    }
    address = {"host": "mq1", "port": 1415, "user": "dlq"}

    assert printed(**settings, **address) == {
        "conn_type": "mqdlq",
        "host": "mq1",
        "port": 1415,
        "login": "dlq",
        "extra": settings,
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"ccdt_url": "file:///ccdt.json", "client": "ibmmq"},
        {"transport": "bindings"},
    ],
)
def test_a_connection_may_have_a_ccdt_or_no_network(settings: dict[str, str]) -> None:
    assert printed(queue_manager="QM1", **settings)["extra"] == {"queue_manager": "QM1", **settings}


def test_a_connection_takes_its_channel_from_a_ccdt(tmp_path: Path) -> None:
    connection = {"connection": [{"host": "mq1", "port": 1415}], "queueManager": "QM1"}
    channel = {"name": "C", "type": "clientConnection", "clientConnection": connection}
    (tmp_path / "ccdt.json").write_text(json.dumps({"channel": [channel]}))

    assert printed(queue_manager="QM1", ccdt="ccdt.json")["host"] == "mq1"


def printed(**given: Any) -> Any:
    def words() -> Iterator[str]:
        for name, value in given.items():
            yield from (f"--{name.replace('_', '-')}", str(value))

    return json.loads(call("connection", "add", "mq_one", *words(), "--print", "json").stdout)


NO_SWITCH = '{"until_fixed": 1, "rules": "none.rules"}'
"""A value that the option replaces."""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "strict"), REASON),
        (("run", "strict", "--conf", '{"dry_run": 1}'), "parameter dry_run: 1"),
        (("run", "strict", "--why", "x", "--conf", '{"rules": "none.rules"}'), NO_RULES),
        (BACKFILL, REASON),
        (("run", "strict", "--why", "x", "--where", "cause=1"), "where: cause_id: found '1'"),
        (("run", "strict", "--why", "x", "--as-of", "s1"), "as_of for a run with where"),
        (("run", "strict", "--why", "x", "--action", "ACTION(RETRY)"), "action needs message_keys"),
        (("run", "strict", "--why", "x", "--until-fixed", "--conf", NO_SWITCH), NO_RULES),
        ((*BACKFILL, "--why", "x", "--rules", "none.rules"), NO_RULES),
    ],
)
def test_a_wrong_parameter_is_named_before_a_run_starts(
    arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    done = call(*arguments)

    assert done.exit_code == 2
    assert text in done.output
    assert not (tmp_path / "state").exists()
