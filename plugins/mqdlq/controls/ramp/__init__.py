"""Ramps and breakers: the keys of a handler that let only some messages of a cause move."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from mqdlq.controls import Keys

_LONGEST = timedelta(days=1)

Count = Annotated[int, Field(ge=1)]


class Ramp(Keys):
    """How many messages of a cause move to a target before the others follow."""

    steps: Annotated[tuple[Count, ...], Field(min_length=1, max_length=20)] = (1, 10, 100)
    """Number of messages in each step. After the last step, all others move."""
    watch: Annotated[timedelta, Field(gt=timedelta(0), le=_LONGEST)] = timedelta(minutes=1)
    """Time between a step and the next one, at most a day."""
    max_depth_growth: Annotated[int | None, Field(ge=0)] = None
    """How many messages more than before the step the target may hold for the next step; unset: as
    many as the step has."""
    consumers: Annotated[int, Field(ge=0)] = 0
    """How many handles must have the target open for input (IPPROCS) for the next step."""
    consumed: bool = False
    """Require for the next step that the target is empty, or holds fewer messages than before the
    step."""
    forget_after: Annotated[timedelta, Field(gt=timedelta(0))] = timedelta(days=1)
    """After this time without a moved message, a ramp starts again at its first step. It is longer
    than `watch`."""

    @model_validator(mode="after")
    def _remembers_for_longer_than_it_watches(self) -> Self:
        if self.forget_after <= self.watch:
            raise ValueError(
                f"forget_after {self.forget_after} is not longer than watch {self.watch}: the ramp"
                " would start again before its next step"
            )
        return self


class Breaker(Keys):
    """When the messages of a cause stop moving to a target, and for how long."""

    returns: Annotated[int, Field(ge=1)] = 1
    """Number of moved messages that came back and open the breaker."""
    failures: Annotated[int, Field(ge=1)] = 5
    """Number of failed puts in a row that open the breaker."""
    pause: Annotated[timedelta, Field(gt=timedelta(0), le=_LONGEST)] = timedelta(minutes=10)
    """Time for which an open breaker holds all messages, at most a day. Then one message is
    tried."""
    watch: Annotated[timedelta, Field(gt=timedelta(0), le=_LONGEST)] = timedelta(minutes=1)
    """Time after which the breaker closes if the one message has not come back, at most a day; a
    ramp uses its own `watch`."""
