"""Write the first files of a handler, and say which commands come next.

``mqdlq init`` runs it as ``python -m mqdlq.local.starter OPTIONS``, with the options as JSON. It
uses the Airflow that AIRFLOW_HOME names, else that of ``mqdlq run``, which it keeps with all other
state in the directory ``var`` beside the files. Airflow never looks for DAGs there: ``mqdlq run``
writes a second DAG file there, with the same DAG ids.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import click

from mqdlq import directories
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.handlers.starter_files import (
    COMPOSE_FILE,
    DAG_FILE,
    HANDLERS,
    STATE,
    Starter,
    add_command,
    check_new_files,
    compose_file,
    name_for,
    starter_files,
    write_new_files,
)
from mqdlq.local import connection_store, demo
from mqdlq.local.environment import names_airflow
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
class Options:
    """The options of `mqdlq init`; an empty text is an option that was not given."""

    directory: str
    handler: str = ""
    connection: str = ""
    queue_manager: str = ""
    queue: str = ""
    embedded: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The connection for the files, whether Airflow has it, and a sentence about the queue."""

    connection: AirflowConnection
    is_defined: bool
    queue: str


@dataclass(frozen=True, slots=True)
class UsersAirflow:
    """The directory of the user's own Airflow, and the folder in which it looks for DAGs."""

    home: Path
    dags: Path

    @classmethod
    def of_environment(cls) -> Self:
        """Return them as the environment has them, else Airflow's defaults."""
        home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
        dags = Path(os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or home / "dags")
        return cls(home, dags.absolute())

    def link(self, directory: Path) -> Iterator[str]:
        """Yield the command that links the DAG file alone: the directory also has the state."""
        if not directory.is_relative_to(self.dags):
            yield shlex.join(["ln", "-s", str(directory / DAG_FILE), str(self.dags / DAG_FILE)])


def main() -> int:
    """Write the files that this process's argument describes, and return the exit code."""
    # Airflow's own remarks go to where the answer goes.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
    options = Options(**json.loads(sys.argv[1]))
    try:
        for line in start(options):
            click.echo(line)
    except MqDlqError as error:
        click.echo(f"mqdlq: {error}", err=True)
        return 1
    except OSError as error:
        click.echo(f"mqdlq: {directories.explain(error)}", err=True)
        return 1
    return 0


def start(options: Options) -> Iterator[str]:
    """Write the files, create the embedded queue manager if asked for; yield the lines to print.

    A second call with the same options writes nothing, and fails for an embedded queue manager.
    """
    directory = Path(options.directory).absolute()
    airflow = UsersAirflow.of_environment()  # before this process selects another one
    is_in_airflow = names_airflow()
    exports = list(_set_home(directory, airflow, keeps_home=is_in_airflow))
    facts = _embedded(options) if options.embedded else _of_connection(options)
    name = options.handler or name_for(str(facts.connection.extra["queue_manager"]))
    interval = 5 if options.embedded else 60
    starter = Starter(name, facts.connection, options.queue, interval)
    files = starter_files(starter, directory)
    check_new_files(files)
    if options.embedded:
        with _for_the_owner_alone():
            connection_store.store(facts.connection)
    written = write_new_files(files)
    yield "Wrote:" if written else "All files exist already, with the same text:"
    yield from (f"  {directories.shown(path)}" for path in written or files)
    yield _fill(options.embedded) if options.embedded else facts.queue
    yield "Next:"
    commands = _next_commands(name, facts, directory, airflow if is_in_airflow else None)
    yield from (f"  {line}" for line in (*exports, *commands))
    if not is_in_airflow and compose_file(directory) is None:
        yield "Or in your own Airflow:"
        yield from (
            f"  {line}" for line in (*exports, *_in_own_airflow(name, facts, directory, airflow))
        )


def _set_home(directory: Path, airflow: UsersAirflow, *, keeps_home: bool) -> Iterator[str]:
    """Let the commands use the new files; yield the shell's lines that do the same."""
    settings = {}
    if not (keeps_home or "MQDLQ_HOME" in os.environ):
        is_scanned = directory.is_relative_to(airflow.dags)
        home = airflow.dags.with_name("mqdlq") if is_scanned else directory / STATE
        settings["MQDLQ_HOME"] = str(home)
    if os.environ.get("MQDLQ_RULES_DIR") != str(directory / HANDLERS):
        settings["MQDLQ_RULES_DIR"] = str(directory / HANDLERS)
    os.environ.update(settings)
    if settings:
        yield "export " + " ".join(f"{name}={shlex.quote(v)}" for name, v in settings.items())


