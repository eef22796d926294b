"""Match a message with the rules of a table.

Values are those of a snapshot's columns: text without trailing blanks, or numbers. An absent value
or None counts as a field of blanks, or 0. No extension matches a value that is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqdlq.rules.records import Rule
from mqdlq.rules.table import RulesTable

Values = Mapping[str, Any]


def with_nuls_as_blanks(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace NULs by blanks, for handlers with `nul_as_blank`; IBM's handler does not."""
    return {
        column: value.replace("\0", " ").rstrip(" ") if isinstance(value, str) else value
        for column, value in values.items()
    }


def matches(rule: Rule, values: Values) -> bool:
    """Whether every pattern of the rule matches."""
    return all(pattern.matches(pattern.value_in(values)) for pattern in rule.patterns)


def matching_rules(table: RulesTable, values: Values) -> tuple[Rule, ...]:
    r"""Return all rules that match the message, in the order of the table.

    >>> from mqdlq.rules import parse
    >>> table = parse("REASON(2053) ACTION(RETRY)\nDESTQ(PAY*) ACTION(IGNORE)\nACTION(DISCARD)\n")
    >>> letter = {"dlh_reason": 2085, "dlh_dest_q_name": "PAYMENTS"}
    >>> [rule.action.name for rule in matching_rules(table, letter)]
    ['IGNORE', 'DISCARD']
    """
    return tuple(rule for rule in table.rules if matches(rule, values))
