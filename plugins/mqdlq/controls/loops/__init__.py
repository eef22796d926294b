"""Loops: the keys of a handler that quarantine messages which come back."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from mqdlq.controls import Keys


class Quarantine(Keys):
    """The place of quarantined messages: a queue, or the dead-letter queue itself."""

    forward: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")] = None


class Loops(Keys):
    """The limit of round trips, after which no rule moves a message."""

    limit: Annotated[int, Field(ge=1, le=20)] = 3
    """A message that has come back so often is quarantined: no rule moves it."""
    then: Quarantine = Quarantine()
    """`leave`: a quarantined message stays on the dead-letter queue. `forward:` with a queue: it is
    forwarded there with its MQDLH."""

    @field_validator("then", mode="before")
    @classmethod
    def _read_then(cls, value: Any) -> Any:
        """Read `leave` as the quarantine without a queue."""
        if value == "leave":
            return {}
        is_forward = isinstance(value, dict) and value.get("forward") is not None
        if is_forward or isinstance(value, Quarantine) or value == {}:
            return value
        raise ValueError("is neither `leave` nor `forward:` with the name of a queue")
