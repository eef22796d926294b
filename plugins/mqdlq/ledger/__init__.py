"""The ledger: the intents, attempts and outcomes of runs, as facts that are only added.

`open_ledger` opens it; a `Ledger` has one repository for each aggregate. SQL is written in this
package only.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sqlalchemy import Engine

from mqdlq import directories
from mqdlq.ledger.access import shown
from mqdlq.ledger.accounts import Accounts, LastAccount, RecordedVerdict, Sighting
from mqdlq.ledger.alerts import Alerts
from mqdlq.ledger.archive import Archive, ArchivedCopy, CopyId, MessageRepair
from mqdlq.ledger.attempts import Attempt, Attempts
from mqdlq.ledger.audit import Audit, AuditEvent
from mqdlq.ledger.controls.evidence import EvidenceCheck, EvidenceChecks
from mqdlq.ledger.controls.identities import Departure, Identities, Identity
from mqdlq.ledger.controls.meters import Meter, Meters, Rate, Reservation
from mqdlq.ledger.controls.ramps import AwaitedTarget, CauseAttempt, Ramps, RampState, Subject
from mqdlq.ledger.database import connect_to
from mqdlq.ledger.epochs import Epoch, Epochs
from mqdlq.ledger.impatient import connect_impatiently
from mqdlq.ledger.messages import BrowseOrderReader, Listed, Messages, RunMessage
from mqdlq.ledger.migrations import migrate, require_current
from mqdlq.ledger.outcomes import (
    HistoryRow,
    Learned,
    LearnedCount,
    OutcomeFact,
    Outcomes,
)
from mqdlq.ledger.plans import AcceptedPlan, Approval, OpenQuestion, Plans
from mqdlq.ledger.reading.audit import AuditFilter, AuditTrail
from mqdlq.ledger.reading.causes import (
    CauseHistories,
    CauseHistory,
    CauseSighting,
    CausesOverTime,
    CauseState,
    ObservedRun,
)
from mqdlq.ledger.reading.handled_queues import HandledQueue, HandledQueues
from mqdlq.ledger.reading.history import Histories
from mqdlq.ledger.reading.later_outcomes import (
    LaterCount,
    LaterOutcomes,
    SettledSince,
    SinceSnapshot,
)
from mqdlq.ledger.reading.message_history import MessageHistories, MessageHistory
from mqdlq.ledger.reading.message_keys import KEY_DIGITS, MessageKeyError, MessageKeys, ambiguous
from mqdlq.ledger.reading.message_states import (
    UNKNOWN_MESSAGE,
    KnownSnapshot,
    MessageState,
    MessageStates,
)
from mqdlq.ledger.reading.overview import Overview
from mqdlq.ledger.reading.rules import CountedRuns, RuleAttempt, RulesInUse, RuleUse, TablePeriod
from mqdlq.ledger.reading.run_entries import NO_REPORT, EntryKind, RunFilter
from mqdlq.ledger.reading.run_messages import OutcomeFilter, RunCounts, RunMessages, TriedCount
from mqdlq.ledger.reading.runs import Leases, ListedRun, RunLists
from mqdlq.ledger.restorations import CopyState, Restoration, Restorations
from mqdlq.ledger.retention import (
    Held,
    HistoryTotal,
    Hold,
    Holds,
    OpenFile,
    Protection,
    Prune,
    PrunedOutcome,
    PrunedRun,
    Prunes,
)
from mqdlq.ledger.runs import Look, Run, Runs
from mqdlq.ledger.settled_messages import NewlySettled, Settled, SettledLot, SettledMessages
from mqdlq.ledger.snapshots import Snapshots, TakenSnapshot

__all__ = [
    "KEY_DIGITS",
    "NO_REPORT",
    "UNKNOWN_MESSAGE",
    "AcceptedPlan",
    "Approval",
    "ArchivedCopy",
    "Attempt",
    "AuditEvent",
    "AuditFilter",
    "AwaitedTarget",
    "BrowseOrderReader",
    "CauseAttempt",
    "CauseHistory",
    "CauseSighting",
    "CauseState",
    "CausesOverTime",
    "CopyId",
    "CopyState",
    "CountedRuns",
    "Departure",
    "EntryKind",
    "Epoch",
    "EvidenceCheck",
    "HandledQueue",
    "Held",
    "HistoryRow",
    "HistoryTotal",
    "Hold",
    "Identity",
    "KnownSnapshot",
    "LastAccount",
    "LaterCount",
    "Learned",
    "LearnedCount",
    "Ledger",
    "Listed",
    "ListedRun",
    "Look",
    "MessageHistory",
    "MessageKeyError",
    "MessageRepair",
    "MessageState",
    "Meter",
    "NewlySettled",
    "ObservedRun",
    "OpenFile",
    "OpenQuestion",
    "OutcomeFact",
    "OutcomeFilter",
    "Protection",
    "Prune",
    "PrunedOutcome",
    "PrunedRun",
    "RampState",
    "Rate",
    "RecordedVerdict",
    "Reservation",
    "Restoration",
    "RuleAttempt",
    "RuleUse",
    "Run",
    "RunCounts",
    "RunFilter",
    "RunMessage",
    "Settled",
    "SettledLot",
    "SettledSince",
    "Sighting",
    "SinceSnapshot",
    "Subject",
    "TablePeriod",
    "TakenSnapshot",
    "TriedCount",
    "ambiguous",
    "open_impatiently",
    "open_ledger",
]


class Ledger:
    """An open ledger: its repositories, over one engine.

    Facts are never updated, and only a prune deletes them; adding a fact twice is an error. The
    exceptions are a meter, which each use of a limited rate updates, and the last number of an
    epoch.
    """

    def __init__(self, engine: Engine) -> None:
        """Read and write a migrated database."""
        self.engine = engine
        self.epochs = Epochs(engine)
        self.runs = Runs(engine)
        self.snapshots = Snapshots(engine)
        self.handled_queues = HandledQueues(engine)
        self.causes = CauseHistories(engine)
        self.plans = Plans(engine)
        self.messages = Messages(engine)
        self.message_keys = MessageKeys(engine)
        self.attempts = Attempts(engine)
        self.identities = Identities(engine)
        self.ramps = Ramps(engine)
        self.evidence = EvidenceChecks(engine)
        self.outcomes = Outcomes(engine)
        self.settled = SettledMessages(engine)
        self.accounts = Accounts(engine)
        self.alerts = Alerts(engine)
        self.archive = Archive(engine)
        self.restorations = Restorations(engine)
        self.holds = Holds(engine)
        self.prunes = Prunes(engine)
        self.leases = Leases(engine)
        self.later = LaterOutcomes(engine)
        self.meters = Meters(engine)
        self.audit = Audit(engine)
        self.audit_trail = AuditTrail(engine)
        self.message_states = MessageStates(engine)
        self.message_histories = MessageHistories(engine)
        self.overview = Overview(engine)
        self.histories = Histories(engine)
        self.run_lists = RunLists(engine)
        self.run_messages = RunMessages(engine)
        self.rules_in_use = RulesInUse(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return shown(self.engine.url)

    def require_current(self) -> None:
        """Raise LedgerUnavailableError unless the tables are those of this version."""
        require_current(self.engine)

    def close(self) -> None:
        """Close the connections; the next use makes new ones."""
        self.engine.dispose()


def open_ledger(url: str | None = None, *, create: bool = True) -> Ledger:
    """Open the ledger at a database URL, bringing its schema up to date.

    The default is `directories.ledger_url`. Without `create` a missing SQLite file is an error: it
    may be due to a mistyped MQDLQ_HOME, and must not look like an empty history. Raises
    LedgerUnavailableError if the database cannot be reached, opened or used.
    """
    engine = connect_to(url or directories.ledger_url(), create=create)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(engine)


def open_impatiently(url: str) -> Ledger:
    """Return the ledger at a database URL for a page, which waits seconds for it at most.

    No table is created or migrated: `Ledger.require_current` says whether there are any. Raises
    LedgerUnavailableError if the URL is not valid.
    """
    return Ledger(connect_impatiently(url))
