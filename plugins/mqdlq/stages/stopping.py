"""Stop a run in an orderly way: after its open unit of work, with its account closed."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, TypeVar

from mqdlq.errors import ExecutionError
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import AuditEvent, Run
from mqdlq.model import AuditKind
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.words import moment

EVERY: Final = timedelta(seconds=1)
"""How often a pass looks whether it is to stop."""


T = TypeVar("T")


def find_stop(run: Run, ledger: Ledger) -> Reason | None:
    """Return why a run moves no further message if a person has asked it to stop, or None."""
    stop = ledger.audit.stop_of(run.run_id)
    return Why.STOPPED(who=stop.who, why=stop.why) if stop else None


class StopWatch:
    """Looks in the ledger whether a run is to stop, at most once in EVERY."""

    def __init__(self, execution: Execution) -> None:
        self._run_id, self._audit = execution.run.run_id, execution.ledger.audit
        self._clock, self._log = execution.clock, execution.log
        self._is_asked, self._next_look = False, execution.clock()

    def before(self, found: Iterable[T]) -> Iterator[T]:
        """Yield what is found before the run is to stop."""
        return takewhile(lambda _: not self.is_asked(), found)

    def is_asked(self) -> bool:
        if not self._is_asked and (now := self._clock()) >= self._next_look:
            self._next_look = now + EVERY
            if stop := self._audit.stop_of(self._run_id):
                self._is_asked = True
                self._log.info("the run stops: %s has asked for it", stop.who)
        return self._is_asked


def ask_to_stop(run: Run, ledger: Ledger, who: str, why: str, now: datetime) -> AuditEvent:
    """Ask a run to stop after its open unit of work; return the first request for it.

    Raises ExecutionError if the run has ended, with its account or with its report.
    """
    account, report = ledger.accounts.of_run(run.run_id), ledger.accounts.verdict_of(run.run_id)
    if account or report:
        at = f" at {moment(account.at)}" if account else ""
        raise ExecutionError(
            "MQDLQ-631", f"run {run.run_id} has ended{at}, so that there is nothing to stop"
        )
    event = AuditEvent(now, AuditKind.STOP_ASKED, who, run.handler, run.run_id, why=why)
    ledger.audit.record_once(event, "what", "run_id")
    return ledger.audit.stop_of(run.run_id) or event
