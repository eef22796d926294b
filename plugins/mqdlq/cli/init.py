"""The command `mqdlq init`: write the first files of a handler, and say which commands come next.

It uses the Airflow that AIRFLOW_HOME names, else that of ``mqdlq run``, which it keeps with all
other state in the directory ``var`` beside the files. Airflow never looks for DAGs there: ``mqdlq
run`` writes a second DAG file there, with the same DAG ids.
"""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdlq import directories
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.handlers import starter_files as starter
from mqdlq.local import demo, environment
from mqdlq.mqi import transports
from mqdlq.mqi.airflow_connections import (
    CONNECTION_TYPE,
    EXTRAS,
    AirflowConnection,
    check_id,
    define_connection,
    environment_connections,
)
from mqdlq.mqi.connect import ConnectionSettings, connect

DRY_RUN: Final = shlex.quote(json.dumps({"dry_run": True}))
SPARK: Final = (
    "airflow connections add spark_default --conn-type spark --conn-host 'local[*]'"
    ' --conn-extra \'{"deploy-mode": "client"}\''
)
EXAMPLE: Final = {"host": "mq.example.com", "channel": "DLQ.SVRCONN", "user": "dlq"}
UNDEFINED: Final = "MQDLQ-124"
"""The id of the error for a connection that is not defined."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The connection for the files, whether Airflow has it, and a sentence about the queue."""

    connection: AirflowConnection
    is_defined: bool
    queue: str


def init(
    directory: Path,
    *,
    connection: str = "",
    queue_manager: str = "",
    embedded: str = "",
    queue: str = "",
    handler: str = "",
) -> Iterator[str]:
    """Implement `mqdlq init`.

    Writes a handler with a rules table, a DAG file, an example of the connection, and an override
    for Docker Compose. The rules deliver messages whose queue was full or inhibited, and leave all
    other messages on the queue. The handler has no schedule, and in Airflow a person approves each
    plan. Prints the files and the next commands.

    The queue manager comes from --connection, from the only connection to one in the
    environment (AIRFLOW_CONN_*), or from --queue-manager. If it answers, it is asked for its
    dead-letter queue. An existing file with another text is an error, and nothing is written.

    Takes:
      DIRECTORY: Where the files are written; it is created if it is missing.
      --connection: The Airflow connection to the queue manager.
      --queue-manager: The queue manager, if no connection is defined yet.
      --embedded NAME: Create an embedded queue manager with dead letters to try mqdlq without IBM
        MQ.
      --queue: The queue, if it is not the queue manager's dead-letter queue.
      --handler: The handler's name; that of the queue manager unless given.

    For example:
      mqdlq init dlq --embedded QM5
    """
    environment.quieten_airflow()
    directory = directory.absolute()
    # The user's own Airflow, before this process selects another, with connections of its own.
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    dags = Path(os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or home / "dags").absolute()
    spark = (
        [] if "AIRFLOW_CONN_SPARK_DEFAULT" in os.environ else [f"{SPARK}  # unless it is defined"]
    )
    is_in_airflow = environment.names_airflow()
    exports = list(_set_home(directory, dags, keeps_home=is_in_airflow))
    if embedded:
        facts = _embedded(embedded, connection)
    else:
        facts = _of_connection(connection, queue_manager)
    name = handler or starter.name_for(str(facts.connection.extra["queue_manager"]))
    interval = 5 if embedded else 60
    files = starter.starter_files(directory, name, facts.connection, queue, interval)
    starter.check_new_files(files)
    if embedded:
        with _for_the_owner_alone():
            environment.store(facts.connection)
    written = starter.write_new_files(files)
    yield "Wrote:" if written else "All files exist already, with the same text:"
    yield from (f"  {directories.shown(path)}" for path in written or files)
    yield _fill(embedded) if embedded else facts.queue
    yield "Next:"
    commands = _next_commands(name, facts, directory, spark, dags if is_in_airflow else None)
    yield from (f"  {line}" for line in (*exports, *commands))
    if not is_in_airflow and starter.compose_file(directory) is None:
        yield "Or in your own Airflow:"
        commands = _in_own_airflow(name, facts, directory, spark=spark, home=home, dags=dags)
        yield from (f"  {line}" for line in (*exports, *commands))


def _link(directory: Path, dags: Path) -> Iterator[str]:
    """Yield the command that links the DAG file alone: the directory also has the state."""
    if not directory.is_relative_to(dags):
        file = starter.DAG_FILE
        yield shlex.join(["ln", "-s", str(directory / file), str(dags / file)])


def _set_home(directory: Path, dags: Path, *, keeps_home: bool) -> Iterator[str]:
    """Let the commands use the new files; yield the shell's lines that do the same."""
    settings = {}
    if not (keeps_home or "MQDLQ_HOME" in os.environ):
        is_scanned = directory.is_relative_to(dags)
        home = dags.with_name("mqdlq") if is_scanned else directory / starter.STATE
        settings["MQDLQ_HOME"] = str(home)
    if os.environ.get("MQDLQ_RULES_DIR") != str(directory / starter.HANDLERS):
        settings["MQDLQ_RULES_DIR"] = str(directory / starter.HANDLERS)
    os.environ.update(settings)
    if settings:
        yield "export " + " ".join(f"{name}={shlex.quote(v)}" for name, v in settings.items())


