"""The linter's codes and findings, and the limit of its work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mqdlq.rules.records import Rule


class Code(StrEnum):
    """The linter's codes; `docs/reference/rules.md` has a section for each."""

    UNREACHABLE_RULE = "unreachable-rule"
    SHADOWED_RULE = "shadowed-rule"
    EARLY_IGNORE = "early-ignore"
    NO_CATCH_ALL = "no-catch-all"
    FORWARD_TO_INPUT_QUEUE = "forward-to-input-queue"
    FORWARD_LOOP = "forward-loop"
    DISCARD_EVERYTHING = "discard-everything"
    HOPELESS_RETRY = "hopeless-retry"
    POISON_RETRY = "poison-retry"
    UNGUARDED_REPLY_QUEUE = "unguarded-reply-queue"
    DROPPED_QUEUE_MANAGER = "dropped-queue-manager"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a rule; `keyword` is its subject, or "" for the whole rule."""

    code: Code
    rule: Rule
    keyword: str
    message: str


class Effort:
    """The remaining work allowed, so that hostile tables cannot delay the linter."""

    def __init__(self, allowed: int = 400_000) -> None:
        """Allow some work; a unit takes a few microseconds."""
        self._left = allowed

    def spend(self) -> bool:
        """Spend a unit; return False if none remained."""
        self._left -= 1
        return self._left >= 0
