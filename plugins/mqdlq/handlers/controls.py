"""Controls: the keys of a handler's YAML file that keep it from acting on too much at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mqdlq.handlers.limits import Limits


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

    @property
    def recognise_returns(self) -> bool:
        """Whether a control needs to know which messages have come back."""
        return self.loops is not None

    def controls_text(self) -> str:
        """Return the controls as JSON without defaults, which `read_controls` reads again."""
        fields = set(Controls.model_fields)
        return self.model_dump_json(include=fields, exclude_defaults=True, by_alias=True)


def read_controls(text: str) -> Controls:
    """Return the controls that a run has recorded as text."""
    return Controls.model_validate_json(text)
