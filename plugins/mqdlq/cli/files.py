"""Read the files of rules tables for the commands, and name them in errors."""

from __future__ import annotations

from typing import Annotated, BinaryIO, Final

from mqdlq.cli.commands import Option
from mqdlq.model import QueueKind
from mqdlq.rules import CheckResult, RulesError, RulesTable, check
from mqdlq.rules.lint import review

STANDARD_INPUT: Final = "<stdin>"
YAML: Final = (".yaml", ".yml")


QueueKindOption = Annotated[
    QueueKind,
    Option(
        "--queue-kind",
        help="The kind of queue that the rules are for; the key queue_kind of a YAML file counts"
        " first.",
    ),
]


def name_of(file: BinaryIO) -> str:
    """Return the name errors give an input; what is piped in may have none."""
    return str(getattr(file, "name", STANDARD_INPUT))


def review_table(data: bytes, name: str) -> CheckResult:
    """Check and lint a table, which is in YAML where the file's name says so."""
    return _check_yaml(data, name) if name.endswith(YAML) else review(data, name)


def parse_table(file: BinaryIO, queue_kind: QueueKind = QueueKind.DEAD_LETTER) -> RulesTable:
    """Return the table in a file, which is in YAML where its name says so; raises RulesError."""
    name = name_of(file)
    result = (_check_yaml if name.endswith(YAML) else check)(file.read(), name, queue_kind)
    if result.table is None:
        raise RulesError(result.diagnostics)
    return result.table


def _check_yaml(
    data: bytes, name: str, queue_kind: QueueKind = QueueKind.DEAD_LETTER
) -> CheckResult:
    from mqdlq.handlers import check as check_yaml  # noqa: PLC0415 (pydantic takes long to import)

    return check_yaml(data, name, queue_kind)
