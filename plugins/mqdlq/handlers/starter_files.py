"""Write the first files of a handler: its YAML, rules table, DAG file, and deployment examples."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mqdlq.errors import HandlerError
from mqdlq.handlers.configuration import name_fault
from mqdlq.mqi.airflow_connections import AirflowConnection

DAG_FILE: Final = "mq_dlq.py"
HANDLERS: Final = "handlers"
"""The subdirectory of handlers and rules tables."""
STATE: Final = "var"
"""The subdirectory of state, unless MQDLQ_HOME names another: Airflow looks for no DAGs there."""
COMPOSE_FILE: Final = "docker-compose.mqdlq.yaml"
COMPOSE_FILES: Final = (
    *("compose.yaml", "compose.yml"),
    *("docker-compose.yaml", "docker-compose.yml"),
)
"""The names that Docker Compose looks for, in this order."""
AIRFLOW_SERVICES: Final = (
    *("airflow-apiserver", "airflow-scheduler", "airflow-dag-processor"),
    *("airflow-worker", "airflow-triggerer", "airflow-init"),
)
"""The services of the compose file in Airflow's documentation (Running Airflow in Docker)."""
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_TEMPLATES: Final = Path(__file__).with_name("starter")


def name_for(queue_manager: str) -> str:
    """Return the name of a handler for a queue manager, such as `pay_qm1` for PAY.QM1."""
    return re.sub(r"\W", "_", queue_manager.lower(), flags=re.ASCII)


def add_command(connection: AirflowConnection) -> str:
    """Return the command that defines the connection, as a shell's text."""
    given = {**connection.extra, "host": connection.host, "user": connection.login}
    if connection.port:
        given["port"] = str(connection.port)
    options = [
        word
        for key, value in given.items()
        if value
        for word in (f"--{key.replace('_', '-')}", str(value))
    ]
    return shlex.join(["mqdlq", "connection", "add", connection.conn_id, *options])


def compose_file(directory: Path) -> Path | None:
    return next((file for name in COMPOSE_FILES if (file := directory / name).is_file()), None)


def starter_files(
    directory: Path,
    handler: str,
    connection: AirflowConnection,
    queue: str = "",
    retry_interval: int = 60,
) -> dict[Path, str]:
    """Return the texts of the files by their paths in `directory`; nothing is written.

    `queue` is the handled queue if it is not the queue manager's dead-letter queue, and
    `retry_interval` RETRYINT, in seconds. If the directory has a compose file, the override is for
    its Airflow services. Raises HandlerError for an invalid name, and for a compose file that
    cannot be read.
    """
    if fault := name_fault(handler):
        raise HandlerError("MQDLQ-320", f"{handler!r}: {fault}; give --handler")
    if queue and not QUEUE_NAME.fullmatch(queue):
        raise HandlerError(
            "MQDLQ-324",
            f"{queue!r} is not the name of a queue; use up to 48 letters, digits and . _ / %",
        )
    base = compose_file(directory)
    document = yaml.safe_dump(connection.document(), sort_keys=False)
    facts = {
        "handler": handler,
        "connection": connection.conn_id,
        "queue": queue,
        "state": STATE,
        "retry_interval": retry_interval,
        "add": add_command(connection),
        "document": "".join(f"  {line}\n" for line in document.splitlines()).rstrip("\n"),
        "base": base.name if base else "docker-compose.yaml",
        "services": _airflow_services(base) if base else AIRFLOW_SERVICES,
    }
    templates = {
        directory / HANDLERS / f"{handler}.yaml": "handler.yaml.j2",
        directory / HANDLERS / f"{handler}.rules": "table.rules.j2",
        directory / DAG_FILE: "mq_dlq.py.j2",
        directory / ".airflowignore": "airflowignore.j2",
        directory / f"{handler}.connections.yaml": "connections.yaml.j2",
        directory / COMPOSE_FILE: "docker-compose.mqdlq.yaml.j2",
    }
    loaded = Environment(  # noqa: S701 (text files, no HTML)
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return {path: loaded.get_template(name).render(facts) for path, name in templates.items()}


def write_new_files(files: Mapping[Path, str]) -> list[Path]:
    """Write files, and return the written ones; a file with the same text already is kept.

    Raises HandlerError, before anything is written, if a file has another text.
    """
    check_new_files(files)
    new = [path for path in files if not path.exists()]
    for path in new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    return new


def check_new_files(files: Mapping[Path, str]) -> None:
    """Raise HandlerError if a file exists and has another text."""
    others = [
        str(path)
        for path, text in files.items()
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode())
    ]
    if others:
        raise HandlerError(
            "MQDLQ-321",
            f"nothing is written, because these files exist: {', '.join(others)}; remove or rename"
            " them, or give another directory or --handler",
        )


def _airflow_services(file: Path) -> tuple[str, ...]:
    """Return the services that set a variable of Airflow, or run an image with that name."""
    try:
        services: Mapping[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
        found = tuple(name for name, keys in services.items() if _is_airflow(keys or {}))
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise HandlerError(
            "MQDLQ-322", f"{file} is not a compose file: {type(error).__name__}; correct it"
        ) from None
    if not found:
        raise HandlerError(
            "MQDLQ-323",
            f"{file} has no service of Airflow: none sets a variable AIRFLOW__…; give another"
            " directory",
        )
    return found


def _is_airflow(service: Mapping[str, Any]) -> bool:
    names = service.get("environment") or ()
    return any(str(name).startswith("AIRFLOW__") for name in names)
