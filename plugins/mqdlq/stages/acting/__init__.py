"""Prepare an action of a person on messages: what it would do to which of them.

Nothing is done here. A run of the handler, or of the restore DAG, carries the action out.
"""

from __future__ import annotations

from mqdlq.stages.acting.asked_action import (
    ActionError,
    AskedAction,
    Verb,
    action_of_rule,
    parse_action,
)
from mqdlq.stages.acting.candidates import MOST, Candidate, Selection
from mqdlq.stages.acting.preview import Preview, build_preview

__all__ = [
    "MOST",
    "ActionError",
    "AskedAction",
    "Candidate",
    "Preview",
    "Selection",
    "Verb",
    "action_of_rule",
    "build_preview",
    "parse_action",
]
