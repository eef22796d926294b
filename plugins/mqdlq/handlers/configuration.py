"""The configuration of a handler: one YAML file in the rules directory, its stem the name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from mqdlq import directories
from mqdlq.errors import HandlerError
from mqdlq.handlers.documents import Document, Node, Reader, read_document
from mqdlq.handlers.operation import Operation
from mqdlq.handlers.tables import check_node, read_levels
from mqdlq.rules import RulesError, Severity, print_table
from mqdlq.rules.diagnostics import Place, Report
from mqdlq.rules.lint import Level, promote, review

QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")]


class Handler(Operation):
    """What the handler of one dead-letter queue needs to know; how it is run is in `Operation`.

    `connection` is an Airflow connection id, `rules` a rules table beside the YAML file, `table`
    the canonical text of one that stands in the YAML file itself; a handler has one of them.
    `attempts` says whether attempts are counted per run or carried on from run to run,
    `nul_as_blank` whether NULs in a message's text fields are compared as blanks, `lint` how
    seriously a finding of that code is taken. `hold_while_blocked` keeps a message's attempts
    while its destination is full or inhibited, `deliver_truncated` delivers what may have been
    cut to fit the queue. `explain` has a plan name for each message the rule that won, or the
    nearest one where none matches. `messages_in_a_unit` bounds a unit of work per destination,
    `max_plan_age` is how old a snapshot may be when its plan is accepted, and `max_run_time` when
    retrying ends. `payload` is what snapshots keep of the bodies ("none", "full", or "head: N" for
    the first N bytes), `payload_key` the Airflow connection with the key that encrypts it.
    `full_snapshot_every` is how often messages that are settled are read in full all the same,
    `keep_snapshots` and `keep_snapshots_for` how many snapshots are kept, and how long.
    """

    name: str
    directory: Path
    connection: str
    rules: str | None = None
    table: str | None = None
    state_queue: QueueName = "MQDLQ.STATE"
    attempts: Literal["run", "ledger"] = "run"
    nul_as_blank: bool = False
    hold_while_blocked: bool = False
    deliver_truncated: bool = False
    explain: bool = False
    messages_in_a_unit: Annotated[int, Field(ge=1, le=10_000)] = 128
    max_plan_age: timedelta = timedelta(days=1)
    max_run_time: timedelta = timedelta(hours=1)
    payload: Annotated[str, Field(pattern=r"^(none|full|head: [1-9][0-9]{0,8})$")] = "none"
    payload_key: str | None = None
    full_snapshot_every: timedelta = timedelta(days=1)
    keep_snapshots: Annotated[int, Field(ge=1)] | None = None
    keep_snapshots_for: timedelta | None = None
    lint: Mapping[str, Level] = {}

    @field_validator("payload", mode="before")
    @classmethod
    def _head_is_a_mapping(cls, value: Any) -> Any:
        """Take `payload: {head: 64}` for the text it stands for."""
        if isinstance(value, Mapping) and list(value) == ["head"]:
            return f"head: {value['head']}"
        return value

    @model_validator(mode="after")
    def _has_a_use_for_its_key(self) -> Self:
        if self.payload_key is not None and self.payload == "none":
            raise ValueError("'payload_key' encrypts what 'payload' captures, which is none")
        return self

    @model_validator(mode="after")
    def _has_a_plan_to_carry_out_when_it_is_approved(self) -> Self:
        asks = self.approval.model_dump(exclude={"within"}, exclude_defaults=True)
        if asks and self.approval.within >= self.max_plan_age:
            raise ValueError(
                f"approval: an answer within {self.approval.within} may come when the plan is too"
                f" old to be carried out: max_plan_age, {self.max_plan_age}, must be longer"
            )
        return self

    @model_validator(mode="after")
    def _has_one_table(self) -> Self:
        if self.rules is None and self.table is None:
            raise ValueError("a handler needs 'rules', a file beside it, or 'table', its rules")
        if self.rules is not None and self.table is not None:
            raise ValueError("a handler has 'rules' or 'table', not both")
        return self

    def rules_text(self, override: str | None = None) -> tuple[str, str]:
        """Return the name and the text of the rules table, or of another file for one run.

        A table that stands in the YAML file is given as its canonical print. Raises HandlerError
        where the file cannot be read, and RulesError where it has what `lint` makes an error of.
        """
        if self.table is not None and not override:
            return f"{self.directory / self.name}.yaml, as printed", self.table
        path = self.directory / str(override or self.rules)
        text = _text(path)
        found = promote(review(text, str(path)).diagnostics, self.lint)
        if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
            raise RulesError(found)
        return str(path), text


_NOT_KEYS: Final = ("name", "directory")
_READ_HERE: Final = ("lint", "table")
OF_OTHER_DAGS: Final = ("history", "restore")
"""What no handler may be called: its DAG would have the id of one of the project's own."""
LONGEST_NAME: Final = 100
"""Characters: the ledger's column takes so many, and a DAG whose id is too long takes all DAGs of
its file out of use."""
_EXAMPLE: Final = "'connection:' and 'rules:'"
_KEYS: Final = {key: key for key in Handler.model_fields if key not in _NOT_KEYS}


