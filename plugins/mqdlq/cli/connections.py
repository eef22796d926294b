"""The commands `mqdlq connection …`: define and test Airflow connections to queue managers."""

import dataclasses
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import click

from mqdlq import directories
from mqdlq.cli.output import refusing
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.handlers import Handler
from mqdlq.local import environment
from mqdlq.mqi import permissions
from mqdlq.mqi.airflow_connections import AirflowConnection, define_connection

LONGEST_PASSWORD: Final = 4096
"""In bytes: far more than MQ takes (MQ_CSP_PASSWORD_LENGTH)."""
STATE_QUEUE: Final = str(Handler.model_fields["state_queue"].default)
_REMARK: Final = 'the password is not printed; add the key "password" where you keep the connection'


Id = Annotated[str, "ID: The connection's id, such as mq_qm1."]


ConnectionId = Annotated[
    str,
    "CONNECTION: The id of an Airflow connection of type mqdlq or ibmmq: of the environment"
    " (AIRFLOW_CONN_*), or of this Airflow.",
]
"""The connection that a command uses."""


def add(
    conn_id: Id,
    *,
    queue_manager: str = "",
    host: str = "",
    port: int | None = None,
    hosts: str = "",
    channel: str = "",
    mqserver: str = "",
    ccdt: Path | None = None,
    ccdt_url: str = "",
    user: str = "",
    password_file: Path | None = None,
    password_stdin: bool = False,
    tls_cipher_spec: str = "",
    key_repository: str = "",
    certificate_label: str = "",
    client_user_id: str = "",
    reconnect: str = "",
    client: str = "",
    transport: str = "",
    replace: bool = False,
    form: Literal["env", "json"] | None = None,
) -> None:
    """Implement `mqdlq connection add`.

    Stores the connection in the metadata database of the Airflow that AIRFLOW_HOME names; without
    AIRFLOW_HOME, in that of the Airflow that `mqdlq run` uses. Airflow encrypts the password.

    Give --host and --channel, or --mqserver, or --ccdt. If the table of --ccdt has several
    channels, --queue-manager and --channel choose one. An MQ server on this machine needs
    --transport bindings only.

    The command does not connect; `mqdlq connection test` does. Exit code 0 if the connection is
    stored or printed, 1 if it cannot be stored, 2 if the options are not valid.

    Takes:
      --queue-manager: The queue manager's name.
      --host: The listener's address.
      --port: The listener's port; 1414 unless given.
      --hosts: Further addresses of the same queue manager: 'mq2.example.com(1415),
        mq3.example.com'.
      --channel: The server-connection channel.
      --mqserver: Channel and addresses as in the variable MQSERVER:
        'DLQ.SVRCONN/TCP/mq1.example.com(1414)'.
      --ccdt: A client channel definition table in JSON; the connection copies a channel of it.
      --ccdt-url: The URL of a client channel definition table, in JSON or binary, that IBM's client
        reads whenever it connects; needs --client ibmmq.
      --user: The user id. Its password is asked for, unless an option names it.
      --password-file: A file that has the password as its only line.
      --password-stdin: Read the password from standard input.
      --tls-cipher-spec: The channel's CipherSpec, such as ANY_TLS12_OR_HIGHER.
      --key-repository: Path of the key repository on the machines that connect.
      --certificate-label: Label of the client's certificate in the key repository.
      --client-user-id: A user id for the channel's exits; it authenticates nobody.
      --reconnect: Whether sensing may reconnect by itself: no, yes or queue_manager.
      --client: The Python library: pymqi or ibmmq.
      --transport: client (TCP), bindings or embedded; client unless given.
      --replace: Replace the connection that has this id.
      --print: Print the connection without its password, and store nothing: env for a shell, json
        for a secrets backend.

    For example:
      mqdlq connection add mq_qm1 --queue-manager QM1 --mqserver 'DLQ.SVRCONN/TCP/mq1(1414)'
      mqdlq connection add mq_qm2 --queue-manager QM2 --transport bindings --print env
    """
    options = {
        "queue_manager": queue_manager,
        "host": host,
        "port": port or 0,
        "hosts": hosts,
        "channel": channel,
        "ccdt_url": ccdt_url,
        "user": user,
        "tls_cipher_spec": tls_cipher_spec,
        "key_repository": key_repository,
        "certificate_label": certificate_label,
        "client_user_id": client_user_id,
        "reconnect": reconnect,
        "client": client,
        "transport": transport,
    }
    with refusing(ConnectionSettingsError):
        defined = define_connection(conn_id, options, mqserver=mqserver, ccdt=ccdt)
        if form is not None:
            click.echo(_printed(defined, form))
            if defined.login:
                click.echo(_REMARK, err=True)
            return
        password = _password(defined, password_file, from_stdin=password_stdin)
        whole = dataclasses.replace(defined, password=password)
        whole.settings()
    _prepare()
    is_encrypted = environment.store(whole, replace=replace)
    home = os.environ.get("AIRFLOW_HOME", "")
    click.echo(
        f"connection {conn_id} is stored in the Airflow of"
        f" {directories.shown(home) if home else 'this environment'}"
    )
    if password and not is_encrypted:
        click.echo(
            "warning: the password is stored in plain text, because this Airflow has no"
            " [core] fernet_key [MQDLQ-841]",
            err=True,
        )
    if whole.variable in os.environ:
        click.echo(
            f"warning: {whole.variable} in this environment defines the same connection, and"
            " Airflow prefers it [MQDLQ-842]",
            err=True,
        )
    click.echo(f"test it: mqdlq connection test {conn_id}")


