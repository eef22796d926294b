"""Evidence: the keys of a handler that use what the queue manager records about its queue."""

from typing import Annotated

from pydantic import Field

from mqdlq.controls import Keys


class Evidence(Keys):
    """The records of a queue manager that a handler uses; no outcome depends on them."""

    depth_events: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")] = None
    """Event queue to browse for queue depth events, usually `SYSTEM.ADMIN.PERFM.EVENT`: an event
    ends the pause between two looks at the depth. Unset: the depth is polled."""
    stream: bool = False
    """Browse the stream queue of the dead-letter queue (its STREAMQ) at each snapshot, and report
    messages that came and left since the last one."""
    statistics: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")] = None
    """Queue to browse for statistics messages at each snapshot, usually
    `SYSTEM.ADMIN.STATISTICS.QUEUE`: the report says how many gets they count beyond those of
    runs."""