def handler_names(directory: Path | None = None) -> list[str]:
    """Return the names of all handlers configured in the rules directory, sorted."""
    return sorted(path.stem for path in (directory or directories.rules_directory()).glob("*.yaml"))


def load_handlers(directory: Path | None = None) -> tuple[list[Handler], list[HandlerError]]:
    """Return the valid handlers of the rules directory, and what is wrong with the others."""
    handlers, faults = [], []
    for name in handler_names(directory):
        try:
            handlers.append(load_handler(name, directory))
        except HandlerError as error:
            faults.append(error)
    return handlers, faults


def load_handler(name: str, directory: Path | None = None) -> Handler:
    """Read and validate the configuration of handler `name`.

    Raises HandlerError, which names the file and the line and column of everything at fault.
    """
    folder = directory or directories.rules_directory()
    path = folder / f"{name}.yaml"
    if fault := name_fault(name):
        raise HandlerError(f"{path}: {fault}")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        known = ", ".join(handler_names(folder)) or "none"
        raise HandlerError(f"{path}: no such handler; configured are: {known}") from None
    except OSError as error:
        raise HandlerError(f"{path}: cannot be read: {error.strerror}") from error
    report = Report(str(path))
    handler = build_handler(read_document(data, report), report, name, folder)
    if handler is None:
        faults = [d for d in report.diagnostics() if d.severity == "error"]
        raise HandlerError("\n".join(map(str, faults)))
    return handler


def name_fault(name: str) -> str:
    """Say what is wrong with a handler's name, "" if nothing is."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        return "a handler's name takes letters, digits, '_', '-' and '.' only"
    if len(name) > LONGEST_NAME:
        return f"a handler's name takes {LONGEST_NAME} characters, this one has {len(name)}"
    if name in OF_OTHER_DAGS:
        return f"mq_dlq_{name} is another DAG of this project: give the handler another name"
    return ""


def build_handler(document: Document, report: Report, name: str, folder: Path) -> Handler | None:
    """Build the handler from its file; None if the report has an error."""
    if document.root is None:
        if not report.has_errors:
            report.error("missing", Place(1, 1, 1, ""), f"expected keys such as {_EXAMPLE}")
        return None
    reader = Reader(document, report)
    nodes = reader.keyed(document.root, _KEYS, _EXAMPLE)
    is_complete = not report.has_errors
    values = _values({key: node for key, (_, node) in nodes.items()}, document, reader, report)
    try:
        handler = Handler.model_validate({**values, "name": name, "directory": folder})
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            _, at = nodes.get(str(next(iter(fault["loc"]), "")), (None, None))
            # What is missing may be what an unknown key was meant to be.
            if at is not None or is_complete:
                reader.error("invalid", document.root if at is None else at, _words(fault))
        return None
    return None if report.has_errors else handler


def _values(
    nodes: Mapping[str, Node], document: Document, reader: Reader, report: Report
) -> dict[str, Any]:
    """Return what the keys of the file say; a table is given as its canonical print."""
    values = {key: reader.plain(node) for key, node in nodes.items() if key not in _READ_HERE}
    values["lint"] = read_levels(nodes["lint"], reader) if "lint" in nodes else {}
    if "table" in nodes:
        result = check_node(nodes["table"], document, report, values["lint"])
        values["table"] = print_table(result.table) if result.table else ""
    return values


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path}: the rules table cannot be read: {error.strerror}"
        raise HandlerError(message) from error
    except UnicodeDecodeError as error:
        message = f"{path}: the rules table is not UTF-8 at byte {error.start}"
        raise HandlerError(message) from error


def _words(fault: Any) -> str:
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"the key {key!r} is missing; a handler needs it"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
