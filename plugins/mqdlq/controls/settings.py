"""Controls: the keys of a handler's YAML file that keep it from acting on too much at once."""

from mqdlq.controls import Keys
from mqdlq.controls.fixed import UntilFixed
from mqdlq.controls.limits import Limits
from mqdlq.controls.loops import Loops
from mqdlq.controls.ramp import Breaker, Ramp
from mqdlq.controls.repair import Repairs
from mqdlq.controls.sequences import Sequences


class Controls(Keys):
    """The controls of a handler. A run keeps them, as text, from its start to its end."""

    limits: Limits = Limits()
    """How much is moved: see [limits](#limits)."""
    loops: Loops | None = None
    """Quarantine of messages that come back: see [loops](#loops)."""

    ramp: Ramp | None = None
    """Move the messages of a cause in steps: see [ramp](#ramp)."""
    breaker: Breaker | None = None
    """Stop the messages of a cause that come back or fail: see [breaker](#breaker)."""

    hold_until_fixed: UntilFixed | None = None
    """Hold messages while their destination would refuse them, and try none of them: see
    [hold_until_fixed](#hold_until_fixed). It needs `ramp`, so that one message goes first."""

    sequences: Sequences | None = None
    """Keep messages together and in order: see [sequences](#sequences)."""

    repair: Repairs = Repairs()
    """What repairs may change: see [repair](#repair)."""

    @property
    def recognise_returns(self) -> bool:
        return self.loops is not None or self.act_by_cause

    @property
    def reads_headers(self) -> bool:
        """Whether a control needs more of a message than its MQMD and its MQDLH."""
        reads = self.sequences is not None and self.sequences.reads_headers
        return reads or self.recognise_returns

    @property
    def hold_for_a_time(self) -> bool:
        """Whether a control holds messages that a later pass may move."""
        return self.act_by_cause or self.limits.has_pace or self.hold_until_fixed is not None

    @property
    def act_by_cause(self) -> bool:
        return self.ramp is not None or self.breaker is not None

    def controls_text(self) -> str:
        """Return the controls as JSON without defaults, which `read_controls` reads again."""
        fields = set(Controls.model_fields)
        return self.model_dump_json(include=fields, exclude_defaults=True, by_alias=True)


def read_controls(text: str) -> Controls:
    return Controls.model_validate_json(text)
