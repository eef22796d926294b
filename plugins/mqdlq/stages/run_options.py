"""The parameters of one run of a handler, and the rules that this run then works by."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler
from mqdlq.model import GIVEN_ACTION
from mqdlq.rules import ControlData, RulesTable, parse, print_table


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one run of a handler is asked to do differently.

    `input_q` and `input_q_mgr` override the table's INPUTQ and INPUTQM, as runmqdlq's arguments
    do (a blank `input_q` means the dead-letter queue of the queue manager); `rules` names another
    table beside the handler's. `message_keys` (hex, as in the report) are the only messages to act
    on; none means all. `action` is what is done to those, in place of the table's rules: one rule
    without patterns. `wait_s` overrides WAIT, in seconds (0 for NO, None for YES); it is a
    1-tuple, since None itself means something. `started_by` is who or what has started the run,
    in words.
    """

    input_q: str | None = None
    input_q_mgr: str | None = None
    rules: str | None = None
    dry_run: bool = False
    message_keys: tuple[str, ...] = ()
    action: str | None = None
    wait_s: tuple[int | None] | None = None
    dag_run_id: str = ""
    run_type: str = "manual"
    started_by: str = ""


def rules_of(handler: Handler, options: RunOptions) -> tuple[str, str, RulesTable]:
    """Return the source, the text and the table of the rules that a run works by.

    They are the handler's own, those of the table that the run names, or the one action that is
    given for the messages it names. Raises RulesError for a fault in a table or in the action, and
    HandlerError for a table that cannot be read and an action that is not one rule.
    """
    source, text = handler.rules_text(options.rules)
    table = parse(text, source)
    if options.action:
        source, text = GIVEN_ACTION, _one_action(table, options)
        table = parse(text, source)
    return source, text, table


def control_of(handler: Handler) -> ControlData | None:
    """Return the control data of a handler's table, None for a table that cannot be read."""
    try:
        source, text = handler.rules_text()
        return parse(text, source).control
    except MqDlqError:  # reported when it is read for a run
        return None


def _one_action(table: RulesTable, options: RunOptions) -> str:
    """Return the text of a table that does the given action, with the control data of `table`."""
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
