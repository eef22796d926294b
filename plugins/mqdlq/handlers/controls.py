"""Controls: the keys of a handler's YAML file that keep it from acting on too much at once."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mqdlq.handlers.limits import Limits
from mqdlq.handlers.ramps import Breaker, Ramp
from mqdlq.handlers.sequences import Sequences


class Quarantine(BaseModel):
    """The place of quarantined messages: a queue, or the dead-letter queue itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    forward: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._/%]{1,48}$")] = None


class Loops(BaseModel):
    """The limit of round trips, after which no rule moves a message."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[
        int,
        Field(
            ge=1,
            le=20,
            description="A message that has come back so often is quarantined: no rule moves it.",
        ),
    ] = 3
    then: Annotated[
        Quarantine,
        Field(
            description="`leave`: a quarantined message stays on the dead-letter queue."
            " `forward:` with a queue: it is forwarded there with its MQDLH."
        ),
    ] = Quarantine()

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


class Controls(BaseModel):
    """The controls of a handler. A run keeps them, as text, from its start to its end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limits: Annotated[Limits, Field(description="How much is moved: see [limits](#limits).")] = (
        Limits()
    )
    loops: Annotated[
        Loops | None,
        Field(description="Quarantine of messages that come back: see [loops](#loops)."),
    ] = None

    ramp: Annotated[
        Ramp | None,
        Field(description="Move the messages of a cause in steps: see [ramp](#ramp)."),
    ] = None
    breaker: Annotated[
        Breaker | None,
        Field(
            description="Stop the messages of a cause that come back or fail: see"
            " [breaker](#breaker)."
        ),
    ] = None

    sequences: Annotated[
        Sequences | None,
        Field(description="Keep messages together and in order: see [sequences](#sequences)."),
    ] = None

    @property
    def recognise_returns(self) -> bool:
        """Whether a control needs to know which messages have come back."""
        return self.loops is not None or self.act_by_cause

    @property
    def reads_headers(self) -> bool:
        """Whether a control needs more of a message than its MQMD and its MQDLH."""
        reads = self.sequences is not None and self.sequences.reads_headers
        return reads or self.recognise_returns

    @property
    def hold_for_a_time(self) -> bool:
        """Whether a control holds messages that a later pass may move."""
        return self.act_by_cause or self.limits.has_pace

    @property
    def act_by_cause(self) -> bool:
        """Whether a control asks for the causes of messages."""
        return self.ramp is not None or self.breaker is not None

    def controls_text(self) -> str:
        """Return the controls as JSON without defaults, which `read_controls` reads again."""
        fields = set(Controls.model_fields)
        return self.model_dump_json(include=fields, exclude_defaults=True, by_alias=True)


def read_controls(text: str) -> Controls:
    """Return the controls that a run has recorded as text."""
    return Controls.model_validate_json(text)
