"""Builders for tests that talk to a queue manager through a client library."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from embedded_mq.constants import reason_text


@dataclass
class Application:
    """One connection, as an application written with the client library has it.

    Options are given by name without their prefix: ``app.open("A", "OUTPUT", "INQUIRE")``.
    """

    mqi: Any
    name: str
    handle: Any = None
    user: str = ""

    def __post_init__(self) -> None:
        if self.handle is None:
            self.handle = self.mqi.QueueManager(None)
            # Several in one thread: a handle that is not shared would be the thread's only one.
            shared = self.number("MQCNO_HANDLE_SHARE_BLOCK")
            credentials = {"user": self.user, "password": "secret"} if self.user else {}
            self.handle.connect_with_options(self.name, opts=shared, **credentials)

    def number(self, name: str) -> int:
        return int(getattr(self.mqi.CMQC, name))

    def options(self, family: str, names: tuple[str, ...]) -> int:
        return sum(self.number(f"{family}_{name}") for name in names)

    def open(self, queue: str, *options: str, q_mgr: str = "") -> Any:
        descriptor = self.mqi.OD(ObjectName=queue.encode(), ObjectQMgrName=q_mgr.encode())
        return self.mqi.Queue(self.handle, descriptor, self.options("MQOO", options))

    def md(self, **fields: Any) -> Any:
        return self.mqi.MD(**{"Version": 2, **fields})

    def pmo(self, *options: str, **fields: Any) -> Any:
        return self.mqi.PMO(
            **{"Version": 3, "Options": self.options("MQPMO", options), "PubLevel": 9, **fields}
        )

    def gmo(self, *options: str, **fields: Any) -> Any:
        return self.mqi.GMO(**{"Version": 4, "Options": self.options("MQGMO", options), **fields})

    def put(self, queue: Any, body: bytes = b"body", *options: str, **fields: Any) -> Any:
        """Put a message and return its descriptor; `queue` is open, or a name for MQPUT1."""
        md, pmo = self.md(**fields), self.pmo(*options)
        if isinstance(queue, str):
            self.handle.put1(queue.encode(), body, md, pmo)
        else:
            queue.put(body, md, pmo)
        return md

    def get(self, queue: Any, *options: str, **match: Any) -> tuple[bytes, Any]:
        """Get a message and its descriptor from an open queue; `match` are MQMD fields."""
        md = self.md(**match)
        return queue.get(None, md, self.gmo(*options)), md

    def bodies(self, queue: str) -> list[bytes]:
        """Browse a queue to its end."""
        opened = self.open(queue, "BROWSE")
        found = []
        with self.failing("MQRC_NO_MSG_AVAILABLE"):
            while True:
                found.append(self.get(opened, "BROWSE_NEXT")[0])
        opened.close()
        return found

    def depth(self, queue: str) -> int:
        opened = self.open(queue, "INQUIRE")
        depth = opened.inquire(self.number("MQIA_CURRENT_Q_DEPTH"))
        opened.close()
        return int(depth)

    def failing(self, reason: str) -> pytest.RaisesExc[Any]:
        """Expect the block to end with this reason code."""

        def has_reason(error: Any) -> bool:
            return reason_text(error.reason).split()[0] == reason

        return pytest.raises(self.mqi.MQMIError, check=has_reason)

    def disconnect(self) -> None:
        with suppress(self.mqi.MQMIError, self.mqi.PYIFError):
            self.handle.disconnect()
