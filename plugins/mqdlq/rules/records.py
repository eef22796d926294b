"""Frozen records of a rules table: control data, rules, and the patterns of a rule.

Records with the same meaning are equal: the line of a rule and the written order of its keywords
are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mqdlq.model import Action, PutAuthority
from mqdlq.rules.extensions import SEPARATOR, condition_of, value_of
from mqdlq.rules.keywords import KNOWN, Kind
from mqdlq.rules.wildcards import compiled


@dataclass(frozen=True)
class Pattern:
    """The value that a rule requires of one column: canonical text ("" for blank) or a number.

    The value of an extension is its canonical condition. `place` is the position among the keywords
    of the rule as written.
    """

    keyword: str
    column: str
    value: str | int
    place: int = field(default=0, compare=False)

    @property
    def is_extension(self) -> bool:
        return KNOWN[self.keyword].is_extension

    def value_in(self, values: Mapping[str, Any]) -> str | int | None:
        keyword = KNOWN[self.keyword]
        return value_of(keyword, values) if keyword.is_extension else values.get(self.column)

    def matches(self, actual: str | int | None) -> bool:
        """Whether a message's value matches; None is a field of blanks, or 0."""
        if isinstance(self.value, int):
            return (actual or 0) == self.value
        keyword = KNOWN[self.keyword]
        if keyword.kind is Kind.PROPERTY:
            return self.value in str(actual or "").split(SEPARATOR)
        if keyword.is_extension and keyword.kind is not Kind.CHAIN:
            return condition_of(keyword, self.value).matches(int(actual or 0))
        length = keyword.length
        return self._compiled.match(str(actual or "").ljust(length)) is not None

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return compiled(str(self.value))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `ordinal` counts from 1, and `line` is the first line of its entry.

    `patterns` are in the order of the keyword table, without single ``*`` patterns, which match
    every message. `fwd_q` is a queue name, ``&DESTQ`` or ``&REPLYQ``; `fwd_q_mgr` is a queue
    manager name, ``&DESTQM``, ``&REPLYQM``, or "" for the local queue manager. Keywords that the
    action does not use have their defaults: PUTAUT with DISCARD, for example, or RETRY with IGNORE.
    """

    ordinal: int
    line: int = field(compare=False)
    patterns: tuple[Pattern, ...]
    action: Action
    fwd_q: str = ""
    fwd_q_mgr: str = ""
    header: bool = True
    put_authority: PutAuthority = PutAuthority.DEF
    retry: int = 1

    @property
    def extensions(self) -> tuple[str, ...]:
        """The names of the rule's extensions as the YAML form has them."""
        return tuple(each.keyword.lower() for each in self.patterns if each.is_extension)

    @property
    def cannot_fail(self) -> bool:
        """Whether no later rule is tried on a message that matches this one."""
        return self.action in (Action.IGNORE, Action.DISCARD)


@dataclass(frozen=True, slots=True)
class ControlData:
    """The control data; `wait_s` is None for WAIT(YES), without limit, and 0 for WAIT(NO)."""

    input_q: str = ""
    input_q_mgr: str = ""
    retry_interval_s: int = 60
    wait_s: int | None = None
