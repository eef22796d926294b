"""The options of one run of a handler, and the rules that the run applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from mqdlq.controls.repair import check_action, parse_repair
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler, Kept
from mqdlq.handlers.configuration import decoded, refusing_unreadable
from mqdlq.model import GIVEN_ACTION
from mqdlq.rules import ControlData, RulesTable, parse, print_table

WITHOUT_PERSON: Final = frozenset({"scheduled", "asset_triggered"})
"""The types of runs that no person starts."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options by which one run of a handler differs from its configuration.

    `input_q` and `input_q_mgr` override the table's INPUTQ and INPUTQM, as runmqdlq's arguments do
    (a blank `input_q` means the queue manager's dead-letter queue). `rules` names another table in
    the handler's directory. `message_keys` (hex) restricts the run to these messages; none means
    all. `action` is one rule without patterns that replaces the table's rules for these messages,
    `repair` has the fields that it changes (see `parse_repair`). `given_wait` overrides WAIT, in
    seconds (0 for NO, None for YES); it is a 1-tuple because None is a value. `started_by`
    describes the user or program that started the run; `started_by_user` is the user's name in
    Airflow. `follows` is the DAG run's id of the run whose WAIT this run continues.
    """

    input_q: str | None = None
    input_q_mgr: str | None = None
    rules: str | None = None
    dry_run: bool = False
    message_keys: tuple[str, ...] = ()
    action: str | None = None
    repair: Mapping[str, Any] | None = None
    given_wait: tuple[int | None] | None = None
    dag_run_id: str = ""
    run_type: str = "manual"
    started_by: str = ""
    started_by_user: str = ""
    why: str = ""
    follows: str = ""


def read_rules(handler: Handler, options: RunOptions) -> tuple[str, str, RulesTable]:
    """Return the source, the text and the table of the rules that a run applies.

    A given action is for queues of any kind, because it may act on messages without an MQDLH on a
    dead-letter queue, too. Raises RulesError for an error in a table or in the action, and
    HandlerError for an unreadable table or an action that is not one rule.
    """
    source, text = handler.rules_text(options.rules)
    table = parse(text, source, handler.queue_kind, frozen=True)
    if options.action:
        source, text = GIVEN_ACTION, _print_given_action(table, options)
        table = parse(text, source)
    return source, text, table


def read_repair_text(table: RulesTable, options: RunOptions) -> str:
    """Return the repair of a run as JSON, "" for none; `table` is the result of `read_rules`.

    Raises HandlerError for an invalid repair, or one that does not fit the given action.
    """
    repair = parse_repair(options.repair)
    if repair is None:
        return ""
    if not options.action:
        raise HandlerError(
            "MQDLQ-521",
            "repair needs action and message_keys, because it applies to named messages only; name"
            " the messages, and give an action such as ACTION(RETRY)",
        )
    check_action(repair, table.rules[0])
    return repair.text


def find_missing_reason(handler: Handler, options: RunOptions) -> str:
    """Return why a run must not begin without a reason, or "".

    A dry run, and a run that no person has started, need no reason.
    """
    if not handler.require_reason or options.dry_run or options.why:
        return ""
    if options.run_type in WITHOUT_PERSON:
        return ""
    return (
        f"handler {handler.name} needs a reason for each run that a person starts"
        " (require_reason); give the reason, or the number of a ticket, as the parameter why"
    )


def read_control_data(handler: Handler, kept: Kept | None = None) -> ControlData | None:
    """Return the control data of a handler's table, None if the table cannot be read.

    With `kept`, a table is not parsed if one with the same content was.
    """
    try:
        if handler.table is not None or kept is None:
            source, text = handler.rules_text()
            return parse(text, source, frozen=True).control
        path = handler.directory / str(handler.rules)
        depends_on = (handler.queue_kind, tuple(sorted(handler.lint.items())))
        with refusing_unreadable(path):
            return kept.value(path, depends_on, partial(_parse_control_data, handler, path))
    except MqDlqError:  # a run reports it when it reads the table
        return None


def _parse_control_data(handler: Handler, path: Path, data: bytes) -> ControlData | None:
    table = handler.review_table(path, decoded(data)).table
    return table.control if table else None


def _print_given_action(table: RulesTable, options: RunOptions) -> str:
    """Return the text of a table that carries out the given action, with `table`'s control data."""
    if not options.message_keys:
        raise HandlerError(
            "MQDLQ-118",
            "action needs message_keys, because it applies to named messages only; name the"
            " messages",
        )
    given = parse(options.action or "", GIVEN_ACTION)
    if len(given.rules) != 1 or given.rules[0].patterns or given.control != ControlData():
        raise HandlerError(
            "MQDLQ-119",
            "action must be one rule without patterns and without control data, such as"
            " ACTION(FWD) FWDQ(PARKED)",
        )
    return print_table(replace(given, control=table.control))
