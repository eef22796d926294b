"""Make the steps of a message from the rules it matches, and hash a plan.

Also the plan's hash, which is the same from Python and from Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from typing import Final

from mqdlq.model import Action, PlannedMessage, PutAuthority, Step
from mqdlq.rules import Rule, RulesTable, matching_rules

_COLUMNS: Final = {
    "&REPLYQ": "reply_to_q",
    "&REPLYQM": "reply_to_q_mgr",
    "&DESTQ": "dlh_dest_q_name",
    "&DESTQM": "dlh_dest_q_mgr_name",
}
TARGET_COLUMNS: Final = tuple(_COLUMNS.values())
"""The columns of a snapshot a target may be taken from."""

MESSAGES_TO_A_BUCKET: Final = 4096
STEP_FIELDS: Final = tuple(field.name for field in fields(Step))
_HASHED: Final = {"unmatched": "no_rule"}
"""A disposition as hashes have it: plans that were made under the old name keep theirs."""


@dataclass(frozen=True, slots=True)
class Target:
    """A name to put to: written in the rule, or held by a column of the message's row."""

    literal: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class StepTemplate:
    """A `Step` before its targets are known: the same for all messages that match alike."""

    rule: int
    rule_line: int
    action: Action
    target_q: Target
    target_q_mgr: Target
    header: bool
    put_authority: PutAuthority
    tries: int


def steps_for(table: RulesTable, values: Mapping[str, str | int]) -> tuple[StepTemplate, ...]:
    """Return a message's steps: every matching rule in table order, as far as it can get.

    `values` are the row's columns named by `table.columns`.
    """
    return steps_of(matching_rules(table, values))


def steps_of(matching: Iterable[Rule]) -> tuple[StepTemplate, ...]:
    """Return the steps of a message that meets these rules, given in the order of their table.

    What follows an IGNORE or a DISCARD is never reached.
    """
    steps = []
    for rule in matching:
        steps.append(_template(rule))
        if rule.cannot_fail:
            break
    return tuple(steps)


def needs_a_dlh(rule: Rule) -> str:
    """Return what a rule takes from the MQDLH or the MQMD to find its target, as it is written.

    Such a rule cannot be carried out on a message without a valid MQDLH. "" for any other rule.
    """
    target_q, target_q_mgr = _targets(rule)
    if rule.action is Action.RETRY:
        return "ACTION(RETRY)"
    if target_q.column:
        return f"FWDQ({rule.fwd_q})"
    return f"FWDQM({rule.fwd_q_mgr})" if target_q_mgr.column else ""


def steps_without_a_dlh(table: RulesTable) -> tuple[Step, ...]:
    """Return what a given action does with a named message that has no valid MQDLH.

    `table` is that action. FWD puts such a message as it is, whatever HEADER says: there is no
    MQDLH that could be removed. No steps where the action needs an MQDLH.
    """
    (rule,) = table.rules
    if needs_a_dlh(rule):
        return ()
    template = _template(rule)
    return (resolve(replace(template, header=rule.action is Action.FWD), {}),)


def resolve(template: StepTemplate, row: Mapping[str, str | None]) -> Step:
    """Fill in the targets from the message's own row."""
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

    It is taken in levels, so that Spark computes it without collecting rows: what is done is
    digested once for all messages that are treated alike, the rows of 4096 consecutive browse
    numbers make a bucket's digest, those of the buckets make the hash. What explains a row (see
    `PlannedMessage`) is no part of it.
    """
    plan = sha256()
    for _, bucket in groupby(rows, key=lambda row: row.browse_seq // MESSAGES_TO_A_BUCKET):
        content = sorted((row.browse_seq, row_content(row)) for row in bucket)
        plan.update(sha256(b"".join(row for _, row in content)).hexdigest().encode())
    return plan.hexdigest()


def row_content(row: PlannedMessage) -> bytes:
    """Return a row as bytes that no other row has: each value behind its length."""
    names = f"{_measured(row.queue_manager)}{_measured(row.queue)}"
    start = f"{row.browse_seq}:{len(row.message_key)}:".encode()
    treatment = bytes.fromhex(treatment_digest(row.disposition, row.steps))
    return start + row.message_key + names.encode() + treatment


@lru_cache(maxsize=4096)
def treatment_digest(disposition: str, steps: tuple[Step, ...]) -> str:
    """Return the SHA-256 (hex) over what is done with a message."""
    parts = [_measured(_HASHED.get(disposition, disposition)), _measured(len(steps))]
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
        # HEADER is FWD's alone: RETRY always puts without the MQDLH, the others put nothing.
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
    """Return what a rule's FWDQ or FWDQM stands for: `&REPLYQ` and the like name a field."""
    column = _COLUMNS.get(name, "")
    return Target(column=column) if column else Target(literal=name)


def _name(target: Target, row: Mapping[str, str | None]) -> str:
    """Take the name as MQOPEN would read it: it ends at the first NUL or at trailing blanks."""
    if not target.column:
        return target.literal
    return (row[target.column] or "").partition("\0")[0].rstrip(" ")
