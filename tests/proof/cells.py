"""The cells of the proof: each combination of queue manager, client and transport.

`.github/workflows/ibm-mq.yml` has the same cells; tests/unit/deploy/test_workflows.py compares
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

EMBEDDED: Final = "embedded"
IMAGES: Final[Mapping[str, str]] = {
    "9.3": "icr.io/ibm-messaging/mq:9.3.5.1-r2",
    "9.4": "icr.io/ibm-messaging/mq:9.4.0.25-r2",
    "10.0": "icr.io/ibm-messaging/mq:10.0.0.5-r1",
}
"""IBM's developer image for each release of IBM MQ."""

CLIENTS: Final = ("pymqi", "ibmmq")
TRANSPORTS: Final = ("client", "tls")

PROOFS: Final[Mapping[str, str]] = {
    "contract": "contract tests",
    "demo": "demo",
    "least_privilege": "least privilege",
    "kills": "kills in flight",
}
"""The proofs of a cell by their names in result files, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination. `queue_manager` is a release of IBM MQ, such as 9.4, or EMBEDDED."""

    queue_manager: str
    client: str
    transport: str

    @property
    def name(self) -> str:
        """The name of the cell's result file, without its suffix."""
        parts = (self.queue_manager, self.client, self.transport)
        return "-".join(dict.fromkeys(parts))

    @property
    def command(self) -> str:
        """The command that runs the proof of this cell."""
        if self.queue_manager == EMBEDDED:
            return f"make prove CLIENT={self.client}"
        image = IMAGES[self.queue_manager]
        return (
            f"make compose-prove MQ_IMAGE={image} CLIENT={self.client} TRANSPORT={self.transport}"
        )


def cells() -> tuple[Cell, ...]:
    """Return all cells: those of the embedded queue manager, then those of IBM MQ."""
    return (
        *(Cell(EMBEDDED, client, EMBEDDED) for client in CLIENTS),
        *(
            Cell(release, client, transport)
            for release in IMAGES
            for client in CLIENTS
            for transport in TRANSPORTS
        ),
    )
