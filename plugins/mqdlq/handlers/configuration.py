"""The configuration of a handler: one YAML file in the rules directory, its stem the name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from mqdlq import directories
from mqdlq.controls.settings import Controls
from mqdlq.errors import HandlerError
from mqdlq.handlers.documents import Document, Node
from mqdlq.handlers.operation import Operation
from mqdlq.handlers.tables import check, check_node, read_levels, read_queue_kind
from mqdlq.model import QueueKind
from mqdlq.rules import (
    CheckResult,
    ControlData,
    Diagnostic,
    RulesError,
    Severity,
    freeze,
    parse,
)
from mqdlq.rules.diagnostics import Place, Report
from mqdlq.rules.lint import Level, promote, review

QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")]


class Handler(Operation, Controls):
    """The configuration of one handler.

    The keys that concern Airflow are in `Operation`, its controls in `Controls`.
    `table` has the canonical text of rules in the YAML file itself.
    """

    name: str
    directory: Path
    connection: str
    """Airflow connection of type `mqdlq` or `ibmmq`."""
    rules: str | None = None
    """File name of the rules table: a regular file of at most 16 MiB in the directory of the YAML
    file, or below it. A link may lead nowhere else."""
    table: str | None = None
    """The rules themselves, in [YAML form](rules.md#yaml-form). A handler has either `rules` or
    `table`."""
    queue_kind: QueueKind = QueueKind.DEAD_LETTER
    """`dead_letter`: rules act on messages with a valid MQDLH. `backout`: rules act on messages
    without an MQDLH; see [backout queues](../how-to/backout-queues.md)."""
    state_queue: QueueName = "MQDLQ.STATE"
    """Local queue for the markers of units of work, on the same queue manager as the dead-letter
    queue. No other application uses it."""
    count_attempts: Literal["per_run", "across_runs"] = "per_run"
    """`per_run` starts the count of attempts at zero in each run; `across_runs` continues the count
    of earlier runs."""
    nul_as_blank: bool = False
    """Compare NULs in text fields as blanks. IBM's handler does not do that."""
    hold_while_blocked: bool = False
    """Do not count an attempt while the destination of a message is full or inhibited for puts."""
    deliver_truncated: bool = False
    """Deliver messages that may have been truncated to fit the dead-letter queue."""
    explain: bool = False
    """Store in the plan, for each message, the rule that decided, or the nearest rule if none
    matches."""
    diagnose: bool = False
    """Ask the queue manager, before a report is written, why destinations refuse the causes with
    the most messages that need attention. See [diagnose](../how-to/diagnose.md)."""
    max_messages_per_unit: Annotated[int, Field(ge=1, le=10_000)] = 128
    """Highest number of messages to one destination in a unit of work."""
    connections: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of connections that move messages side by side, each to destinations of its own. With
    more than one, a further connection browses. See
    [several connections](../how-to/scale-out.md#9-move-messages-over-several-connections)."""
    max_plan_age: timedelta = timedelta(days=1)
    """Highest age of a snapshot when its plan is accepted."""
    max_run_time: timedelta = timedelta(hours=1)
    """Time after which a run stops retrying."""
    payload: Annotated[str, Field(pattern=r"^(none|full|head: [1-9][0-9]{0,8})$")] = "none"
    """Part of message bodies that snapshots keep: `none`, `full`, or `head: N` for the first N
    bytes. See [snapshots](../explanation/snapshots.md)."""
    payload_key: str | None = None
    """Airflow connection with the key that encrypts the payload."""
    full_snapshot_every: timedelta = timedelta(days=1)
    """Time after which a run reads settled messages in full again."""
    keep_snapshots: Annotated[int | None, Field(ge=1)] = None
    """Number of snapshots to keep per queue; unset: all."""
    keep_snapshots_for: timedelta | None = None
    """Time to keep snapshots for; unset: no limit."""
    keep_archive_for: Annotated[timedelta | None, Field(ge=timedelta(days=1))] = None
    """Time to keep the archive copy of a discarded message for, at least a day; unset: no limit.
    Then it cannot be restored. See [retention](../how-to/retention.md)."""
    keep_runs_for: Annotated[timedelta | None, Field(ge=timedelta(days=1))] = None
    """Time to keep runs in the ledger for, at least a day; unset: no limit. Of a pruned run, the
    numbers of its outcomes stay."""
    lint: Mapping[str, Level] = {}
    """Severity of a finding in the rules, by its [code](rules.md#lint-warnings): `error`, `warning`
    or `off`."""

    @field_validator("payload", mode="before")
    @classmethod
    def _head_is_a_mapping(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and list(value) == ["head"]:
            return f"head: {value['head']}"
        return value

    @model_validator(mode="after")
    def _has_a_use_for_its_key(self) -> Self:
        if self.payload_key is not None and self.payload == "none":
            raise ValueError("'payload_key' has no effect without 'payload'")
        return self

    @model_validator(mode="after")
    def _approval_fits_max_plan_age(self) -> Self:
        asks = self.approval.model_dump(exclude={"timeout"}, exclude_defaults=True)
        if asks and self.approval.timeout >= self.max_plan_age:
            raise ValueError(
                f"approval: timeout {self.approval.timeout} is not shorter than max_plan_age"
                f" {self.max_plan_age}: the plan could be too old when the answer comes"
            )
        return self

    @model_validator(mode="after")
    def _tries_one_message_after_a_fix(self) -> Self:
        if self.hold_until_fixed and self.ramp is None:
            raise ValueError(
                "hold_until_fixed needs ramp, so that one message is tried when its destination"
                " takes messages again; add ramp: {}"
            )
        return self

    @model_validator(mode="after")
    def _has_what_a_replaced_body_needs(self) -> Self:
        if self.repair.body and not self.approval.second_person:
            raise ValueError(
                "repair: body needs approval: second_person, such as [fwd, retry], because a second"
                " person must approve each replaced body"
            )
        if self.repair.body and self.payload == "none":
            raise ValueError("repair: body needs 'payload', to show how a body will differ")
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

        A table in the YAML file is returned as its canonical print. Raises HandlerError if the file
        cannot be read, and RulesError if the table has an error, including those by `lint`.
        """
        if self.table is not None and not override:
            return f"{self.directory / self.name}.yaml, as printed", self.table
        path, text = self.read_table(override)
        found = self.review_table(path, text).diagnostics
        if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
            raise RulesError(found)
        return str(path), text

    def read_table(self, override: str | None = None) -> tuple[Path, str]:
        """Return the file of the rules table, or another one in the rules directory, and its text.

        Raises HandlerError if the file cannot be read, or is not in the rules directory.
        """
        path = self.directory / str(override or self.rules)
        try:
            text = directories.read_rules_file(path, self.directory).decode()
        except OSError as error:
            message = f"{path}: the rules table cannot be read: {error.strerror}"
            raise HandlerError("MQDLQ-305", message) from error
        except UnicodeDecodeError as error:
            message = f"{path}: the rules table is not UTF-8 at byte {error.start}"
            raise HandlerError("MQDLQ-306", message) from error
        # Line ends as `Path.read_text` has them.
        return path, text.replace("\r\n", "\n").replace("\r", "\n")

    def review_table(self, path: Path, text: str) -> CheckResult:
        """Check and lint a table by the severities of `lint`; an error leaves no table."""
        result = review(text, str(path), self.queue_kind)
        found = promote(result.diagnostics, self.lint)
        if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
            return CheckResult(None, found)
        return replace(result, diagnostics=found)

    def control_data(self) -> ControlData | None:
        """Return the control data of the rules table; None if it cannot be read or has an error."""
        if self.table is not None:
            return parse(self.table, queue_kind=self.queue_kind, frozen=True).control
        try:
            table = self.review_table(*self.read_table()).table
        except HandlerError:  # a run reports it when it reads the table
            return None
        return table.control if table else None


_NOT_KEYS: Final = ("name", "directory")
_READ_HERE: Final = ("lint", "queue_kind", "table")
OF_OTHER_DAGS: Final = ("broken_handlers", "history", "restore")
"""Names that no handler may have, because its DAG would have the id of another DAG of mqdlq."""
LONGEST_NAME: Final = 100
"""Most characters of a name, by the ledger's column; a DAG id that is too long disables all DAGs of
its file."""
_EXAMPLE: Final = "'connection:' and 'rules:'"
KEYS: Final = {key: key for key in Handler.model_fields if key not in _NOT_KEYS}


def handler_names(directory: Path | None = None) -> list[str]:
    return sorted(path.stem for path in (directory or directories.rules_directory()).glob("*.yaml"))


def load_handlers(directory: Path | None = None) -> tuple[list[Handler], list[HandlerError]]:
    """Return the valid handlers of the rules directory, and the errors of the others."""
    handlers, faults = [], []
    folder = directory or directories.rules_directory()
    for name in handler_names(folder):
        try:
            handlers.append(load_handler(name, folder))
        except HandlerError as error:
            faults.append(error)
    return handlers, faults


def load_handler(name: str, directory: Path | None = None) -> Handler:
    """Read and validate the configuration of handler `name`.

    Raises HandlerError with file, line and column of every fault.
    """
    folder = directory or directories.rules_directory()
    path = folder / f"{name}.yaml"
    if fault := name_fault(name):
        raise HandlerError("MQDLQ-302", f"{path}: {fault}")
    try:
        data = directories.read_rules_file(path, folder)
    except FileNotFoundError:
        known = ", ".join(handler_names(folder)) or "none"
        raise HandlerError(
            "MQDLQ-303", f"{path}: no such handler; configured are: {known}"
        ) from None
    except OSError as error:
        raise HandlerError("MQDLQ-304", f"{path}: cannot be read: {error.strerror}") from error
    report = Report(str(path))
    handler = _build_handler(Document(data, report), name, folder)
    if handler is None:
        faults = [d for d in report.diagnostics() if d.severity == "error"]
        raise HandlerError("MQDLQ-301", "\n".join(map(str, faults)))
    return handler


def name_fault(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        return "a handler's name takes letters, digits, '_', '-' and '.' only"
    if len(name) > LONGEST_NAME:
        return f"a handler's name takes {LONGEST_NAME} characters, this one has {len(name)}"
    if name in OF_OTHER_DAGS:
        return f"mq_dlq_{name} is another DAG of this project: give the handler another name"
    return ""


def _build_handler(document: Document, name: str, folder: Path) -> Handler | None:
    """Build the handler from its file; None if the report has an error."""
    report = document.report
    if document.root is None:
        if not report.has_errors:
            report.error("missing", Place(1, 1, 1, ""), f"expected keys such as {_EXAMPLE}")
        return None
    nodes = document.keyed(document.root, KEYS, _EXAMPLE)
    is_complete = not report.has_errors
    values = _values({key: node for key, (_, node) in nodes.items()}, document)
    try:
        handler = Handler.model_validate({**values, "name": name, "directory": folder})
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            _, at = nodes.get(str(next(iter(fault["loc"]), "")), (None, None))
            if at is not None and fault["type"] == "extra_forbidden":
                document.unknown_key(at, fault["loc"][1:], keys_below(fault["loc"][:-1]))
            # An unknown key may be a misspelt missing key.
            elif at is not None or is_complete:
                document.error("invalid", document.root if at is None else at, _words(fault))
        return None
    return None if report.has_errors else handler


def _values(nodes: Mapping[str, Node], document: Document) -> dict[str, Any]:
    values = {key: document.plain(node) for key, node in nodes.items() if key not in _READ_HERE}
    values["lint"] = levels = read_levels(nodes, document)
    values["queue_kind"] = kind = read_queue_kind(nodes, document)
    if "table" in nodes:
        result = check_node(nodes["table"], document, levels, kind)
        values["table"] = freeze(result.table) if result.table else ""
    return values


def keys_below(path: Sequence[object]) -> dict[str, str]:
    """Return the keys of a handler's file below a path of keys, such as ("approval",).

    Each has its meaning, in Markdown.
    """
    models: list[type[BaseModel]] = [Handler]
    for part in path:
        inner = [
            model
            for outer in models
            for name, field in outer.model_fields.items()
            if part in {name, field.alias}
            for model in _models_in(field.annotation)
        ]
        models = inner or models
    return {
        field.alias or key: field.description or ""
        for one in models
        for key, field in one.model_fields.items()
        if one is not Handler or key in KEYS
    }


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _words(fault: Any) -> str:
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "missing":
        return f"the key {key!r} is missing; a handler needs it"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


_OF_A_TABLE: Final = {"table", "lint", "queue_kind"}


@dataclass(frozen=True, slots=True)
class HandlerCheck:
    """A handler, or None if its file is rejected, with all diagnostics of the file.

    `table` is the check of its rules: of the file `table_path` if given, otherwise of the key
    `table` in the handler's file. It is None if the file is rejected.
    """

    handler: Handler | None
    diagnostics: tuple[Diagnostic, ...]
    table: CheckResult | None = None
    table_path: str = ""


def is_handler(data: bytes) -> bool:
    """Whether a YAML file is a handler: it has keys other than those of a table."""
    return not {name for name, *_ in Document(data, Report("")).entries()} <= _OF_A_TABLE


def check_handler(
    path: Path, data: bytes, unsaved: Mapping[str, str] = MappingProxyType({})
) -> HandlerCheck:
    """Check the bytes of a handler's file, and its rules by the severities of its key `lint`.

    Only the file and its rules table are read. `unsaved` has texts that count in place of a
    table's file, by its path: those in an editor.
    """
    report = Report(str(path))
    document = Document(data, report)
    handler = _build_handler(document, path.stem, path.parent)
    fault = name_fault(path.stem)
    if path.suffix != ".yaml":
        right = f"{path.stem}.yaml"
        fault = f"a handler's file ends in .yaml; no run would find this one, rename it {right}"
    if fault:
        report.error("handler-name", Place(1, 1, 1, ""), fault)
    if handler is None or report.has_errors:
        return HandlerCheck(None, report.diagnostics())
    if handler.rules is None:
        return HandlerCheck(handler, report.diagnostics(), check(data, str(path)))
    try:
        table_path, text = handler.read_table()
    except HandlerError as error:
        named = next(value for name, _, value in document.entries() if name == "rules")
        report.error("rules-table", document.place(named), error.text)
        return HandlerCheck(None, report.diagnostics())
    result = handler.review_table(table_path, unsaved.get(str(table_path), text))
    return HandlerCheck(handler, report.diagnostics(), result, str(table_path))