def _embedded(name: str, conn_id: str) -> Facts:
    directories.queue_managers()  # HomeError, before the provider meets an unusable MQDLQ_HOME
    with transports.embedded("mqdlq init --embedded") as queue_managers:
        if queue_managers.exists(name):
            raise ConnectionSettingsError(
                "MQDLQ-153", f"the embedded queue manager {name} already exists; give another name"
            )
    given = {"queue_manager": name, "transport": transports.EMBEDDED}
    defined = define_connection(conn_id or f"mq_{starter.name_for(name)}", given)
    return Facts(defined, is_defined=True, queue="")


@contextmanager
def _for_the_owner_alone() -> Iterator[None]:
    """Create files of state that only their owner can read, until the block ends."""
    umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(umask)


def _fill(name: str) -> str:
    with _for_the_owner_alone():
        demo.define(name)
        _, depth = demo.tell(ConnectionSettings(name, transport=transports.EMBEDDED))
    return f"Created the embedded queue manager {name}: its dead-letter queue has {depth} messages."


def _of_connection(conn_id: str, queue_manager: str) -> Facts:
    """Find the connection that is named, or the only one that the environment has for the name."""
    known = {found.conn_id: found for found in environment_connections(os.environ)}
    if conn_id:
        check_id(conn_id)
        return _of_known(conn_id, known, queue_manager)
    wanted = [
        name
        for name, found in known.items()
        if queue_manager in {"", str(found.extra.get("queue_manager"))}
    ]
    if len(wanted) == 1:
        return _of_known(wanted[0], known, queue_manager)
    if not queue_manager:
        raise ConnectionSettingsError(
            "MQDLQ-154",
            "no option names the queue manager, and the environment defines"
            f" {', '.join(known) or 'no connection to a queue manager'}; give --connection,"
            " --queue-manager or --embedded",
        )
    return _undefined(f"mq_{starter.name_for(queue_manager)}", queue_manager)


def _of_known(conn_id: str, known: Mapping[str, AirflowConnection], queue_manager: str) -> Facts:
    found = known.get(conn_id.lower())
    try:
        settings = found.settings() if found else environment.read_settings(conn_id)
    except ConnectionSettingsError as error:
        if error.error_id == UNDEFINED and queue_manager:
            return _undefined(conn_id, queue_manager)
        raise
    return Facts(_without_password(conn_id, settings), is_defined=True, queue=_queue_of(settings))


def _undefined(conn_id: str, queue_manager: str) -> Facts:
    # Address and user are examples.
    connection = define_connection(conn_id, {"queue_manager": queue_manager, **EXAMPLE})
    remark = f"The connection {connection.conn_id} is not defined: host, channel and user below"
    return Facts(connection, is_defined=False, queue=f"{remark} are examples.")


def _without_password(conn_id: str, settings: ConnectionSettings) -> AirflowConnection:
    extra = {key: getattr(settings, key) for key in EXTRAS} | {"hosts": ", ".join(settings.hosts)}
    kept = {
        key: value
        for key, value in extra.items()
        if value and (key, value) not in {("transport", "client"), ("reconnect", "no")}
    }
    port = settings.port if settings.host else 0
    return AirflowConnection(
        conn_id, CONNECTION_TYPE, kept, host=settings.host, port=port, login=settings.user
    )


def _queue_of(settings: ConnectionSettings) -> str:
    """Ask the queue manager for its dead-letter queue; return a sentence about it."""
    try:
        with connect(settings) as queue_manager:
            name = queue_manager.dead_letter_q_name()
            return f"The dead-letter queue of {settings.queue_manager} is {name}."
    except MqDlqError as error:
        return f"The dead-letter queue is not known yet: {error}"


def _next_commands(
    name: str, facts: Facts, directory: Path, spark: list[str], dags: Path | None
) -> Iterator[str]:
    connection, file = facts.connection, directory / starter.HANDLERS / f"{name}.yaml"
    if not facts.is_defined:
        yield starter.add_command(connection)
    if connection.extra.get("transport") != transports.EMBEDDED:
        yield f"mqdlq rules check {shlex.quote(directories.shown(file))}"
        yield f"mqdlq check {name}  # if the state queue is missing: DEFINE QLOCAL(MQDLQ.STATE)"
    if base := starter.compose_file(directory):
        folder = shlex.quote(str(directory))
        yield f"cd {folder} && docker compose -f {base.name} -f {starter.COMPOSE_FILE} up --detach"
    elif dags:
        yield from _link(directory, dags)
        yield from spark
        yield from _trigger(name)
    else:
        yield f"mqdlq run {name} --conf {DRY_RUN}  # reports, and moves no message"
        yield f"mqdlq run {name}"


def _in_own_airflow(
    name: str, facts: Facts, directory: Path, *, spark: list[str], home: Path, dags: Path
) -> Iterator[str]:
    """Yield the lines for a shell that names no Airflow yet, and for the Airflow's services."""
    yield f"export AIRFLOW_HOME={shlex.quote(str(home))} AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL=1"
    yield shlex.join(["mkdir", "-p", str(dags)])
    yield from _link(directory, dags)
    if facts.connection.variable not in os.environ:
        yield starter.add_command(facts.connection)
    yield from spark
    yield "airflow standalone  # or restart your services, in this shell; the rest in another one"
    yield from _trigger(name)


def _trigger(name: str) -> Iterator[str]:
    yield f"airflow dags unpause mq_dlq_{name}"
    yield f"airflow dags trigger mq_dlq_{name} --conf {DRY_RUN}  # reports, and moves no message"
