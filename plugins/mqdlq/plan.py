"""Make the steps of a message from its matching rules, and digest its treatment."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from mqdlq.causes import mq_name
from mqdlq.model import Action, Step
from mqdlq.rules import Rule, RulesTable, matching_rules, with_nuls_as_blanks

_COLUMNS: Final = {
    "&REPLYQ": "reply_to_q",
    "&REPLYQM": "reply_to_q_mgr",
    "&DESTQ": "dlh_dest_q_name",
    "&DESTQM": "dlh_dest_q_mgr_name",
}
TARGET_COLUMNS: Final = tuple(_COLUMNS.values())
"""The columns of a snapshot that targets may come from."""

MESSAGES_TO_A_BUCKET: Final = 4096
STEP_FIELDS: Final = tuple(field.name for field in fields(Step))


def steps_for(table: RulesTable, values: Mapping[str, str | int]) -> tuple[Step, ...]:
    """Return a message's steps: its matching rules in table order, up to one that cannot fail.

    `values` are the row's columns named by `table.columns`. A target such as ``&DESTQ`` stands for
    a field of the message until `resolve` replaces it: all messages that match the same rules have
    the same steps.
    """
    steps = []
    for rule in matching_rules(table, values):
        steps.append(step_of(rule))
        if rule.cannot_fail:
            break
    return tuple(steps)


def columns_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the columns that targets of unresolved steps come from, sorted."""
    named = {name for step in steps for name in (step.target_q, step.target_q_mgr)}
    return tuple(sorted(_COLUMNS[name] for name in named & _COLUMNS.keys()))


def needs_a_dlh(rule: Rule) -> str:
    """Return the part of a rule that takes its target from the MQDLH or the MQMD, or "".

    Such a rule cannot act on a message without a valid MQDLH.
    """
    if rule.action is Action.RETRY:
        return "ACTION(RETRY)"
    if rule.fwd_q in _COLUMNS:
        return f"FWDQ({rule.fwd_q})"
    return f"FWDQM({rule.fwd_q_mgr})" if rule.fwd_q_mgr in _COLUMNS else ""


def steps_without_a_dlh(table: RulesTable) -> tuple[Step, ...]:
    """Return the steps of a given action for a named message without a valid MQDLH.

    `table` is that action. FWD puts such a message unchanged and ignores HEADER, because there is
    no MQDLH to remove. An action that needs an MQDLH has no steps.
    """
    (rule,) = table.rules
    if needs_a_dlh(rule):
        return ()
    return (replace(step_of(rule), header=rule.action is Action.FWD),)


def decide(
    table: RulesTable,
    row: Mapping[str, Any],
    *,
    nul_as_blank: bool = False,
    has_given_action: bool = False,
) -> tuple[Step, ...]:
    """Return the steps of the message with this row of a snapshot, as a plan has them.

    With `has_given_action` the table is one action, given for this message.
    """
    if not table.acts_on(row["class"]):
        return steps_without_a_dlh(table) if has_given_action else ()
    values = with_nuls_as_blanks(row) if nul_as_blank else row
    return tuple(resolve(step, row) for step in steps_for(table, values))


def resolve(step: Step, row: Mapping[str, str | None]) -> Step:
    if step.target_q not in _COLUMNS and step.target_q_mgr not in _COLUMNS:
        return step
    return _with_target(step, _name(step.target_q, row), _name(step.target_q_mgr, row))


@lru_cache(maxsize=4096)
def _with_target(step: Step, queue: str, queue_manager: str) -> Step:
    return replace(step, target_q=queue, target_q_mgr=queue_manager)


@lru_cache(maxsize=4096)
def treatment_digest(disposition: str, steps: tuple[Step, ...]) -> str:
    """Return the SHA-256 (hex) over a message's disposition and steps."""
    parts = [_measured(disposition), _measured(len(steps)), *map(_step_content, steps)]
    return sha256("".join(parts).encode()).hexdigest()


@lru_cache(maxsize=4096)
def _step_content(step: Step) -> str:
    return "".join(_measured(getattr(step, name)) for name in STEP_FIELDS)


def _measured(value: str | int) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{len(text)}:{text}"


def step_of(rule: Rule) -> Step:
    """Return the step of all messages that match a rule, with its target as the rule has it."""
    target = ("&DESTQ", "&DESTQM") if rule.action is Action.RETRY else (rule.fwd_q, rule.fwd_q_mgr)
    return Step(
        rule.ordinal,
        rule.line,
        rule.action,
        *target,
        # Only FWD uses HEADER: RETRY always puts without the MQDLH, other actions put nothing.
        header=rule.action is Action.FWD and rule.header,
        put_authority=rule.put_authority,
        tries=rule.retry,
    )


def _name(target: str, row: Mapping[str, str | None]) -> str:
    return mq_name(row[_COLUMNS[target]] or "") if target in _COLUMNS else target
