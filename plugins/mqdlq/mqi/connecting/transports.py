"""The queue managers behind transport `embedded`, which a distribution of its own provides.

It is found through an entry point, so that nothing here imports it and production does without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from mqdlq.errors import TransportError

GROUP = "mqdlq.transports"
EMBEDDED = "embedded"


class EmbeddedQueueManagers(Protocol):
    """What the entry point `embedded` of group `mqdlq.transports` names: a module, for example."""

    @property
    def EmbeddedQueueManagerError(self) -> type[Exception]:  # noqa: N802 (a class)
        """The base of the errors that the functions raise; its text is made for people."""

    def install(self) -> None:
        """Put the queue managers below both MQ clients; may be called again."""

    def exists(self, name: str) -> bool:
        """Whether there is a queue manager of this name."""

    def shadows(self, name: str) -> bool:
        """Whether the clients of this process reach one of these queue managers by this name."""

    def names(self) -> list[str]:
        """Return the names of the queue managers."""

    def create(self, name: str) -> Path:
        """Create a queue manager, and return its directory."""

    def run_mqsc(self, name: str, text: str) -> list[str]:
        """Run MQSC commands on a queue manager, all or none; return a line for each."""


@cache
def installed() -> EmbeddedQueueManagers | None:
    """Return what provides transport `embedded`, or None where it is not installed."""
    for entry_point in entry_points(group=GROUP, name=EMBEDDED):
        provider: EmbeddedQueueManagers = entry_point.load()
        return provider
    return None


@contextmanager
def embedded(user: str) -> Iterator[EmbeddedQueueManagers]:
    """Yield what provides transport `embedded`; its errors become ours (TransportError).

    Raises TransportError if it is not installed; `user` says what needs it.
    """
    provider = installed()
    if provider is None:
        raise TransportError(missing(user))
    try:
        yield provider
    except provider.EmbeddedQueueManagerError as error:
        raise TransportError(in_our_words(str(error))) from error


def missing(user: str) -> str:
    """Return what to do where the embedded queue manager is needed and not installed."""
    return (
        f"{user} needs the distribution embedded-mq, which is not installed;"
        " `pip install ./embedded_mq` in the project's directory installs it"
    )


def in_our_words(text: str) -> str:
    """Return an error of the distribution that advises its command under our name."""
    return text.replace("`embedded-mq ", "`mqdlq qm ")
