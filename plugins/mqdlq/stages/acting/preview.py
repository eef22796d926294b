"""The effect of an action on messages, and the run that would carry it out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from mqdlq.handlers import Handler
from mqdlq.model import Action
from mqdlq.stages.acting.asked_action import AskedAction, Verb
from mqdlq.stages.acting.candidates import MOST, Candidate, Selection, Sources, find_candidates
from mqdlq.stages.approve import PlannedMoves, ask_about
from mqdlq.stages.page_paths import DAG_PREFIX, dag_of
from mqdlq.stages.report.wording import place

SOON: Final = timedelta(days=1)
RESTORE_DAG: Final = f"{DAG_PREFIX}restore"


@dataclass(frozen=True, slots=True)
class Preview:
    """The messages that an action would take, and the others of the selection.

    `is_capped` says that the selection has more than `MOST` messages: nothing can be started.
    """

    handler: str
    asked: AskedAction
    selection: Selection
    ready: tuple[Candidate, ...]
    left_out: tuple[Candidate, ...]
    is_capped: bool
    soon_expired: int
    needs_reason: bool
    second_person: bool
    guards: tuple[str, ...] = ()
    """Why else the run will wait until a person approves its plan."""

    @property
    def messages(self) -> int:
        """The number of messages that the action would take; equal messages have one key."""
        return sum(one.number for one in self.ready)

    @property
    def size(self) -> int:
        """The bytes of these messages."""
        return sum(one.size * one.number for one in self.ready)

    @property
    def can_start(self) -> bool:
        """Whether a run can be started."""
        return bool(self.ready) and not self.is_capped

    @property
    def dag_id(self) -> str:
        """The DAG whose run carries the action out."""
        return RESTORE_DAG if self.asked.verb is Verb.RESTORE else dag_of(self.handler)

    @property
    def where(self) -> str:
        """The queue that the messages are on, or were discarded from."""
        return place(self.ready[0].queue, self.ready[0].queue_manager) if self.ready else ""

    def counts(self, kind: str) -> list[tuple[str, int]]:
        """Count the messages by a field of `Candidate`, the most frequent first."""
        return _counted(self.ready, lambda one: str(getattr(one, kind)))

    @property
    def obstacles(self) -> list[tuple[str, int]]:
        """Why messages are left out, and how many."""
        return _counted(self.left_out, lambda one: one.obstacle)

    @property
    def digest(self) -> str:
        """A digest of the action and its messages, by which a changed selection is noticed."""
        content = [
            self.handler,
            self.asked.parameters(),
            self.selection.run_id,
            sorted((one.message_key, one.number) for one in self.ready),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def conf(self, *, dry_run: bool, why: str) -> dict[str, Any]:
        """Return the parameters of the DAG run."""
        keys = sorted({one.message_key for one in self.ready})
        given: dict[str, Any] = {"message_keys": keys, "dry_run": dry_run, "why": why or None}
        if self.asked.verb is not Verb.RESTORE:
            first = self.ready[0]
            if self.asked.repair is not None:
                given["repair"] = json.loads(self.asked.repair.text)
            return given | {
                "action": self.asked.rule,
                "input_q": first.queue,
                "input_q_mgr": first.queue_manager,
            }
        return given | {
            "handler": self.handler,
            "run": self.selection.run_id or None,
            "to_queue": self.asked.to_queue or None,
            "to_queue_manager": self.asked.to_queue_manager or None,
            "header": self.asked.header,
        }


def build_preview(
    selection: Selection, asked: AskedAction, handler: Handler | None, sources: Sources
) -> Preview:
    """Resolve a selection; `handler` is the configuration, None if it cannot be read here.

    Raises FilterError, LakeError and MessageKeyError.
    """
    keys = sources.ledger.message_keys.complete(selection.message_keys, [sources.handler])
    selection = replace(selection, message_keys=keys)
    found = find_candidates(selection, asked, sources)
    now = sources.clock()
    ready = tuple(one for one in found if not one.obstacle)
    return Preview(
        handler=sources.handler,
        asked=asked,
        selection=selection,
        ready=ready[:MOST],
        left_out=tuple(one for one in found if one.obstacle),
        is_capped=len(found) > MOST,
        soon_expired=sum(
            one.number for one in ready if one.expires_at and one.expires_at <= now + SOON
        ),
        needs_reason=handler is not None and handler.require_reason,
        second_person=handler is not None and asked.verb.guarded in handler.approval.second_person,
        guards=_guards(asked, ready[:MOST], handler, sources) if handler is not None else (),
    )


_ACTIONS: Final = {
    Verb.RETRY: Action.RETRY,
    Verb.FORWARD: Action.FWD,
    Verb.DISCARD: Action.DISCARD,
    Verb.LEAVE: Action.IGNORE,
}


def _guards(
    asked: AskedAction, ready: Sequence[Candidate], handler: Handler, sources: Sources
) -> tuple[str, ...]:
    """Return what the guards of the handler will ask about the action, as far as is known now."""
    if not ready or asked.verb not in _ACTIONS:
        return ()
    place = (handler.name, ready[0].queue_manager, ready[0].queue)
    newest = sources.ledger.handled_queues.newest_run(*place)
    taken = sources.ledger.handled_queues.newest_snapshot(*place)
    if newest is None:
        return ()
    run = replace(newest, run_id="", rules_digest="", dry_run=False, repair="")
    messages = sum(one.number for one in ready)
    moves = PlannedMoves(messages if asked.moves else 0, Counter({_ACTIONS[asked.verb]: messages}))
    if asked.verb is Verb.FORWARD:
        moves.targets = {(asked.to_queue, asked.to_queue_manager)}
    elif asked.verb is Verb.RETRY:
        moves.targets = {one.target for one in ready}
    guards = handler.approval.model_copy(update={"second_person": ()})  # the page names it apart
    found = ask_about(run, guards, moves, sources.ledger, snapshot_of=taken.run_id if taken else "")
    return tuple(question.text for question in found)


def _counted(some: Sequence[Candidate], words: Callable[[Candidate], str]) -> list[tuple[str, int]]:
    counted = Counter[str]()
    for one in some:
        counted[words(one)] += one.number
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
