"""Test the options of `mqdlq connection add`, which start no Airflow if the connection is printed.

tests/airflow/local/test_connection_store.py stores connections.
"""

from __future__ import annotations

import secrets
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.mqi.airflow_connections import environment_connections

QM1 = ("--queue-manager", "QM1", "--mqserver", "DLQ.SVRCONN/TCP/mq1.example.com(1415)")
PASSWORD = secrets.token_hex(8)


def add(*arguments: str, given: Any = None) -> Result:
    return CliRunner().invoke(app, ["connection", "add", *arguments], input=given)


def failure(*arguments: str, given: Any = None) -> str:
    """Return the error's text; nothing was printed or stored."""
    done = add(*arguments, given=given)
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr.removeprefix("mqdlq: ").rstrip("\n")


def test_a_printed_export_defines_the_connection_in_a_shell() -> None:
    printed = add("mq_qm1", *QM1, "--print", "env")

    name, _, value = shlex.split(printed.stdout)[1].partition("=")
    (found,) = environment_connections({name: value})
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert found.conn_id == "mq_qm1"
    assert found.settings().queue_manager == "QM1"
    assert found.settings().connection_name == "mq1.example.com(1415)"


def test_a_printed_document_is_the_value_for_a_secrets_backend() -> None:
    done = add("mq-qm1", *QM1, "--user", "dlq", "--client", "ibmmq", "--print", "json")

    assert done.stdout == (
        '{"conn_type": "mqdlq", "host": "mq1.example.com", "port": 1415, "login": "dlq",'
        ' "extra": {"queue_manager": "QM1", "channel": "DLQ.SVRCONN", "client": "ibmmq"}}\n'
    )
    assert done.stderr == (
        'the password is not printed; add the key "password" where you keep the connection\n'
    )


def test_an_id_that_no_variable_can_have_is_not_exported() -> None:
    assert failure("mq-qm1", *QM1, "--print", "env") == (
        "connection id 'mq-qm1' cannot be part of a variable's name; use letters, digits and _"
        " only, or --print json [MQDLQ-148]"
    )


def test_options_are_checked_before_the_password_is_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")

    assert failure("mq", "--host", "mq1", "--password-file", missing) == (
        "connection 'mq' names no queue manager; give --queue-manager [MQDLQ-146]"
    )


def test_a_password_is_asked_for_in_a_terminal_only() -> None:
    assert failure("mq", *QM1, "--user", "dlq") == (
        "the password of 'dlq' is missing; give --password-file or --password-stdin, or run the"
        " command in a terminal, which asks for it [MQDLQ-151]"
    )


def test_a_password_has_one_source(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD, encoding="utf-8")

    assert (
        failure("mq", *QM1, "--user", "dlq", "--password-file", str(file), "--password-stdin")
        == "--password-file and --password-stdin both name the password; give one [MQDLQ-150]"
    )


def test_a_password_needs_a_user() -> None:
    assert failure("mq", *QM1, "--password-stdin", given=PASSWORD) == (
        "connection 'mq': a password is given without a login; give both, or neither [MQDLQ-105]"
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\xff\xfe", b"x" * 5000, f"{PASSWORD}\n{PASSWORD}\n".encode()],
    ids=["empty", "blank", "not UTF-8", "too long", "two lines"],
)
def test_a_password_is_one_line(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(data)
    user = ("--user", "dlq")
    end = "has no password; expected one line of UTF-8 text of up to 4096 bytes [MQDLQ-152]"

    assert failure("mq", *QM1, *user, "--password-stdin", given=data) == f"standard input {end}"
    assert failure("mq", *QM1, *user, "--password-file", str(file)) == (
        f"the password file {file} {end}"
    )


def test_a_password_file_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "none"
    done = add("mq", *QM1, "--user", "dlq", "--password-file", str(file))

    assert (done.exit_code, done.stderr) == (
        1,
        f"mqdlq: {file}: No such file or directory [MQDLQ-233]\n",
    )
