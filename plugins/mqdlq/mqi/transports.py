"""Find the provider of transport `embedded`, which is a separate distribution.

An entry point names it, so that the product does not import it and production can omit it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from mqdlq.errors import TransportError

GROUP = "mqdlq.transports"
EMBEDDED = "embedded"


class EmbeddedQueueManagers(Protocol):
    """The interface of the entry point `embedded` in group `mqdlq.transports`."""

    @property
    def EmbeddedQueueManagerError(self) -> type[Exception]:  # noqa: N802 (a class)
        """The base class of the functions' errors, whose text is written for people."""

    def install(self) -> None:
        """Connect both MQ clients to the embedded queue managers; may be called repeatedly."""

    def in_directory(self, directory: Path | str) -> AbstractContextManager[None]:
        """Let names mean the queue managers of this directory within the block."""

    def exists(self, name: str) -> bool:
        """Return whether a queue manager of this name exists."""

    def shadows(self, name: str) -> bool:
        """Return whether this name means an embedded queue manager to this process's clients."""

    def names(self) -> list[str]:
        """Return the names of the queue managers."""

    def create(self, name: str) -> Path:
        """Create a queue manager, and return its directory."""

    def run_mqsc(self, name: str, text: str) -> list[str]:
        """Run MQSC commands on a queue manager, all or none; return a line for each command."""


@cache
def find_provider() -> EmbeddedQueueManagers | None:
    for entry_point in entry_points(group=GROUP, name=EMBEDDED):
        provider: EmbeddedQueueManagers = entry_point.load()
        return provider
    return None


@contextmanager
def embedded(user: str) -> Iterator[EmbeddedQueueManagers]:
    """Yield the provider, for what `user` names, and turn its errors into TransportError."""
    provider = find_provider()
    if provider is None:
        raise TransportError("MQDLQ-108", missing_text(user))
    try:
        yield provider
    except provider.EmbeddedQueueManagerError as error:
        text = str(error).replace("`embedded-mq ", "`mqdlq qm ")  # the name of our command
        raise TransportError("MQDLQ-109", text) from error


def missing_text(user: str) -> str:
    """Return the error text for a missing embedded-mq; `user` names what needs it."""
    return (
        f"{user} needs the distribution embedded-mq, which is not installed;"
        " the extra `embedded` of mqdlq installs it"
    )