def _embedded(options: Options) -> Facts:
    name = options.embedded
    directories.queue_managers()  # HomeError, before the provider meets an unusable MQDLQ_HOME
    with transports.embedded("mqdlq init --embedded") as queue_managers:
        if queue_managers.exists(name):
            raise ConnectionSettingsError(
                "MQDLQ-153",
                f"the embedded queue manager {name} already exists; give another name",
            )
    given = {"queue_manager": name, "transport": transports.EMBEDDED}
    return Facts(define_connection(_id_for(options, name), given), is_defined=True, queue="")


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


def _of_connection(options: Options) -> Facts:
    """Find the connection that is named, or the only one that the environment has for the name."""
    known = {found.conn_id: found for found in environment_connections(os.environ)}
    if options.connection:
        check_id(options.connection)
        return _of_known(options.connection, known, options)
    wanted = [
        conn_id
        for conn_id, found in known.items()
        if options.queue_manager in {"", str(found.extra.get("queue_manager"))}
    ]
    if len(wanted) == 1:
        return _of_known(wanted[0], known, options)
    if not options.queue_manager:
        raise ConnectionSettingsError(
            "MQDLQ-154",
            "no option names the queue manager, and the environment defines"
            f" {', '.join(known) or 'no connection of type ibmmq'}; give --connection,"
            " --queue-manager or --embedded",
        )
    return _undefined(options)


def _of_known(conn_id: str, known: Mapping[str, AirflowConnection], options: Options) -> Facts:
    found = known.get(conn_id.lower())
    try:
        settings = found.settings() if found else connection_store.read_settings(conn_id)
    except ConnectionSettingsError as error:
        if error.error_id == UNDEFINED and options.queue_manager:
            return _undefined(options)
        raise
    return Facts(_without_password(conn_id, settings), is_defined=True, queue=_queue_of(settings))


def _undefined(options: Options) -> Facts:
    """Return a connection whose address and user are examples."""
    name = options.queue_manager
    connection = define_connection(_id_for(options, name), {"queue_manager": name, **EXAMPLE})
    remark = f"The connection {connection.conn_id} is not defined: host, channel and user below"
    return Facts(connection, is_defined=False, queue=f"{remark} are examples.")


def _id_for(options: Options, queue_manager: str) -> str:
    return options.connection or f"mq_{name_for(queue_manager)}"


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
    name: str, facts: Facts, directory: Path, airflow: UsersAirflow | None
) -> Iterator[str]:
    connection, file = facts.connection, directory / HANDLERS / f"{name}.yaml"
    if not facts.is_defined:
        yield add_command(connection)
    if connection.extra.get("transport") != transports.EMBEDDED:
        yield f"mqdlq rules check {shlex.quote(directories.shown(file))}"
        yield f"mqdlq check {name}  # if the state queue is missing: DEFINE QLOCAL(MQDLQ.STATE)"
    if base := compose_file(directory):
        folder = shlex.quote(str(directory))
        yield f"cd {folder} && docker compose -f {base.name} -f {COMPOSE_FILE} up --detach"
    elif airflow:
        yield from airflow.link(directory)
        yield from _spark_connection()
        yield from _trigger(name)
    else:
        yield f"mqdlq run {name} --conf {DRY_RUN}  # reports, and moves no message"
        yield f"mqdlq run {name}"


def _in_own_airflow(
    name: str, facts: Facts, directory: Path, airflow: UsersAirflow
) -> Iterator[str]:
    """Yield the lines for a shell that names no Airflow yet, and for the Airflow's services."""
    home = shlex.quote(str(airflow.home))
    yield f"export AIRFLOW_HOME={home} AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL=1"
    yield shlex.join(["mkdir", "-p", str(airflow.dags)])
    yield from airflow.link(directory)
    if facts.connection.variable not in os.environ:
        yield add_command(facts.connection)
    yield from _spark_connection()
    yield "airflow standalone  # or restart your services, in this shell; the rest in another one"
    yield from _trigger(name)


def _spark_connection() -> Iterator[str]:
    if "AIRFLOW_CONN_SPARK_DEFAULT" not in os.environ:
        yield f"{SPARK}  # unless it is defined"


def _trigger(name: str) -> Iterator[str]:
    yield f"airflow dags unpause mq_dlq_{name}"
    yield f"airflow dags trigger mq_dlq_{name} --conf {DRY_RUN}  # reports, and moves no message"


if __name__ == "__main__":
    sys.exit(main())