def test(conn_id: Id) -> None:
    """Implement `mqdlq connection test`.

    Connects as a task does, and reports stage by stage which authority the connection's user lacks
    on the queue manager, its dead-letter queue (DEADQ) and the state queue MQDLQ.STATE. `mqdlq
    check` does the same for a handler and the queues that its rules name. No message is browsed,
    got or put.

    Exit code 0 if a run could sense the queue; 1 if not; 2 if the connection is not defined or not
    valid.

    For example:
      mqdlq connection test mq_demo
    """
    _prepare()
    with refusing(MqDlqError):
        connection = environment.read_connection(conn_id)
        is_usable, text = permissions.check_connection(connection.settings(), STATE_QUEUE)
    click.echo("\n".join(filter(None, (text, connection.remark))))
    raise SystemExit(int(not is_usable))


def _prepare() -> None:
    os.umask(0o077)  # our own Airflow's metadata are for their owner alone
    environment.quieten_airflow()


def _printed(defined: AirflowConnection, form: str) -> str:
    document = json.dumps(defined.document())
    if form == "env" and not defined.variable.isidentifier():
        raise ConnectionSettingsError(
            "MQDLQ-148",
            f"connection id {defined.conn_id!r} cannot be part of a variable's name; use letters,"
            " digits and _ only, or --print json",
        )
    return f"export {defined.variable}={shlex.quote(document)}" if form == "env" else document


def _password(defined: AirflowConnection, file: Path | None, *, from_stdin: bool) -> str:
    """Return the password from where the options say, or from the terminal; "" without a user."""
    if file and from_stdin:
        raise ConnectionSettingsError(
            "MQDLQ-150", "--password-file and --password-stdin both name the password; give one"
        )
    if file:
        return _only_line(file.read_bytes(), f"the password file {file}")
    if from_stdin:
        return _only_line(sys.stdin.buffer.read(), "standard input")
    if not defined.login or defined.extra.get("transport", "client") != "client":
        return ""
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {defined.login}", hide_input=True))
    raise ConnectionSettingsError(
        "MQDLQ-151",
        f"the password of {defined.login!r} is missing; give --password-file or --password-stdin,"
        " or run the command in a terminal, which asks for it",
    )


def _only_line(data: bytes, source: str) -> str:
    try:
        (line,) = data.decode().splitlines()
    except ValueError:
        line = ""
    if not line or len(data) > LONGEST_PASSWORD:
        raise ConnectionSettingsError(
            "MQDLQ-152",
            f"{source} has no password; expected one line of UTF-8 text of up to"
            f" {LONGEST_PASSWORD} bytes",
        )
    return line
