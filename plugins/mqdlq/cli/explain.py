"""`mqdlq explain`: a rules table and messages in, how each rule fared with each message out."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from mqdlq import constants
from mqdlq.cli.files import Format, name_of, parse_table
from mqdlq.errors import MqDlqError
from mqdlq.lake.schema import HEADERS
from mqdlq.model import MessageClass
from mqdlq.rules import (
    Explanation,
    Failure,
    RulesError,
    RulesTable,
    Trace,
    with_nuls_as_blanks,
)
from mqdlq.rules import explain as explain_message
from mqdlq.rules.diagnostics import listed
from mqdlq.rules.keywords import KEYWORDS, Keyword, Kind

_NO_DEAD_LETTER: Final = "no dead letter but {}; rules are asked of dead letters only, it is left"


class MessageError(MqDlqError, ValueError):
    """A line of the input is not a message."""


def explain(
    messages: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="JSON lines, one message each; - is standard input."),
    ],
    rules: Annotated[typer.FileBinaryRead, typer.Option(metavar="PATH", help="The rules table.")],
    nul_as_blank: Annotated[
        bool, typer.Option("--nul-as-blank", help="Compare NULs as blanks; IBM's handler does not.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Implement `mqdlq explain`.

    A message is a JSON object with the columns of a snapshot; a column that is absent is blank, or
    0. For a message that no rule matches, the nearest rule is named: the first of those with the
    fewest keywords that fail. A message whose `class` is not dead_letter is asked of no rule.

    For example:
      echo '{"dlh_reason": 2053}' | mqdlq explain --rules include/rules/demo.rules -
    """
    try:
        table = parse_table(rules)
        for number, message_class, written in _messages(messages):
            values = with_nuls_as_blanks(written) if nul_as_blank else written
            if message_class is not MessageClass.DEAD_LETTER:
                shown = _unasked(number, message_class, table, output)
            elif output is Format.JSON:
                shown = json.dumps(_as_json(explain_message(table, values)))
            else:
                shown = _as_text(number, table, explain_message(table, values))
            typer.echo(shown)
    except (RulesError, MessageError) as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None


def _messages(
    file: typer.FileBinaryRead,
) -> Iterator[tuple[int, MessageClass, dict[str, Any]]]:
    """Yield the messages with the lines they stand on and their classes."""
    known = set(HEADERS.names)
    for number, line in enumerate(file, start=1):
        if line.strip():
            place = f"{name_of(file)}:{number}"
            message = _message(place, line)
            for name in message.keys() - known:
                known.add(name)  # once is enough: the next lines are likely to have it, too
                typer.echo(f"{place}: {_not_looked_at(name)}", err=True)
            yield number, _class(place, message), _values(place, message)


def _message(place: str, line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise MessageError(f'{place}: expected a JSON object such as {{"dlh_reason": 2053}}')
    return message


def _not_looked_at(name: str) -> str:
    near = difflib.get_close_matches(name, HEADERS.names, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"warning: {name!r} is no column of a snapshot and is not looked at{meant}"


def _class(place: str, message: dict[str, Any]) -> MessageClass:
    """Return the class of a message; one that has none is taken for a dead letter."""
    written = message.get("class")
    if written is None:
        return MessageClass.DEAD_LETTER
    if written not in list(MessageClass):
        raise MessageError(f"{place}: class must be {listed(MessageClass)}")
    return MessageClass(written)


def _values(place: str, message: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for keyword in filter(lambda keyword: keyword.is_pattern, KEYWORDS.values()):
        value = message.get(keyword.column)
        expected, noun = (str, "text") if keyword.kind is Kind.TEXT else (int, "a number")
        if value is not None and type(value) is not expected:
            found = type(value).__name__
            raise MessageError(f"{place}: {keyword.column} must be {noun}, found {found}")
        values[keyword.column] = value.rstrip(" ") if isinstance(value, str) else value
    return values


def _unasked(number: int, message_class: MessageClass, table: RulesTable, output: Format) -> str:
    """Say why a message that is no dead letter is asked of no rule."""
    if output is Format.TEXT:
        return f"message at line {number}: {_NO_DEAD_LETTER.format(message_class)}"
    traces = [
        {"line": rule.line, "matched": False, "keyword": None, "expected": None, "actual": None}
        for rule in table.rules
    ]
    return json.dumps({"chain": [], "trace": traces, "class": message_class})


def _as_json(explanation: Explanation) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "chain": [rule.line for rule in explanation.chain],
        "trace": [_trace_as_json(trace) for trace in explanation.traces],
    }
    if nearest := explanation.nearest:
        failures = [_failure_as_json(failure) for failure in nearest.failures]
        shown["nearest"] = {"line": nearest.rule.line, "failures": failures}
    return shown


def _failure_as_json(failure: Failure) -> dict[str, Any]:
    pattern = failure.pattern
    shown = {"keyword": pattern.keyword, "expected": pattern.value, "actual": failure.actual}
    return shown | {"only_nuls": True} if failure.only_nuls else shown


def _trace_as_json(trace: Trace) -> dict[str, Any]:
    failed = trace.failed
    shown: dict[str, Any] = {
        "line": trace.rule.line,
        "matched": failed is None,
        "keyword": failed and failed.keyword,
        "expected": None if failed is None else failed.value,
        "actual": trace.actual,
    }
    return shown | {"only_nuls": True} if trace.only_nuls else shown


def _as_text(number: int, table: RulesTable, explanation: Explanation) -> str:
    lines = ", ".join(str(rule.line) for rule in explanation.chain)
    verdict = f"rules tried, by line: {lines}" if lines else "no rule matches, the message is left"
    width = len(str(table.rules[-1].line))
    shown = [f"message at line {number}: {verdict}"]
    shown += [f"  line {t.rule.line:>{width}}: {_trace_as_text(t)}" for t in explanation.traces]
    if nearest := explanation.nearest:
        failures = "; and ".join(map(_failure_as_text, nearest.failures))
        shown.append(f"  nearest is the rule at line {nearest.rule.line}: {failures}")
    return "\n".join(shown)


def _trace_as_text(trace: Trace) -> str:
    if not trace.failures:
        return f"matches, ACTION({trace.rule.action})"
    return _failure_as_text(trace.failures[0])


def _failure_as_text(failure: Failure) -> str:
    keyword = KEYWORDS[failure.pattern.keyword]
    expected, actual = _shown(keyword, failure.pattern.value), _shown(keyword, failure.actual)
    nuls = "; only its NULs keep it from matching" if failure.only_nuls else ""
    return f"{keyword.name} expects {expected}, {keyword.field} is {actual}{nuls}"


def _shown(keyword: Keyword, value: str | int | None) -> str:
    if isinstance(value, int):
        name = constants.name_of(value, keyword.families)
        return f"{name} ({value})" if name else str(value)
    return repr(value) if value else "blank"
