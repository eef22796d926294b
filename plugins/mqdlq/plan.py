"""Make the steps of a message from its matching rules, and hash a plan.

The hash is the same when Python or Spark computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from mqdlq.model import Action, PlannedMessage, PutAuthority, Step
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


@dataclass(frozen=True, slots=True)
class Target:
    """A target's name: a literal of the rule, or a column of the message's row."""

    literal: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class StepTemplate:
    """A `Step` without its targets: the same for all messages that match the same rules."""

    rule: int
    rule_line: int
    action: Action
    target_q: Target
    target_q_mgr: Target
    header: bool
    put_authority: PutAuthority
    tries: int


def steps_for(table: RulesTable, values: Mapping[str, str | int]) -> tuple[StepTemplate, ...]:
    """Return a message's steps: its matching rules in table order, up to one that cannot fail.

    `values` are the row's columns named by `table.columns`.
    """
    return steps_of(matching_rules(table, values))


def steps_of(matching: Iterable[Rule]) -> tuple[StepTemplate, ...]:
    """Return the steps of a message that matches these rules, given in table order.

    Rules after an IGNORE or a DISCARD are never tried.
    """
    steps = []
    for rule in matching:
        steps.append(_template(rule))
        if rule.cannot_fail:
            break
    return tuple(steps)


def needs_a_dlh(rule: Rule) -> str:
    """Return the part of a rule that takes its target from the MQDLH or the MQMD, or "".

    Such a rule cannot act on a message without a valid MQDLH.
    """
    target_q, target_q_mgr = _targets(rule)
    if rule.action is Action.RETRY:
        return "ACTION(RETRY)"
    if target_q.column:
        return f"FWDQ({rule.fwd_q})"
    return f"FWDQM({rule.fwd_q_mgr})" if target_q_mgr.column else ""


def steps_without_a_dlh(table: RulesTable) -> tuple[Step, ...]:
    """Return the steps of a given action for a named message without a valid MQDLH.

    `table` is that action. FWD puts such a message unchanged and ignores HEADER, because there is
    no MQDLH to remove. An action that needs an MQDLH has no steps.
    """
    (rule,) = table.rules
    if needs_a_dlh(rule):
        return ()
    template = _template(rule)
    return (resolve(replace(template, header=rule.action is Action.FWD), {}),)


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
    return tuple(resolve(template, row) for template in steps_for(table, values))


def resolve(template: StepTemplate, row: Mapping[str, str | None]) -> Step:
    return Step(
        rule=template.rule,
        rule_line=template.rule_line,
        action=template.action,
        target_q=_name(template.target_q, row),
        target_q_mgr=_name(template.target_q_mgr, row),
        header=template.header,
        put_authority=template.put_authority,
        tries=template.tries,
    )


def plan_hash(rows: Iterable[PlannedMessage]) -> str:
    """Return the SHA-256 (hex) over a plan's content; `rows` come in browse order.

    The hash has levels, so that Spark computes it without collecting rows. Each distinct treatment
    is digested once, the rows of 4096 consecutive browse numbers form a bucket's digest, and the
    digests of the buckets form the hash. Explanations (see `PlannedMessage`) are not included.
    """
    plan = sha256()
    for _, bucket in groupby(rows, key=lambda row: row.browse_seq // MESSAGES_TO_A_BUCKET):
        content = sorted((row.browse_seq, row_content(row)) for row in bucket)
        plan.update(sha256(b"".join(row for _, row in content)).hexdigest().encode())
    return plan.hexdigest()


def row_content(row: PlannedMessage) -> bytes:
    """Return the unique bytes of a row: each value after its length."""
    names = f"{_measured(row.queue_manager)}{_measured(row.queue)}"
    start = f"{row.browse_seq}:{len(row.message_key)}:".encode()
    treatment = bytes.fromhex(treatment_digest(row.disposition, row.steps))
    return start + row.message_key + names.encode() + treatment


@lru_cache(maxsize=4096)
def treatment_digest(disposition: str, steps: tuple[Step, ...]) -> str:
    """Return the SHA-256 (hex) over a message's disposition and steps."""
    parts = [_measured(disposition), _measured(len(steps))]
    parts += [_measured(getattr(step, name)) for step in steps for name in STEP_FIELDS]
    return sha256("".join(parts).encode()).hexdigest()


def _measured(value: str | int) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{len(text)}:{text}"


def _template(rule: Rule) -> StepTemplate:
    target_q, target_q_mgr = _targets(rule)
    return StepTemplate(
        rule=rule.ordinal,
        rule_line=rule.line,
        action=rule.action,
        target_q=target_q,
        target_q_mgr=target_q_mgr,
        # Only FWD uses HEADER: RETRY always puts without the MQDLH, other actions put nothing.
        header=rule.action is Action.FWD and rule.header,
        put_authority=rule.put_authority,
        tries=rule.retry,
    )


def _targets(rule: Rule) -> tuple[Target, Target]:
    match rule.action:
        case Action.RETRY:
            return _target("&DESTQ"), _target("&DESTQM")
        case Action.FWD:
            return _target(rule.fwd_q), _target(rule.fwd_q_mgr)
        case _:
            return Target(), Target()


def _target(name: str) -> Target:
    """Return the target of a FWDQ or FWDQM: `&REPLYQ` and similar names stand for a field."""
    column = _COLUMNS.get(name, "")
    return Target(column=column) if column else Target(literal=name)


def _name(target: Target, row: Mapping[str, str | None]) -> str:
    """Return the name as MQOPEN reads it: up to the first NUL, without trailing blanks."""
    if not target.column:
        return target.literal
    return (row[target.column] or "").partition("\0")[0].rstrip(" ")
