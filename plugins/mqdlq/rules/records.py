"""What a rules table says, as frozen records: control data, rules, and the patterns of a rule.

Two records are equal where they mean the same: the line a rule stands on and the order its keywords
were written in are for people only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from mqdlq.model import Action, PutAuthority
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.rules.wildcards import compiled


@dataclass(frozen=True)
class Pattern:
    """What a rule asks of one column: text (`value` canonical, "" all blank) or a number.

    `place` is where it stood among the keywords of its rule as written.
    """

    keyword: str
    column: str
    value: str | int
    place: int = field(default=0, compare=False)

    def matches(self, actual: str | int | None) -> bool:
        """Say whether a message's value matches; None is a field of blanks, or 0."""
        if isinstance(self.value, int):
            return (actual or 0) == self.value
        length = KEYWORDS[self.keyword].length
        return self._compiled.match(str(actual or "").ljust(length)) is not None

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return compiled(str(self.value))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `ordinal` counts from 1, `line` is where its entry begins.

    `patterns` stand in the order of the keyword table; a lone ``*`` asks nothing and is not among
    them. `fwd_q` is a queue name, ``&DESTQ`` or ``&REPLYQ``; `fwd_q_mgr` a queue manager name,
    ``&DESTQM``, ``&REPLYQM``, or "" for the local queue manager. What an action never consults has
    its default: PUTAUT where nothing is put, RETRY where nothing is tried.
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
    def cannot_fail(self) -> bool:
        """Whether no rule after this one is tried on a message that matches it."""
        return self.action in (Action.IGNORE, Action.DISCARD)


@dataclass(frozen=True, slots=True)
class ControlData:
    """The control data; `wait_s` None is WAIT(YES), to wait for ever, and 0 is WAIT(NO)."""

    input_q: str = ""
    input_q_mgr: str = ""
    retry_interval_s: int = 60
    wait_s: int | None = None
