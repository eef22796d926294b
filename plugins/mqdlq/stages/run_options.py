"""The options of one run of a handler, and the rules that the run applies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mqdlq.controls.fixed import UntilFixed
from mqdlq.controls.ramp import Ramp
from mqdlq.controls.repair import NO_BODIES, check_action, parse_repair
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.model import GIVEN_ACTION
from mqdlq.rules import ControlData, RulesTable, parse, print_table

WITHOUT_PERSON: Final = frozenset({"scheduled", "asset_triggered"})
"""The types of runs that no person starts."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options by which one run of a handler differs from its configuration.

    `input_q` and `input_q_mgr` override the table's INPUTQ and INPUTQM, as runmqdlq's arguments do
    (a blank `input_q` means the queue manager's dead-letter queue). `rules` names another table in
    the handler's directory. `message_keys` (hex) restricts the run to these messages, `where` to
    those that meet a condition, in the snapshot `as_of` if there is one. `action` is one rule
    without patterns that replaces the table's rules for these messages, `repair` has the fields
    that it changes (see `parse_repair`). `until_fixed` holds messages while their destination
    refuses them, as the handler's key `hold_until_fixed` does. `given_wait` overrides WAIT, in
    seconds (0 for NO, None for YES); it is a 1-tuple because None is a value. `started_by`
    describes the user or program that started the run; `started_by_user` is the user's name in
    Airflow. `follows` is the DAG run's id of the run whose WAIT this run continues.
    """

    input_q: str | None = None
    input_q_mgr: str | None = None
    rules: str | None = None
    dry_run: bool = False
    message_keys: tuple[str, ...] = ()
    where: str = ""
    as_of: str = ""
    action: str | None = None
    repair: Mapping[str, Any] | None = None
    until_fixed: bool = False
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


def read_controls_text(handler: Handler, options: RunOptions) -> str:
    """Return the controls of a run as JSON; one that waits for a fix has a ramp in any case."""
    if options.until_fixed:
        held = handler.hold_until_fixed or UntilFixed()
        changed = {"hold_until_fixed": held, "ramp": handler.ramp or Ramp()}
        handler = handler.model_copy(update=changed)
    return handler.controls_text()


def read_repair_text(handler: Handler, table: RulesTable, options: RunOptions) -> str:
    """Return the repair of a run as JSON, "" for none; `table` is the result of `read_rules`.

    Raises HandlerError for an invalid repair, one that does not fit the given action, or one that
    the handler does not allow.
    """
    repair = parse_repair(options.repair)
    if repair is None:
        return ""
    if not options.action:
        raise HandlerError(
            "MQDLQ-521",
            "repair needs action and message_keys or where, because it applies to some messages"
            " only; name the messages, and give an action such as ACTION(RETRY)",
        )
    check_action(repair, table.rules[0])
    if repair.body_sha256 and not handler.repair.body:
        raise HandlerError("MQDLQ-531", f"{handler.name}: {NO_BODIES}")
    if repair.body_sha256 and len(options.message_keys) != 1:
        raise HandlerError(
            "MQDLQ-532",
            "a body is replaced for one message at a time; name it alone in message_keys",
        )
    return repair.text


def read_condition(options: RunOptions) -> str:
    """Return the condition of a run in its canonical form, "" for none.

    Raises FilterError for an invalid one, and HandlerError for one that does not fit the rest.
    """
    if (options.where and options.message_keys) or (options.as_of and not options.where):
        raise HandlerError(
            "MQDLQ-529",
            "where is for a run without message_keys, and as_of for a run with where; give either"
            " message_keys, or where and perhaps as_of",
        )
    if not options.where:
        return ""
    if options.run_type == "backfill":
        raise HandlerError(
            "MQDLQ-530", "where is for runs that take a snapshot; a backfill takes message_keys"
        )
    from mqdlq.lake.filters import parse_where  # noqa: PLC0415 (it imports Arrow)

    return parse_where(options.where).text_of_where


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


def _print_given_action(table: RulesTable, options: RunOptions) -> str:
    """Return the text of a table that carries out the given action, with `table`'s control data."""
    if not (options.message_keys or options.where):
        raise HandlerError(
            "MQDLQ-118",
            "action needs message_keys or where, because it applies to some messages only; name"
            " the messages",
        )
    given = parse(options.action or "", GIVEN_ACTION)
    if len(given.rules) != 1 or given.rules[0].patterns or given.control != ControlData():
        raise HandlerError(
            "MQDLQ-119",
            "action must be one rule without patterns and without control data, such as"
            " ACTION(FWD) FWDQ(PARKED)",
        )
    return print_table(replace(given, control=table.control))
