"""Hold messages while their destination would refuse them, without trying one."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from mqdlq.controls import Keys


class UntilFixed(Keys):
    """How often the queue manager is asked what a put to a destination would meet."""

    look_every: Annotated[timedelta, Field(ge=timedelta(seconds=10), le=timedelta(days=1))] = (
        timedelta(minutes=1)
    )
    """Time between two looks at a destination that refuses messages, at least ten seconds."""
