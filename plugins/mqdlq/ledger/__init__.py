"""The ledger: the intents, attempts and outcomes of runs, as facts that are only added.

`open_ledger` opens it; a `Ledger` has one repository for each aggregate. SQL is written in this
package only.
"""

from typing import Self

import sqlalchemy as sa

from mqdlq import directories
from mqdlq.ledger.access import shown
from mqdlq.ledger.archive import Archive, Restorations
from mqdlq.ledger.attempts import Attempts
from mqdlq.ledger.audit import Audit, Epochs
from mqdlq.ledger.controls import EvidenceChecks, Identities, Meters, Ramps
from mqdlq.ledger.database import connect_to, refuse_changes
from mqdlq.ledger.inbox import CauseChanges, Diagnoses, Inbox
from mqdlq.ledger.messages import Messages, Outcomes
from mqdlq.ledger.migrations import migrate, require_current
from mqdlq.ledger.reading.audit import AuditTrail
from mqdlq.ledger.reading.history import CauseHistories, Histories
from mqdlq.ledger.reading.later_outcomes import LaterOutcomes
from mqdlq.ledger.reading.message_facts import KnownMessages
from mqdlq.ledger.reading.rules import RulesInUse
from mqdlq.ledger.reading.run_messages import RunMessages
from mqdlq.ledger.reading.runs import HandledQueues, RunLists
from mqdlq.ledger.retention import Holds, Prunes
from mqdlq.ledger.runs import Accounts, Alerts, Runs
from mqdlq.ledger.snapshots import Plans, SettledMessages, Snapshots


class Ledger:
    """An open ledger: its repositories, over one engine.

    Facts are never updated, and only a prune deletes them; adding a fact twice is an error. The
    exceptions are a meter, which each use of a limited rate updates, the last number of an epoch,
    and the numbers of the inbox, which a later look at a queue replaces.
    """

    def __init__(self, engine: sa.Engine) -> None:
        """Read and write a migrated database."""
        self.engine = engine
        self.epochs = Epochs(engine)
        self.runs = Runs(engine)
        self.snapshots = Snapshots(engine)
        self.handled_queues = HandledQueues(engine)
        self.causes = CauseHistories(engine)
        self.inbox = Inbox(engine)
        self.cause_changes = CauseChanges(engine)
        self.diagnoses = Diagnoses(engine)
        self.plans = Plans(engine)
        self.messages = Messages(engine)
        self.message_facts = KnownMessages(engine)
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
        self.later = LaterOutcomes(engine)
        self.meters = Meters(engine)
        self.audit = Audit(engine)
        self.audit_trail = AuditTrail(engine)
        self.histories = Histories(engine)
        self.run_lists = RunLists(engine)
        self.run_messages = RunMessages(engine)
        self.rules_in_use = RulesInUse(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return shown(self.engine.url)

    def require_current(self) -> None:
        """Raise LedgerUnavailableError unless the tables are those of this version."""
        require_current(self.engine)

    def reading(self) -> Self:
        """Return the same ledger, which refuses every statement that would change it."""
        return type(self)(refuse_changes(self.engine))

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
