"""Proposals of agents: which messages one is for, and whose agents proposed them for a run.

A proposal is an event of the audit. A run is the one that was proposed if it is for the very same
messages, however it was started and whatever it does with them.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Final

from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.tables import AuditEvent, Run
from mqdlq.model import AuditKind

THROUGH: Final = " through agent "
"""Between the name of a person and the name that the agent gives itself, in the audit."""
WITH: Final = " with "
"""Between the words of a proposal, which are its hash and its marks, and its arguments as JSON."""
_DIGITS: Final = 16


def mark_of(message_keys: Sequence[str], where: str, as_of: str) -> str:
    """Return a mark of the messages that a run is for: those with keys, or with a condition."""
    content = json.dumps([sorted(message_keys), where, as_of])
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def proposals_of(handler: str, word: str, ledger: Ledger) -> list[AuditEvent]:
    """Return the proposals for a handler whose details have a word: a plan's hash, or a mark."""
    wanted = AuditFilter(what=AuditKind.PLAN_PROPOSED, handler=handler)
    return [
        one
        for one in ledger.audit_trail.events(wanted)
        if word in one.details.partition(WITH)[0].split()
    ]


def find_proposer(run: Run, names: Iterable[str], ledger: Ledger) -> str:
    """Return who of the persons with these names proposed a run through an agent, or ""."""
    if not run.is_for_some:
        return ""
    mark = mark_of(run.message_keys, run.condition, run.as_of)
    beginnings = tuple(f"{name}{THROUGH}".casefold() for name in names if name)
    found = (one.who for one in proposals_of(run.handler, mark, ledger))
    return next((who for who in found if who.casefold().startswith(beginnings)), "")
