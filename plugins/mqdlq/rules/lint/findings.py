"""What the linter can find: a code for each, with rule, keyword and message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mqdlq.rules.records import Rule


class Code(StrEnum):
    """The linter's codes; `docs/rules-guide.md` has a section for each."""

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
    """One doubt about a rule; `keyword` is the one at fault, "" the rule as a whole."""

    code: Code
    rule: Rule
    keyword: str
    message: str
