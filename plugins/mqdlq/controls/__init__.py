"""Controls of a run: they hold due messages on the queue, or change them on their way.

The rules say what is done with a message; a control only says not now. A message that is held at
the end of its run is `not_attempted`, or has the outcome that the control names, with the reason.
Each folder has one control: its keys in a handler's file, its decision, and its lines in a report.
"""

from pydantic import BaseModel, ConfigDict


class Keys(BaseModel):
    """Keys of a handler's file; others are refused. A docstring below each says what it means."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
