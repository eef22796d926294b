"""Make a check so that no run fails for it: each exception becomes the trouble of the check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from mqdlq.errors import MqDlqError
from mqdlq.ledger import EvidenceCheck
from mqdlq.resources import Execution


@dataclass(slots=True)
class Checking:
    """A check that is being made: its result so far."""

    check: EvidenceCheck

    @contextmanager
    def noting_trouble(self, execution: Execution, what: str) -> Iterator[None]:
        """Log any exception of the block, and note it as the trouble of the check.

        Of an exception that is not of this project only the class is named: its text may have data
        of messages. A signal to end the process still ends it.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 (no run depends on evidence)
            unexpected = f"unexpected {type(error).__name__}"
            trouble = error.text if isinstance(error, MqDlqError) else unexpected
            self.check = replace(self.check, trouble=trouble)
            execution.log.warning(
                "the %s of %s cannot be checked: %s; the run continues without this check"
                " [MQDLQ-138]",
                what,
                execution.run.queue,
                trouble,
            )
